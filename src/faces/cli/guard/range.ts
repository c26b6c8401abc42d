/** `--range A..B`: what the commits of B that are not in A touch. For a CI, where nobody has passed a hook by. */
import { CliError, exitCodes } from "../failure.js";
import { tryGit } from "./git.js";
import { addCommits, commitOf, type Touched } from "./touched.js";

/** In place of a commit's id: none. Of either length that git has. */
export const isNone = (id: string): boolean => /^(?:0{40}|0{64})$/.test(id);

export async function addRange(touched: Touched, range: string): Promise<void> {
  const [, from, to] = /^(.*[^.]|)\.\.([^.].*|)$/su.exec(range) ?? [];
  if (from === undefined || to === undefined)
    throw new CliError(
      `--range ${JSON.stringify(range)}: give two revisions as origin/main..HEAD`,
      exitCodes.usage,
    );
  if (isNone(to)) return;
  const end = await revision(to || "HEAD");
  if (isNone(from)) {
    touched.notes.push(
      `the range has no start: every commit of ${to || "HEAD"} counts. Name the branch that it goes to, as origin/main..${to || "HEAD"}`,
    );
    return addCommits(touched, { of: [end], not: [] });
  }
  const start = await revision(from || "HEAD");
  const isBehind = (await tryGit(["merge-base", "--is-ancestor", start, end])).code === 0;
  // A merge may have dropped what its second parent changed, which no commit tells; where the two have parted, the start
  // has gone on by itself, and what it changed since is none of the range's doing.
  await addCommits(touched, { of: [end], not: [start] }, isBehind ? [[end, start]] : []);
}

async function revision(name: string): Promise<string> {
  const id = name.startsWith("-") ? null : await commitOf(name);
  if (id !== null) return id;
  throw new CliError(
    `--range: ${JSON.stringify(name)} is no commit here. A clone may hold only the newest ones: git fetch --unshallow gets the others`,
    exitCodes.usage,
  );
}
