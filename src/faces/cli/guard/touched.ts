/**
 * Which paths a commit, a range of commits or a list names. Renames are not looked for: so a renamed file counts by its
 * old name, as deleted, and by its new one, as added. Names are taken as bytes between NULs, never as lines.
 */
import { isUtf8 } from "node:buffer";
import { isAbsolute, posix, relative, sep } from "node:path";
import { CliError, exitCodes } from "../failure.js";
import { git, gitRecords, tryGit } from "./git.js";

export class Touched {
  readonly paths = new Set<string>();
  /** Names that are no text, as far as they can be shown. */
  readonly noText = new Set<string>();
  /** What could not be told exactly, and what was done instead. */
  readonly notes: string[] = [];

  get size(): number {
    return this.paths.size + this.noText.size;
  }

  async addAll(records: AsyncIterable<Buffer>): Promise<void> {
    for await (const record of records) {
      if (record.length > 0) (isUtf8(record) ? this.paths : this.noText).add(record.toString("utf8"));
    }
  }
}

/** Every changed entry by its own name, links to other repositories among them, whatever the settings for `git diff`. */
const names = ["-z", "--name-only", "--no-renames", "--ignore-submodules=none"];

/** What the commit that is being made changes. Git tells its hook which index that is, also for `-a` and `-- paths`. */
export async function addStaged(touched: Touched): Promise<void> {
  const base = (await commitOf("HEAD")) ?? (await git(["hash-object", "-t", "tree", "--stdin"]));
  await touched.addAll(gitRecords(["diff-index", "--cached", ...names, base, "--"], "\0"));
}

/** The commit's id, or null where there is none of that name. */
export async function commitOf(revision: string): Promise<string | null> {
  const { code, text } = await tryGit(["rev-parse", "--quiet", "--verify", `${revision}^{commit}`]);
  return code === 0 ? text : null;
}

export interface Commits {
  readonly of: readonly string[];
  readonly not: readonly string[];
  /** Further arguments of `git rev-list` for what does not count, as `--remotes=origin`. */
  readonly notRefs?: readonly string[];
}

/**
 * What each commit changes by itself, so that a change and its taking back both count; a merge compared with its first
 * parent. `steps` are compared as well, as if the second were the first's parent.
 */
export async function addCommits(
  touched: Touched,
  commits: Commits | null,
  steps: readonly (readonly [to: string, from: string])[] = [],
): Promise<void> {
  async function* pairs(): AsyncGenerator<string> {
    for (const [to, from] of steps) yield `${to} ${from}\n`;
    if (commits === null) return;
    const { of, not, notRefs = [] } = commits;
    const listed = gitRecords(
      ["rev-list", "--parents", "--stdin", ...(notRefs.length === 0 ? [] : ["--not", ...notRefs])],
      "\n",
      [...of.map((id) => `${id}\n`), ...not.map((id) => `^${id}\n`)],
    );
    // The commit and its first parent; a first commit stands alone, and is compared with nothing.
    for await (const line of listed) yield `${line.toString("latin1").split(" ", 2).join(" ")}\n`;
  }
  const compare = ["diff-tree", "--stdin", "-r", "--root", "--no-commit-id", ...names];
  await touched.addAll(gitRecords(compare, "\0", pairs()));
}

/** Paths as they are typed here, as names from the top of the work tree. They need not exist: one may be deleted. */
export async function addNamed(touched: Touched, typed: readonly string[], root: string): Promise<void> {
  const prefix = await git(["rev-parse", "--show-prefix"]);
  for (const one of typed) {
    const below = isAbsolute(one) ? relative(root, one) : posix.join(prefix, one.split(sep).join("/"));
    const path = posix.normalize(below.split(sep).join("/")).replace(/\/$/, "");
    if (one === "" || path === "." || path === ".." || path.startsWith("../"))
      throw new CliError(
        `${JSON.stringify(one)} is no path below ${root}: name files or directories in it`,
        exitCodes.usage,
      );
    touched.paths.add(path);
  }
}
