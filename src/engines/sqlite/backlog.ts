/**
 * What is committed in the log but not yet in the tree: the newest value of each key, in the order in which the
 * keys were first touched. Taking from the front moves the mark up to which the tree is complete.
 */
import { fromLines } from "./lines.js";

interface Waiting {
  readonly firstSeq: number;
  value: string | null;
  bytes: number;
}

export class Backlog {
  readonly #keys = new Map<string, Waiting>();
  #bytes = 0;
  /** Log bytes per batch that are still needed for recovery, oldest first. */
  readonly #batches: { seq: number; bytes: number }[] = [];

  add(seq: number, writes: string): void {
    for (const [key, value] of fromLines(writes)) {
      const waiting = this.#keys.get(key);
      if (waiting === undefined) this.#keys.set(key, { firstSeq: seq, value, bytes: 0 });
      else waiting.value = value;
    }
    this.#batches.push({ seq, bytes: writes.length });
    this.#bytes += writes.length;
  }

  get size(): number {
    return this.#keys.size;
  }

  /** Size of the log that a restart would have to read. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Removes and returns the oldest keys, sorted so that neighbours in the tree are written together. */
  take(count: number): [key: string, value: string | null][] {
    const taken: [string, string | null][] = [];
    for (const [key, waiting] of this.#keys) {
      if (taken.length === count) break;
      taken.push([key, waiting.value]);
      this.#keys.delete(key);
    }
    const applied = this.appliedSeq(Number.MAX_SAFE_INTEGER);
    let done = 0;
    for (const batch of this.#batches) {
      if (batch.seq > applied) break;
      this.#bytes -= batch.bytes;
      done++;
    }
    this.#batches.splice(0, done);
    return taken.sort(([a], [b]) => (a < b ? -1 : 1));
  }

  /** Every write up to this batch is in the tree, once what was taken is. `lastSeq` if nothing waits. */
  appliedSeq(lastSeq: number): number {
    for (const waiting of this.#keys.values()) return waiting.firstSeq - 1;
    return lastSeq;
  }
}
