/**
 * Which of a repository's places decides who holds a lock: this clone, or one of its remotes. Always by name: a project
 * file, or a flag copied from somewhere, must not be able to send locks to an address that nobody has set up here.
 */
import { existsSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import type { Repository } from "../../../engines/open.js";
import { StoreError } from "../../../store/store.js";
import { CliError, exitCodes } from "../failure.js";
import type { Project } from "../project-file.js";
import type { Environment, Setting } from "../settings.js";
import { loadEngine } from "./engine.js";

export const localAuthority = "local";

export interface Choice {
  readonly repository: Repository;
  readonly authority: Setting;
  /** Where pushes to that remote go, if not simply to where it is fetched from; else null. */
  readonly address: string | null;
  readonly skewMs: number | null;
}

/** Whether commands work on a repository here if nobody says otherwise. */
export function isInRepository(cwd: string, env: Environment): boolean {
  if (env["GIT_DIR"]) return true;
  for (let at = resolve(cwd); ; at = dirname(at)) {
    if (existsSync(join(at, ".git")) || isBare(at)) return true;
    if (dirname(at) === at) return false;
  }
}

const isBare = (dir: string): boolean =>
  ["HEAD", "objects", "refs"].every((name) => existsSync(join(dir, name)));

/** `named`: what `--git` said; empty or undefined: no name. */
export async function chooseRepository(
  named: string | undefined,
  project: Project,
  cwd: string,
  env: Environment,
): Promise<Choice> {
  const repository = await repositoryAt(cwd, env);
  // The one that needs no look at the repository's configuration: scripts in a loop use it.
  if (named === localAuthority)
    return { repository, authority: { value: localAuthority, from: "--git" }, address: null, skewMs: null };
  const { remotes, rerouted, authority: configured, skewMs } = await settingsOf(repository);
  const wished = wishOf(named, project, configured, repository);
  if (wished !== null) refuseUnknown(wished, remotes);
  const usual = remotes.includes("origin")
    ? { value: "origin", from: "the repository has a remote of that name" }
    : { value: localAuthority, from: "the repository has no remote origin" };
  const authority = wished ?? usual;
  const address = rerouted.includes(authority.value) ? await onlyAddress(repository, authority.value) : null;
  return { repository, authority, address, skewMs };
}

/** Two places that are pushed to one after the other are no compare-and-swap. */
async function onlyAddress(repository: Repository, remote: string): Promise<string | null> {
  const [address = null, ...more] = await repository.pushAddresses(remote);
  if (more.length === 0) return address;
  throw new CliError(
    `${remote} is pushed to at ${more.length + 1} addresses, and one must decide: give that one a name with git remote add NAME URL, and use --git=NAME or git config holdfast.authority NAME`,
    exitCodes.usage,
  );
}

async function repositoryAt(cwd: string, env: Environment): Promise<Repository> {
  const { findRepository } = await loadEngine();
  try {
    return await findRepository(cwd, env as NodeJS.ProcessEnv);
  } catch (error) {
    if (!(error instanceof StoreError) || error.kind !== "unsupported") throw error;
    // One that is there and cannot be used is another trouble than none.
    throw new CliError(error.message, isInRepository(cwd, env) ? exitCodes.storage : exitCodes.usage);
  }
}

async function settingsOf(repository: Repository): ReturnType<Repository["settings"]> {
  try {
    return await repository.settings();
  } catch (error) {
    if (!(error instanceof StoreError) || error.kind !== "unsupported") throw error;
    throw new CliError(error.message, exitCodes.usage);
  }
}

/** What somebody asked for, the nearest first. */
function wishOf(
  named: string | undefined,
  project: Project,
  configured: string | null,
  { workTree }: Repository,
): Setting | null {
  if (named) return { value: named, from: `--git=${named}` };
  const { authority } = project.values;
  // One above the repository is another project's.
  if (typeof authority === "string" && project.file !== null && isWithin(project.file, workTree))
    return { value: authority, from: project.file };
  return configured === null ? null : { value: configured, from: "git config holdfast.authority" };
}

const isWithin = (file: string, dir: string | null): boolean =>
  dir !== null && !/^\.\.(?:[\\/]|$)|^[\\/]|^[A-Za-z]:/.test(relative(dir, file));

function refuseUnknown({ value, from }: Setting, remotes: readonly string[]): void {
  if (value === localAuthority || remotes.includes(value)) return;
  const there = remotes.length === 0 ? "there is none here yet" : `here: ${remotes.join(", ")}`;
  const advice = /[:\\]|^[./~]/.test(value)
    ? "an address is not taken. Give it a name with git remote add NAME URL, and use that"
    : `no remote has this name (${there}). Add it with git remote add, or use local for locks of this clone alone`;
  throw new CliError(`${from}: ${JSON.stringify(value)}: ${advice}`, exitCodes.usage);
}
