/**
 * What `holdfast doctor` checks where locks are in a git repository: git itself, who decides, whether that can be reached
 * and written to, and records or files that stand in the way.
 */
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Chosen } from "../connect.js";
import { CliError, exitCodes } from "../failure.js";
import { durationText } from "../output.js";
import { placeText, type RepositoryPlace } from "../place.js";
import type { Trouble } from "../repository/engine.js";
import { isOfLock } from "../repository/unreadable.js";
import { checkKept } from "./checks-here.js";
import { doubtful, type Finding, failed, fine } from "./finding.js";

/** Older ones lack options that every call has. */
const gitMin = [2, 29] as const;
/** Older ones know no way to sync references to the disk. */
const gitSyncs = [2, 36] as const;
/** How old a lock file is that its writer left behind, in ms. */
const staleMs = 60_000;

export async function* checkRepository(
  authority: NonNullable<Chosen["authority"]>,
): AsyncGenerator<Finding, void, undefined> {
  const { place, from, why } = authority;
  const { loadEngine } = await import("../repository/engine.js");
  const repository = await (await loadEngine()).findRepository(place.cwd, process.env);
  const { gitDir, commonDir, workTree } = repository;
  const kind = workTree === null ? "bare" : gitDir === commonDir ? "" : "a worktree of it";
  yield fine("repository", `repository ${commonDir}${kind === "" ? "" : ` (${kind})`}, used because: ${why}`);
  yield* checkKept(place.stateDir).filter(({ status }) => status === "failed");
  const { stdout } = await repository.git().run(["--version"]);
  yield checkGit(stdout);
  yield fine("authority", `${placeText(place)} decides who holds a lock (from: ${from})`);
  if (place.address !== null) yield addressNote(place.authority, place.address);
  yield* await checkAuthority(place);
}

/** Who fetches from one place and pushes to another may not know which of them the others share. */
const addressNote = (remote: string, address: string): Finding =>
  doubtful(
    "address",
    `pushes to ${remote} go to ${address.replace(/\/\/[^/@]*@/, "//")}, and locks are decided there`,
    "see that all who share the locks push there, too; another remote decides with git config holdfast.authority NAME",
  );

/** Whether what a lock policy asks for is done by anybody here. Nothing is told where there is neither a policy nor a hook. */
export async function checkGuard(): Promise<Finding[]> {
  const { guardStanding, isTold, missingIn } = await import("../guard/standing.js");
  try {
    const standing = await guardStanding();
    if (standing === null || !isTold(standing)) return [];
    const { word, from } = standing.policy;
    const missing = missingIn(standing);
    if (missing.length === 0)
      return [fine("policy", `lock_policy is ${word} (${from}), and the hooks are installed`)];
    return [
      doubtful(
        "policy",
        `lock_policy is ${word} (${from}), and in this clone no hook of Holdfast, or an edited one, runs as ${missing.join(" and ")}`,
        word === "off" ? "holdfast guard uninstall takes the others away" : "holdfast guard install",
      ),
    ];
  } catch (error) {
    if (!(error instanceof CliError)) throw error;
    return [failed("policy", error.message, "correct it: until then commits are refused", error.exitCode)];
  }
}

/** By what `git --version` says. */
export function checkGit(said: string): Finding {
  const [, version = "", major = "0", minor = "0"] = /((\d+)\.(\d+)\S*)/.exec(said) ?? [];
  const isAtLeast = ([wantedMajor, wantedMinor]: readonly [number, number]): boolean =>
    Number(major) > wantedMajor || (Number(major) === wantedMajor && Number(minor) >= wantedMinor);
  if (version === "")
    return failed("git", "git does not run", "install git, and have it on the PATH", exitCodes.storage);
  if (!isAtLeast(gitMin))
    return failed(
      "git",
      `git ${version} is too old`,
      `install git ${gitMin.join(".")} or later`,
      exitCodes.storage,
    );
  if (!isAtLeast(gitSyncs))
    return doubtful(
      "git",
      `git ${version} does not sync references: a power cut may undo a lock that was granted`,
      `install git ${gitSyncs.join(".")} or later`,
    );
  return fine("git", `git ${version}`);
}

async function checkAuthority(place: RepositoryPlace): Promise<Finding[]> {
  const { access } = await import("../repository/access.js");
  const { store } = await access(place);
  const isLocal = place.authority === "local";
  const unreachable = await reasonOf(store.ping());
  if (unreachable !== null)
    return [
      failed(
        "reach",
        unreachable,
        isLocal
          ? "make the repository readable, or mend it: git fsck"
          : `try: git ls-remote ${place.authority}. Its address: git remote get-url ${place.authority}`,
        exitCodes.storage,
      ),
    ];
  const refused = await reasonOf(store.probe());
  const findings = [
    fine("reach", isLocal ? "the references can be read" : `the remote ${place.authority} answers`),
    refused === null
      ? fine("write", "lock references may be written (one was written and removed)")
      : failed("write", refused, writeAdvice(isLocal), exitCodes.storage),
    clockNote(place.skewMs),
  ];
  const troubles = (await store.troubles()).map(troubleFinding);
  return [...findings, ...troubles, ...staleFiles(place.commonDir).map(staleFinding)];
}

const writeAdvice = (isLocal: boolean): string =>
  isLocal
    ? "make the repository's directory writable for you"
    : "ask for the right to push refs/holdfast/*, or decide by another: git config holdfast.authority NAME";

/** Nobody's clock is believed further than this. */
function clockNote(skewMs: number | null): Finding {
  const skew = skewMs === null ? "" : ` (holdfast.skew: ${durationText(skewMs)})`;
  return fine(
    "clock",
    `clocks need not agree: a lock passes on only after it was seen unchanged here${skew}`,
  );
}

function troubleFinding({ what, resource, ref, details }: Trouble): Finding {
  const isLock = isOfLock({ ref });
  const name = isLock ? `the record of ${resource ?? "a lock"} (${ref})` : ref;
  if (what === "future") return doubtful("records", `${name}: ${details}`, "set the clock that is wrong");
  if (what === "newer")
    return failed(
      "records",
      isLock ? `${name} cannot be read: ${details}` : `${name}: ${details}`,
      "update Holdfast here",
      exitCodes.storage,
    );
  const until = isLock ? "nobody can take it" : "nothing is granted";
  return failed(
    "records",
    isLock ? `${name} is damaged: ${details}` : `${name}: ${details}`,
    `${until} until it is removed: git update-ref -d ${ref}, or at a remote git push REMOTE :${ref}`,
    exitCodes.storage,
  );
}

/** Left behind by a git process that was killed: they stop whoever wants to change the same reference. */
function staleFiles(commonDir: string): string[] {
  const dir = join(commonDir, "refs", "holdfast");
  let names: string[];
  try {
    names = readdirSync(dir, { recursive: true, encoding: "utf8" });
  } catch {
    return [];
  }
  return [...names.map((name) => join(dir, name)), join(commonDir, "packed-refs.lock")].filter(
    (file) => file.endsWith(".lock") && ageOf(file) > staleMs,
  );
}

const ageOf = (file: string): number =>
  Date.now() - (statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? Date.now());

const staleFinding = (file: string): Finding =>
  failed(
    "files",
    `${file} was left behind ${durationText(ageOf(file))} ago and stops changes`,
    `if no git runs in this repository: rm '${file}'`,
    exitCodes.storage,
  );

async function reasonOf(attempt: Promise<void>): Promise<string | null> {
  try {
    await attempt;
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
