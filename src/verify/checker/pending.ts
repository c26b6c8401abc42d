/**
 * The operations that a search has still to place, as Lowe keeps them: beginnings and ends in one list by the instant,
 * from which an operation is taken and to which it is put back, last taken first, at no cost.
 */
import type { Noted } from "./ledger.js";

export class Pending {
  /** Entry 2n + 1 is the beginning of operation n, 2n + 2 its end; 0 is the list's own place. */
  readonly #next: Int32Array;
  readonly #previous: Int32Array;

  /** Where an operation begins in the moment in which another ends, either may have been first. */
  constructor(readonly operations: readonly Pick<Noted, "began" | "ended">[]) {
    const entries = operations.flatMap(({ began, ended }, number) => [
      { entry: 2 * number + 1, at: began, isEnd: 0 },
      { entry: 2 * number + 2, at: ended, isEnd: 1 },
    ]);
    entries.sort((one, other) => one.at - other.at || one.isEnd - other.isEnd);
    this.#next = new Int32Array(entries.length + 1);
    this.#previous = new Int32Array(entries.length + 1);
    let last = 0;
    for (const { entry } of entries) {
      this.#link(last, entry);
      last = entry;
    }
    this.#link(last, 0);
  }

  get isEmpty(): boolean {
    return this.#next[0] === 0;
  }

  /** The numbers of those that began before the first end. */
  *next(): Generator<number> {
    for (let entry = this.#after(0); entry % 2 === 1; entry = this.#after(entry)) yield (entry - 1) / 2;
  }

  /** The number of the first to end. */
  get firstToEnd(): number {
    let entry = this.#after(0);
    while (entry % 2 === 1) entry = this.#after(entry);
    return entry / 2 - 1;
  }

  get firstEnd(): number {
    return this.operations[this.firstToEnd]?.ended ?? Number.POSITIVE_INFINITY;
  }

  remove(number: number): void {
    this.#unlink(2 * number + 1);
    this.#unlink(2 * number + 2);
  }

  /** The last one removed, and not yet put back. */
  putBack(number: number): void {
    this.#relink(2 * number + 2);
    this.#relink(2 * number + 1);
  }

  #after(entry: number): number {
    return this.#next[entry] ?? 0;
  }

  #link(entry: number, next: number): void {
    this.#next[entry] = next;
    this.#previous[next] = entry;
  }

  #unlink(entry: number): void {
    this.#link(this.#previous[entry] ?? 0, this.#after(entry));
  }

  /** The entry remembers between which two it stood. */
  #relink(entry: number): void {
    this.#link(this.#previous[entry] ?? 0, entry);
    this.#link(entry, this.#next[entry] ?? 0);
  }
}
