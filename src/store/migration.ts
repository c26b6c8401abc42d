/**
 * Carries all data from one store to another. The source is sealed before the first record is read, for ever, so that nothing is granted in
 * two places; the target can be used only when it is complete. Every step can be done again: whoever was stopped on the way runs it once
 * more and ends up in the same place. Engine time goes on from the moment of the seal, so a lease keeps what was left of it, or gets a little more.
 */
import type { Key } from "../core/keys.js";
import type { AnyRecord } from "../core/records.js";
import {
  arrivingWord,
  type Found,
  isPassing,
  movedWord,
  readArriving,
  refuseClosed,
  type Source,
  type Target,
} from "./archive.js";

/** Records read and written together: some hundred kilobytes. */
const pageRecords = 500;

/** The two cannot be brought together, and nothing was changed by asking. */
export class MigrationConflict extends Error {
  override readonly name = "MigrationConflict";
}

export interface Summary {
  readonly counts: Readonly<Record<string, number>>;
  readonly records: number;
  /** Leases that are not over. */
  readonly leases: number;
  /** An earlier run had done it all. */
  readonly isRepeated: boolean;
}

export interface MigrationOptions {
  /** A new name for this migration, if it is one: eight hexadecimal digits. */
  readonly newId: () => string;
  readonly monotonic: () => number;
  /** Told before each step. */
  readonly tell: (step: string) => void;
}

export async function migrate(source: Source, target: Target, options: MigrationOptions): Promise<Summary> {
  const { tell, monotonic } = options;
  tell(`looking at ${source.location} and ${target.location}`);
  const { id, state } = judge(source, await source.closed(), target, await target.look(), options.newId);
  const word = arrivingWord(id, source.epoch);
  if (state === "new") {
    tell(`closing ${target.location} until it is complete`);
    await target.begin(word);
  }
  if (state !== "done") {
    tell(`sealing ${source.location}: nothing is granted there any more`);
    const moved = movedWord(target.location, id);
    const counts = await source.seal(moved);
    if (!endsWith(counts, id))
      throw new MigrationConflict(
        `${source.location} was just moved to ${counts} by another migration: use that. ${target.location} holds nothing and stays closed: remove it`,
      );
  }
  const clock = await source.clock();
  const sealedAt = monotonic();
  const tally = new Tally(clock);
  for (let after: Key = ""; ; ) {
    const page = await source.page(after, pageRecords);
    const wanted = page.filter(({ key }) => !isPassing(key));
    if (state !== "done" && wanted.length > 0) {
      tell(`copying ${wanted.length} records after ${tally.records}`);
      await target.put(word, wanted);
    }
    for (const { record } of wanted) tally.count(record);
    const last = page.at(-1);
    if (last === undefined || page.length < pageRecords) break;
    after = last.key;
  }
  if (state !== "done") {
    tell(`opening ${target.location}`);
    const { records, tokenHigh } = tally;
    await target.finish(word, { clock: clock + Math.floor(monotonic() - sealedAt), tokenHigh, records });
  }
  tell("done");
  return { ...tally.summary(), isRepeated: state === "done" };
}

const endsWith = (moved: string, id: string): boolean => moved.endsWith(`(migration ${id})`);

interface Judged {
  readonly id: string;
  /** begun: by an earlier run that did not end. */
  readonly state: "new" | "begun" | "done";
}

/** Whether the one may be carried to the other, and how far that has come. */
function judge(
  source: Source,
  moved: string | null,
  target: Target,
  found: Found,
  newId: () => string,
): Judged {
  const conflict = (why: string): never => {
    throw new MigrationConflict(`${why}. Nothing was changed`);
  };
  if (source.epoch === target.epoch) conflict(`${source.location} and ${target.location} are the same data`);
  if (readArriving(moved) !== null) refuseClosed(source.location, moved);
  const origin = readArriving(found.origin);
  const arriving = readArriving(found.closed);
  const isOurs = ({ id, sourceEpoch }: { id: string; sourceEpoch: string }): boolean =>
    sourceEpoch === source.epoch && (moved === null || endsWith(moved, id));
  if (moved !== null && origin !== null && isOurs(origin)) return { id: origin.id, state: "done" };
  if (arriving !== null && isOurs(arriving)) return { id: arriving.id, state: "begun" };
  if (moved !== null)
    conflict(
      `${source.location} was moved to ${moved} before, and ${target.location} is not where that was begun: name the same --to as then`,
    );
  if (arriving !== null)
    conflict(
      `${target.location} holds part of other data, from a migration that has not ended: end that one, or name another place`,
    );
  refuseClosed(target.location, found.closed);
  if (found.occupant !== null) conflict(`${target.location} is not empty: name an empty place`);
  if (found.isServed)
    conflict(`a server is running on ${target.location}: stop it first, and start it again afterwards`);
  return { id: newId(), state: "new" };
}

class Tally {
  readonly #counts = new Map<string, number>();
  #records = 0;
  #leases = 0;
  #tokenHigh = 0;

  constructor(readonly clock: number) {}

  get records(): number {
    return this.#records;
  }

  /** The highest fencing token that was ever granted, as far as the data knows. */
  get tokenHigh(): number {
    return this.#tokenHigh;
  }

  count(record: AnyRecord): void {
    this.#records++;
    this.#counts.set(record.kind, (this.#counts.get(record.kind) ?? 0) + 1);
    if (record.kind === "lock" || record.kind === "floor")
      this.#tokenHigh = Math.max(this.#tokenHigh, record.token);
    if (record.kind === "lock" && record.lease !== null)
      if (record.lease.expiresAt === null || record.lease.expiresAt >= this.clock) this.#leases++;
  }

  summary(): Omit<Summary, "isRepeated"> {
    const counts = Object.fromEntries([...this.#counts].sort(([a], [b]) => (a < b ? -1 : 1)));
    return { counts, records: this.#records, leases: this.#leases };
  }
}
