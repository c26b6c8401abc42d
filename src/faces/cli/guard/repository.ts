/** The repository that this command, or the hook that it runs for, is in. */
import { resolve } from "node:path";
import { CliError, exitCodes } from "../failure.js";
import { git, tryGit } from "./git.js";

export interface Repository {
  /** The top of this work tree; null in a bare repository. */
  readonly root: string | null;
  /** Shared by all its work trees: settings and hooks. */
  readonly commonDir: string;
}

export async function repositoryHere(): Promise<Repository> {
  const [bare, common, top] = await Promise.all(
    ["--is-bare-repository", "--git-common-dir", "--show-toplevel"].map((what) =>
      tryGit(["rev-parse", what]),
    ),
  );
  if (common === undefined || common.code !== 0)
    throw new CliError(whyNone(common?.complaint ?? ""), exitCodes.usage, { code: "no_repository" });
  const commonDir = resolve(common.text);
  if (top?.code === 0 && top.text !== "") return { root: resolve(top.text), commonDir };
  if (bare?.text === "true") return { root: null, commonDir };
  throw new CliError(
    "this is within the repository's own files: go to its work tree, and repeat it there",
    exitCodes.usage,
    { code: "no_work_tree" },
  );
}

/** Git has reasons of its own to refuse one, such as another owner, and says what to do about them. */
const whyNone = (complaint: string): string =>
  /not a git repository/i.test(complaint)
    ? "this is no git repository: go to one, and repeat it there"
    : `git does not open the repository: ${complaint.replace(/^fatal: /, "").replace(/\s+/g, " ")}`;

/** Tops of all its work trees, this one and others. */
export async function workTreesOf({ root }: Repository): Promise<string[]> {
  const listed = await git(["worktree", "list", "--porcelain"]);
  const others = listed.split("\n").flatMap((line) => /^worktree (.+)$/.exec(line)?.[1] ?? []);
  return root === null ? others : [root, ...others];
}
