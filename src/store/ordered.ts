/**
 * Records and index entries in memory, the entries in order. The memory engine keeps everything in one of these;
 * the embedded engine keeps what is not yet in its file. A `null` value means "known to be gone".
 */
import BTreeModule from "sorted-btree";
import type { Range, RangeRow, Write } from "../core/decision.js";
import type { IndexEntry, Key } from "../core/keys.js";
import type { AnyRecord } from "../core/records.js";

// The package is CommonJS: under ESM its default export is the module object.
const BTree = BTreeModule.default ?? BTreeModule;

/** One string per index entry, ordered first by index, then by sort. */
export const entryKey = (index: string, sort: string): string => `${index}/${sort}`;

export interface Slot<Value> {
  readonly value: Value | null;
  /** The batch that wrote it. */
  readonly seq: number;
}

/** Records dropped at once: under a millisecond, where 75,000 took 12 to 38 ms. */
const forgetMax = 1024;

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

export class Ordered {
  readonly records = new Map<Key, Slot<AnyRecord>>();
  /**
   * Two generations, the younger over the older. The older is dropped as a whole once the layer below has all of it:
   * dropping entries one by one cost more than writing them.
   */
  #young = new Generation();
  #old = new Generation();

  /** `generationMin`: entries at which a generation is closed. */
  constructor(readonly generationMin = 8192) {}

  /** Takes over the writes of batch `seq`. */
  apply(writes: readonly Write[], seq: number): void {
    for (const write of writes) {
      this.records.delete(write.key);
      this.records.set(write.key, { value: write.record, seq });
      for (const entry of write.drop) this.#putEntry(entry, null, seq);
      for (const entry of write.add) this.#putEntry(entry, write.key, seq);
    }
  }

  /** Takes over one thing that a log remembers: a record, or an index entry as `index/sort`. */
  ingest(
    line:
      | { readonly key: Key; readonly record: AnyRecord | null }
      | { readonly entry: string; readonly target: Key | null },
    seq: number,
  ): void {
    if ("entry" in line) {
      this.#putName(line.entry, line.target, seq);
      return;
    }
    this.records.delete(line.key);
    this.records.set(line.key, { value: line.record, seq });
  }

  #putEntry(entry: IndexEntry, key: Key | null, seq: number): void {
    this.#putName(entryKey(entry.index, entry.sort), key, seq);
  }

  #putName(entryName: string, key: Key | null, seq: number): void {
    this.#young.entries.set(entryName, { value: key, seq });
    this.#young.lastSeq = seq;
  }

  /** Entries within the range, gone ones included. */
  *entries(range: Range): Generator<{ sort: string; slot: Slot<Key> }> {
    const skip = range.index.length + 1;
    const from = entryKey(range.index, range.from);
    const to = entryKey(range.index, range.to);
    const young = this.#young.entries.entries(from);
    const old = this.#old.entries.entries(from);
    let [newer, older] = [nextBefore(young, to), nextBefore(old, to)];
    while (newer !== undefined || older !== undefined) {
      const takeNewer = older === undefined || (newer !== undefined && newer[0] <= older[0]);
      const next = takeNewer ? newer : older;
      if (next === undefined) return;
      yield { sort: next[0].slice(skip), slot: next[1] };
      if (older !== undefined && older[0] === next[0]) older = nextBefore(old, to);
      if (takeNewer) newer = nextBefore(young, to);
    }
  }

  /** Live rows of a range, where nothing lies below this layer. */
  range(range: Range): RangeRow[] {
    const rows: RangeRow[] = [];
    for (const { sort, slot } of this.entries(range)) {
      if (rows.length === range.limit) break;
      if (slot.value !== null) rows.push({ sort, key: slot.value });
    }
    return rows;
  }

  get entryCount(): number {
    return this.#young.entries.size + this.#old.entries.size;
  }

  /** Drops index entries that the layer below has, since it has everything up to batch `seq`. Some may stay longer. */
  forgetEntries(seq: number): void {
    if (this.#old.lastSeq <= seq && this.#old.entries.size > 0) this.#old = new Generation();
    if (this.#young.lastSeq <= seq && this.#young.entries.size > 0) this.#young = new Generation();
    if (this.#old.entries.size > 0 || this.#young.entries.size < this.generationMin) return;
    this.#old = this.#young;
    this.#young = new Generation();
  }

  /** Drops the marks of deleted records and entries, where nothing lies below this layer. */
  forgetGone(writes: readonly Write[]): void {
    for (const write of writes) {
      if (write.record === null) this.records.delete(write.key);
      for (const entry of write.drop) {
        const key = entryKey(entry.index, entry.sort);
        if (this.#young.entries.get(key)?.value === null) this.#young.entries.delete(key);
      }
    }
  }

  /** Drops the oldest records of batches up to `seq` until at most `keep` are left; true: call again, there are more. */
  forgetRecords(seq: number, keep: number): boolean {
    let left = forgetMax;
    for (const [key, slot] of this.records) {
      if (this.records.size <= keep || slot.seq > seq) return false;
      if (left-- === 0) return true;
      this.records.delete(key);
    }
    return false;
  }

  clear(): void {
    this.records.clear();
    this.#young = new Generation();
    this.#old = new Generation();
  }
}

class Generation {
  readonly entries = new BTree<string, Slot<Key>>(undefined, compare);
  lastSeq = 0;
}

function nextBefore(entries: Iterator<[string, Slot<Key>]>, to: string): [string, Slot<Key>] | undefined {
  const { value, done } = entries.next();
  return done === true || value[0] >= to ? undefined : value;
}
