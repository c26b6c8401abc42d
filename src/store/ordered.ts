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

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

export class Ordered {
  readonly records = new Map<Key, Slot<AnyRecord>>();
  readonly #entries = new BTree<string, Slot<Key>>(undefined, compare);
  /** Entries in the order in which they were written, so that the oldest can be forgotten. */
  #written: { key: string; seq: number }[] = [];
  #forgotten = 0;

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
    this.#entries.set(entryName, { value: key, seq });
    this.#written.push({ key: entryName, seq });
  }

  /** Entries within the range, gone ones included. */
  *entries(range: Range): Generator<{ sort: string; slot: Slot<Key> }> {
    const skip = range.index.length + 1;
    const to = entryKey(range.index, range.to);
    for (const [key, slot] of this.#entries.entries(entryKey(range.index, range.from))) {
      if (key >= to) return;
      yield { sort: key.slice(skip), slot };
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
    return this.#entries.size;
  }

  /** Drops index entries of batches up to `seq`, which the layer below now has. */
  forgetEntries(seq: number): void {
    const written = this.#written;
    while (this.#forgotten < written.length) {
      const next = written[this.#forgotten];
      if (next === undefined || next.seq > seq) break;
      const slot = this.#entries.get(next.key);
      if (slot !== undefined && slot.seq <= seq) this.#entries.delete(next.key);
      this.#forgotten++;
    }
    if (this.#forgotten > 4096 && this.#forgotten > written.length / 2) {
      this.#written = written.slice(this.#forgotten);
      this.#forgotten = 0;
    }
  }

  /** Drops the marks of deleted records and entries, where nothing lies below this layer. */
  forgetGone(writes: readonly Write[]): void {
    for (const write of writes) {
      if (write.record === null) this.records.delete(write.key);
      for (const entry of write.drop) {
        const key = entryKey(entry.index, entry.sort);
        if (this.#entries.get(key)?.value === null) this.#entries.delete(key);
      }
    }
    this.#written.length = 0;
  }

  /** Drops the oldest records of batches up to `seq` until at most `keep` are left. */
  forgetRecords(seq: number, keep: number): void {
    for (const [key, slot] of this.records) {
      if (this.records.size <= keep || slot.seq > seq) return;
      this.records.delete(key);
    }
  }

  clear(): void {
    this.records.clear();
    this.#entries.clear();
    this.#written = [];
    this.#forgotten = 0;
  }
}
