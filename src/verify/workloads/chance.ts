/** Choices that the seed of a run repeats. */
import type { Lab } from "../lab.js";

type Chance = Pick<Lab, "random">;

/** A whole number, both ends included. */
export const between = (lab: Chance, from: number, to: number): number =>
  from + Math.floor(lab.random() * (to - from + 1));

/** True in this share of cases. */
export const odds = (lab: Chance, share: number): boolean => lab.random() < share;

/** True the first time: what a workload exists for must not be left to chance in a short run. */
export function once(): () => boolean {
  let isDue = true;
  return () => {
    const isFirst = isDue;
    isDue = false;
    return isFirst;
  };
}

export function pick<Item>(lab: Chance, items: readonly Item[]): Item {
  const item = items[Math.floor(lab.random() * items.length)];
  if (item === undefined) throw new Error("nothing to pick from");
  return item;
}

/** The lifetimes that leases of a workload get, in ms: short, so that a minute sees many of them run out. */
export const shortTtlMs = (lab: Chance): number => 1000 * between(lab, 1, 3);
