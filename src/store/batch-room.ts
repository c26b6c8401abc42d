/**
 * How much of a batch one commit can hold. A record or an entry counts once, however many decisions change it or rely on it:
 * that is how often it is written and compared.
 */
import type { Decided } from "../core/decision.js";
import type { BatchView } from "./batch-view.js";
import { StepTooLargeError, type StoreError } from "./store.js";

export class BatchRoom {
  readonly #changed = new Set<string>();
  readonly #relied = new Set<string>();

  constructor(
    readonly changesMax: number,
    readonly comparesMax: number,
  ) {}

  /**
   * Takes as much as the decision needs; false, and takes nothing, if there is not so much left. `absentSpans`: so many comparisons
   * stand for all records that were not there.
   */
  take(
    { writes }: Pick<Decided<unknown>, "writes">,
    view: Pick<BatchView, "versions" | "guarded">,
    absentSpans?: number,
  ): boolean {
    const changed = new Set<string>();
    for (const { key, add, drop } of writes) {
      changed.add(key);
      for (const { index, sort } of add) changed.add(`${index} ${sort}`);
      for (const { index, sort } of drop) changed.add(`${index} ${sort}`);
    }
    const relied = new Set<string>();
    for (const [key, version] of view.versions) if (version > 0 || absentSpans === undefined) relied.add(key);
    for (let span = 0; span < (absentSpans ?? 0); span++) relied.add(`span ${span}`);
    for (const { index, from, to, rows } of view.guarded) {
      relied.add(`${index} ${from} ${to}`);
      // Where the record is compared, its entry need not be.
      for (const { sort, key } of rows) if (!view.versions.get(key)) relied.add(`${index} ${sort}`);
    }
    const fits =
      sizeWith(this.#changed, changed) <= this.changesMax &&
      sizeWith(this.#relied, relied) <= this.comparesMax;
    if (!fits) return false;
    for (const name of changed) this.#changed.add(name);
    for (const name of relied) this.#relied.add(name);
    return true;
  }
}

function sizeWith(all: ReadonlySet<string>, some: ReadonlySet<string>): number {
  let size = all.size;
  for (const name of some) if (!all.has(name)) size++;
  return size;
}

export const tooMuch = (comparesMax: number, changesMax: number): StoreError =>
  new StepTooLargeError(
    `one step would rely on more than the ${comparesMax} records, or change more than the ${changesMax}, that this store takes at once: ask for less in one call`,
  );
