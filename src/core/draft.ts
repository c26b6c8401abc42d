/**
 * A decision in the making. Rules read and change records through a draft; it remembers what was there before,
 * so that each record is written once with exactly the index entries that changed. Asking for something that is
 * not loaded ends the attempt: `deciding` turns that into `need`.
 */
import type { Ask, Decision, Range, RangeRow, View, Write } from "./decision.js";
import { assertRecord } from "./invariants.js";
import { type IndexEntry, indexEntries, type Key } from "./keys.js";
import { changesPerNeighbour, type Policy, rangeMax, reliesBeside, reliesPerRow } from "./limits.js";
import type { AnyRecord, FeedEvent } from "./records.js";

class Unloaded {
  constructor(readonly asks: readonly Ask[]) {}
}

const nothing: readonly never[] = [];
const boundless = { relies: Number.POSITIVE_INFINITY, changes: Number.POSITIVE_INFINITY };

export class Draft {
  readonly now: number;
  readonly earliest: number;
  readonly isShared: boolean;
  /** Most rows that a step over many takes at once. */
  readonly rowsMax: number;
  /** Most records that one step looks at for a single answer. */
  readonly searchMax: number;
  /** Most neighbours that a node may have: all of them change when its status does. */
  readonly neighboursMax: number;
  readonly events: FeedEvent[] = [];
  readonly #view: View;
  readonly #before = new Map<Key, AnyRecord | null>();
  readonly #after = new Map<Key, AnyRecord | null>();

  constructor(
    view: View,
    readonly policy: Policy,
  ) {
    this.#view = view;
    this.now = view.now;
    this.earliest = view.earliest;
    this.isShared = view.isShared === true;
    const { relies, changes } = view.room ?? boundless;
    this.rowsMax = Math.max(1, Math.min(rangeMax, Math.floor(relies / reliesPerRow)));
    this.searchMax = Math.max(1, relies - reliesBeside);
    const free = Math.floor((changes - reliesBeside) / changesPerNeighbour);
    this.neighboursMax = Math.max(1, Math.min(this.searchMax, free));
  }

  get<R extends AnyRecord>(key: Key<R>): R | null {
    const changed = this.#after.get(key);
    if (changed !== undefined) return changed as R | null;
    const record = this.#view.get(key);
    if (record === undefined) throw new Unloaded([key]);
    if (record !== null) assertRecord(record);
    return record;
  }

  /** Makes sure that all of these are loaded, asking for everything missing at once. */
  require(keys: readonly Key[], ranges: readonly Range[] = nothing): void {
    const missing: Ask[] = keys.filter((key) => !this.#after.has(key) && this.#view.get(key) === undefined);
    for (const range of ranges) if (this.#view.range(range) === undefined) missing.push(range);
    if (missing.length > 0) throw new Unloaded(missing);
  }

  /** Rows as they were when the decision began. */
  range(range: Range): readonly RangeRow[] {
    const rows = this.#view.range(range);
    if (rows === undefined) throw new Unloaded([range]);
    return rows;
  }

  /**
   * Runs `body` over the items until one gives a result. What is not loaded all of them ask for together, so that
   * many items cost no more rounds than one.
   */
  first<Item, Result>(items: Iterable<Item>, body: (item: Item) => Result | undefined): Result | undefined {
    const asks: Ask[] = [];
    let result: Result | undefined;
    for (const item of items) {
      try {
        result = body(item);
      } catch (error) {
        if (!(error instanceof Unloaded)) throw error;
        asks.push(...error.asks);
      }
      if (result !== undefined) break;
    }
    if (asks.length > 0) throw new Unloaded(asks);
    return result;
  }

  /** Records that this decision made or changed so far: ranges do not show them. */
  changed(): Iterable<AnyRecord | null> {
    return this.#after.values();
  }

  /** Whether this decision has written it. */
  hasChanged(key: Key): boolean {
    return this.#after.has(key);
  }

  put<R extends AnyRecord>(key: Key<R>, record: R | null): void {
    if (record !== null) assertRecord(record);
    if (!this.#before.has(key)) this.#before.set(key, this.#view.get(key) ?? null);
    this.#after.set(key, record);
  }

  /** Puts a record under a key that cannot be taken: nothing is looked up. */
  insert<R extends AnyRecord>(key: Key<R>, record: R): void {
    assertRecord(record);
    if (!this.#before.has(key)) this.#before.set(key, null);
    this.#after.set(key, record);
  }

  emit(event: FeedEvent): void {
    this.events.push(event);
  }

  get writeCount(): number {
    return this.#after.size;
  }

  writes(): Write[] {
    const writes: Write[] = [];
    for (const [key, record] of this.#after) writes.push(toWrite(key, this.#before.get(key) ?? null, record));
    return writes;
  }
}

function toWrite(key: Key, before: AnyRecord | null, after: AnyRecord | null): Write {
  const had = before === null ? nothing : indexEntries(key, before);
  const has = after === null ? nothing : indexEntries(key, after);
  return { key, record: after, drop: without(had, has), add: without(has, had) };
}

function without(entries: readonly IndexEntry[], others: readonly IndexEntry[]): readonly IndexEntry[] {
  if (entries.length === 0 || others.length === 0) return entries;
  return entries.filter((e) => !others.some((o) => o.sort === e.sort && o.index === e.index));
}

/** Runs `body` over a draft of `view` and returns its decision. */
export function deciding<Reply>(view: View, policy: Policy, body: (draft: Draft) => Reply): Decision<Reply> {
  const draft = new Draft(view, policy);
  try {
    const reply = body(draft);
    return { reply, writes: draft.writes(), events: draft.events };
  } catch (error) {
    if (error instanceof Unloaded) return { need: error.asks };
    throw error;
  }
}
