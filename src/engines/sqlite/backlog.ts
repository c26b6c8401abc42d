/**
 * What is committed in the log but not yet in the tree: the newest value of each key. It is taken in the tree's own
 * order, in passes: neighbours share a page, and a page that many keys of a pass lie on is written once. What comes in
 * during a pass waits for the next one; at the end of a pass the tree has everything from before it began.
 */
import BTreeModule from "sorted-btree";
import { fromLines } from "./lines.js";

// The package is CommonJS: under ESM its default export is the module object.
const BTree = BTreeModule.default ?? BTreeModule;

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
const sorted = () => new BTree<string, string | null>(undefined, compare);

/** A part of a longer text is slow to compare, and here each key is compared about forty times. */
const ownText = (text: string): string => Buffer.from(text).toString();

export class Backlog {
  #passing = sorted();
  #gathering = sorted();
  /** The newest batch when the pass began. */
  #passSeq: number;
  #lastSeq: number;
  #appliedSeq: number;
  /** Log bytes per batch that are still needed for recovery, oldest first. */
  #batches: { readonly seq: number; readonly bytes: number }[] = [];
  #bytes = 0;

  /** `appliedSeq`: the tree has everything up to this batch already. */
  constructor(appliedSeq: number) {
    this.#passSeq = appliedSeq;
    this.#lastSeq = appliedSeq;
    this.#appliedSeq = appliedSeq;
  }

  add(seq: number, writes: string): void {
    for (const [line, value] of fromLines(writes)) {
      const key = ownText(line);
      (this.#passing.has(key) ? this.#passing : this.#gathering).set(key, value);
    }
    this.#lastSeq = seq;
    this.#batches.push({ seq, bytes: writes.length });
    this.#bytes += writes.length;
  }

  get size(): number {
    return this.#passing.size + this.#gathering.size;
  }

  /** Size of the log that a restart would have to read. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Every write up to this batch is in the tree, once what was taken is. */
  get appliedSeq(): number {
    return this.size === 0 ? this.#lastSeq : this.#appliedSeq;
  }

  /** Removes and returns the next keys of the pass, in order. */
  take(count: number): readonly (readonly [key: string, value: string | null])[] {
    if (this.#passing.isEmpty) {
      [this.#passing, this.#gathering] = [this.#gathering, this.#passing];
      this.#passSeq = this.#lastSeq;
    }
    const taken: [string, string | null][] = [];
    for (const pair of this.#passing.entries()) {
      if (taken.length === count) break;
      taken.push(pair);
    }
    const [first, last] = [taken[0], taken.at(-1)];
    if (first !== undefined && last !== undefined) this.#passing.deleteRange(first[0], last[0], true);
    if (this.#passing.isEmpty) this.#endPass();
    return taken;
  }

  #endPass(): void {
    this.#appliedSeq = this.#passSeq;
    const applied = this.appliedSeq;
    const rest = this.#batches.findIndex(({ seq }) => seq > applied);
    for (const { bytes } of this.#batches.splice(0, rest === -1 ? this.#batches.length : rest))
      this.#bytes -= bytes;
  }
}
