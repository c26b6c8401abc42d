/**
 * What the decisions of one batch see: a reading of the shared data, and over it what those before them in the batch have
 * written. Each view remembers what its decision relied on, to be compared when the batch is committed.
 */
import type { Decide, Decided, Range, RangeRow, View, Write } from "../core/decision.js";
import type { Key } from "../core/keys.js";
import type { AnyRecord } from "../core/records.js";
import { Ordered } from "./ordered.js";
import type { Commit, Guarded, Reading } from "./shared-data.js";
import type { ListRow } from "./store.js";

/** Rows read beyond what was asked for: as many may be taken by earlier decisions of a batch before a later one lacks any. */
export const rowsAhead = 16;

/** What was read does not suffice after what others of the batch have taken of it: to be read anew. */
export class Stale {}

export const rangeName = (range: Range): string => `${range.index} ${range.from} ${range.to} ${range.limit}`;

/** What the decisions of a batch have written so far. */
export class Overlay {
  readonly #ordered = new Ordered();
  #isEmpty = true;

  apply(writes: readonly Write[]): void {
    if (writes.length === 0) return;
    this.#ordered.apply(writes, 0);
    this.#isEmpty = false;
  }

  /** undefined: it was not written. */
  get(key: Key): AnyRecord | null | undefined {
    return this.#ordered.records.get(key)?.value;
  }

  /** Entries that were put (with their key) or dropped (null) within a range. */
  changes(range: Range): ReadonlyMap<string, Key | null> {
    const changes = new Map<string, Key | null>();
    if (!this.#isEmpty)
      for (const { sort, slot } of this.#ordered.entries(range)) changes.set(sort, slot.value);
    return changes;
  }
}

export class BatchView implements View {
  readonly isShared = true;
  readonly versions = new Map<Key, number>();
  readonly guarded: Guarded[] = [];
  /** Something that is not durable yet was read. */
  hasSeenOverlay = false;

  constructor(
    readonly reading: Reading,
    /** By name; what is here was asked for before. */
    readonly ranges: ReadonlyMap<string, readonly RangeRow[]>,
    readonly overlay: Overlay,
    readonly room: NonNullable<View["room"]>,
    readonly now: number,
    readonly earliest: number,
  ) {}

  get<R extends AnyRecord>(key: Key<R>): R | null | undefined {
    const written = this.overlay.get(key);
    if (written !== undefined) {
      this.hasSeenOverlay = true;
      return written as R | null;
    }
    const found = this.reading.records.get(key);
    if (found === undefined) return undefined;
    this.versions.set(key, found.version);
    return found.record as R | null;
  }

  range(range: Range): readonly RangeRow[] | undefined {
    const read = this.ranges.get(rangeName(range));
    if (read === undefined) return undefined;
    const isAll = read.length < range.limit + rowsAhead;
    const rows = this.#merged(range, read);
    if (rows.length < range.limit && !isAll) throw new Stale();
    const seen = rows.slice(0, range.limit);
    this.#guard(range, read, rows.length > seen.length || !isAll ? seen.at(-1)?.sort : undefined);
    return seen;
  }

  /** Beyond the last row that was read nothing is known, so nothing that was put there counts. */
  #merged(range: Range, read: readonly RangeRow[]): readonly RangeRow[] {
    const changes = this.overlay.changes(range);
    if (changes.size === 0) return read;
    this.hasSeenOverlay = true;
    const isAll = read.length < range.limit + rowsAhead;
    const end = isAll ? range.to : (read.at(-1)?.sort ?? range.from);
    const rows = read.filter(({ sort }) => !changes.has(sort));
    for (const [sort, key] of changes) if (key !== null && sort <= end) rows.push({ sort, key });
    return rows.sort((a, b) => (a.sort < b.sort ? -1 : 1));
  }

  /** Relied on: the entries up to the last one that was seen, or all of the range. */
  #guard({ index, from, to }: Range, read: readonly RangeRow[], last: string | undefined): void {
    const rows = last === undefined ? read : read.filter(({ sort }) => sort <= last);
    this.guarded.push({ index, from, to: last === undefined ? to : `${last}\u0000`, rows });
  }
}

/** A key that was read anew within a batch has one version, and ranges of the same name one guard that covers most. */
export function commitOf(
  pending: readonly { readonly view: BatchView; readonly decided: Decided<unknown> }[],
  { revision, clock }: Reading,
): Commit {
  const versions = new Map<Key, number>();
  const guarded = new Map<string, Guarded>();
  for (const { view } of pending) {
    for (const [key, version] of view.versions) versions.set(key, version);
    for (const guard of view.guarded) guarded.set(`${guard.index} ${guard.from} ${guard.to}`, guard);
  }
  return {
    revision,
    clock,
    versions,
    guarded: [...guarded.values()],
    writes: pending.flatMap(({ decided }) => decided.writes),
    events: pending.flatMap(({ decided }) => decided.events),
  };
}

/** The rows of a range with their records, all of one moment. */
export const decideList =
  (range: Range): Decide<readonly ListRow[]> =>
  (view) => {
    const rows = view.range(range);
    if (rows === undefined) return { need: [range] };
    const missing = rows.filter(({ key }) => view.get(key) === undefined).map(({ key }) => key);
    if (missing.length > 0) return { need: missing };
    const reply = rows.flatMap(({ sort, key }) => {
      const record = view.get(key);
      return record ? [{ sort, record }] : [];
    });
    return { reply, writes: [], events: [] };
  };
