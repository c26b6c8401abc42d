// What tests of locks in a repository share: real repositories and clones, in an environment where no user's settings
// reach, the engine opened on them, and what a caller asks of it.
import { execFileSync, spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { policyDefault } from "../src/core/limits.js";
import { type GitOptions, openGit } from "../src/engines/git/open.js";
import { findRepository } from "../src/engines/git/repository.js";
import type { GitStore } from "../src/engines/git/store.js";
import { SoloLeases } from "../src/service/solo-leases.js";
import { claim, space } from "./store-lab.js";

/** Nothing of the machine's own settings. */
export const gitEnv: NodeJS.ProcessEnv = {
  ...Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^GIT_|^NODE_TEST_CONTEXT$/.test(name)),
  ),
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_AUTHOR_NAME: "Test",
  GIT_AUTHOR_EMAIL: "test@example.org",
  GIT_COMMITTER_NAME: "Test",
  GIT_COMMITTER_EMAIL: "test@example.org",
};

export function git(dir: string, ...args: string[]): string {
  return execFileSync("git", args, { cwd: dir, env: gitEnv, encoding: "utf8", stdio: "pipe" }).trimEnd();
}

/** Like `git`, for what may fail. */
export function tryGit(dir: string, ...args: string[]): { code: number | null; said: string } {
  const { status, stdout, stderr } = spawnSync("git", args, { cwd: dir, env: gitEnv, encoding: "utf8" });
  return { code: status, said: stdout + stderr };
}

/** A repository with one commit. */
export function newRepository(dir: string, ...options: string[]): string {
  mkdirSync(dir, { recursive: true });
  git(dir, "init", "--quiet", "--initial-branch=main", ...options);
  writeFileSync(join(dir, "README"), "a project\n");
  git(dir, "add", ".");
  git(dir, "commit", "--quiet", "--message=first");
  return dir;
}

/** A bare repository with one commit, and as many clones of it. */
export function newRemote(dir: string, clones: number, ...options: string[]): Remote {
  const bare = join(dir, "remote.git");
  git(dir, "init", "--quiet", "--bare", "--initial-branch=main", ...options, bare);
  const first = newRepository(join(dir, "clone-0"), ...options);
  git(first, "remote", "add", "origin", bare);
  git(first, "push", "--quiet", "--set-upstream", "origin", "main");
  const others = Array.from({ length: clones - 1 }, (_, i) => newClone(bare, join(dir, `clone-${i + 1}`)));
  return { bare, clones: [first, ...others] };
}

export interface Remote {
  readonly bare: string;
  readonly clones: readonly string[];
}

export function newClone(bare: string, dir: string, ...options: string[]): string {
  git(join(dir, ".."), "clone", "--quiet", ...options, bare, dir);
  return dir;
}

/** Processes whose directory this is, or lies below it. */
export function processesIn(dir: string): { readonly pid: number; readonly args: string }[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .flatMap((pid) => {
      try {
        if (!`${readlinkSync(`/proc/${pid}/cwd`)}/`.startsWith(`${join(dir)}/`)) return [];
        const args = readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
        // One that ended and was not yet taken note of has none.
        return args === "" ? [] : [{ pid: Number(pid), args }];
      } catch {
        return [];
      }
    });
}

export interface OpenOptions extends Partial<GitOptions> {
  readonly env?: NodeJS.ProcessEnv;
}

export function openAt(dir: string, options: OpenOptions = {}): GitStore {
  const { env = gitEnv, ...rest } = options;
  return openGit(findRepository(dir, env), { authority: "local", session: null, ...rest });
}

/** One who asks for locks, with a lease id of its own. */
export class Asker {
  readonly leases: SoloLeases;
  leaseId = "";
  token = 0;

  constructor(
    readonly store: GitStore,
    readonly principal: string,
    policy = policyDefault,
  ) {
    this.leases = new SoloLeases(store, policy);
  }

  /** The token, or who holds it, or the word of the refusal. */
  async acquire(name: string, ttlMs = 60_000): Promise<number | string> {
    const leaseId = randomUUID();
    const wanted = claim(name, { principal: this.principal, leaseId, ttlMs });
    const outcome = await this.leases.acquire(wanted, null);
    if ("granted" in outcome) {
      this.leaseId = leaseId;
      this.token = outcome.granted.lock.token;
      return this.token;
    }
    return outcome.refused === "held" ? `held by ${outcome.holding.lock.lease.principal}` : outcome.refused;
  }

  async renew(name: string, ttlMs: number | null = null): Promise<string> {
    const { principal, leaseId } = this;
    const outcome = await this.leases.renew({ space, name, principal, leaseId, ttlMs });
    return "renewed" in outcome ? "renewed" : outcome.refused;
  }

  async release(name: string): Promise<string> {
    const { principal, leaseId } = this;
    const outcome = await this.leases.release({
      space,
      name,
      principal,
      leaseId,
      outcome: null,
      note: null,
      repeatable: false,
      call: randomUUID(),
    });
    return "released" in outcome ? "released" : outcome.refused;
  }

  async list(prefix = ""): Promise<string[]> {
    const holdings = await this.leases.list(space, prefix);
    return holdings.map(({ lock }) => `${lock.name} ${lock.lease.principal} ${lock.token}`);
  }
}
