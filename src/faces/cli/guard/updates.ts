/**
 * What a push touches, by the lines that git gives its hooks: pre-push before it is sent, pre-receive where it arrives. Each
 * branch is compared with where it stood over there; a new one with all that is over there already.
 */
import { printable } from "../../../core/names.js";
import { CliError, exitCodes } from "../failure.js";
import { gitRecords, tryGit } from "./git.js";
import { isNone } from "./range.js";
import { addCommits, type Touched } from "./touched.js";

export interface Update {
  readonly ref: string;
  /** Where it stood; null: it is new. */
  readonly from: string | null;
  /** Null: it is deleted. */
  readonly to: string | null;
}

export type Hook = "pre-push" | "pre-receive";

/** Locks that are kept in a repository are pushed, too, and are no files. */
const ownRefs = "refs/holdfast/";

export function updatesIn(text: string, hook: Hook): Update[] {
  const lines = text.split("\n").filter((line) => line !== "");
  return lines
    .map((line) => {
      const fields = line.split(" ");
      const [to = "", ref = "", from = ""] =
        hook === "pre-push" ? fields.slice(1) : [fields[1], fields[2], fields[0]];
      if (fields.length !== (hook === "pre-push" ? 4 : 3) || !isId(to) || !isId(from))
        throw new CliError(
          `--${hook}: standard input has a line that git's hook of this name does not get: ${JSON.stringify(line)}`,
          exitCodes.usage,
        );
      return { ref, from: isNone(from) ? null : from, to: isNone(to) ? null : to };
    })
    .filter(({ ref }) => !ref.startsWith(ownRefs));
}

const isId = (text: string): boolean => /^[0-9a-f]{40}(?:[0-9a-f]{24})?$/.test(text);

export interface Receiver {
  /** For people. */
  readonly name: string;
  /** For `git rev-list`: refs that say what it has already. */
  readonly has: readonly string[];
}

/** Where it is called by its address, nothing here says what it has. */
export async function receiverOf(remote: string): Promise<Receiver> {
  const { code } = await tryGit(["config", "--get-all", `remote.${remote}.url`]);
  return code === 0 ? { name: remote, has: [`--remotes=${remote}`] } : { name: remote, has: [] };
}

/** Where a push arrives: its new commits are there, and no ref has them yet. */
export const thisRepository: Receiver = { name: "this repository", has: ["--all"] };

export async function addUpdates(
  touched: Touched,
  updates: readonly Update[],
  receiver: Receiver,
): Promise<void> {
  const present = await commitsAmong(updates.flatMap(({ from, to }) => [from, to]));
  const olds = updates.flatMap(({ from }) => present.get(from ?? "") ?? []);
  const fresh: string[] = [];
  for (const { ref, from, to } of updates) {
    // A tag may name what is no commit: then no commit's paths come with it.
    const end = present.get(to ?? "");
    if (end === undefined) continue;
    const start = present.get(from ?? "");
    if (start !== undefined) await addCommits(touched, { of: [end], not: [start] }, [[end, start]]);
    else {
      fresh.push(end);
      const note = from === null ? notNamed(ref, receiver) : notFetched(ref, from, receiver);
      if (note !== null) touched.notes.push(note);
    }
  }
  if (fresh.length > 0) await addCommits(touched, { of: fresh, not: olds, notRefs: receiver.has });
}

const notNamed = (ref: string, { name, has }: Receiver): string | null =>
  has.length > 0
    ? null
    : `${printable(ref)} is new at ${printable(name)}, of which nothing is known here: every commit of it counts. git remote add gives it a name, and git fetch tells what it has`;

function notFetched(ref: string, from: string, { name, has }: Receiver): string {
  const instead = has.length > 0 ? "all that was ever fetched from there" : "nothing: every commit counts";
  return `${printable(ref)} stands at ${from.slice(0, 12)} at ${printable(name)}, which is not here: compared with ${instead}. git fetch makes it exact`;
}

/** Those that are here: their commits, by the ids that were asked for. All in one run, however many there are. */
async function commitsAmong(ids: readonly (string | null)[]): Promise<Map<string, string>> {
  const wanted = [...new Set(ids)].filter((id) => id !== null);
  const found = new Map<string, string>();
  const asked = wanted.map((id) => `${id}^{commit}\n`);
  let at = 0;
  for await (const line of gitRecords(["cat-file", "--batch-check=%(objectname)"], "\n", asked)) {
    const answer = line.toString("latin1");
    const id = wanted[at];
    if (id !== undefined && isId(answer)) found.set(id, answer);
    at += 1;
  }
  return found;
}
