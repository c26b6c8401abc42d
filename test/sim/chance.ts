// Chance that a seed repeats: the only source of randomness in a simulated run. Each part of a run draws from a
// stream of its own, so that a change of one part does not change what the others meet.
import { seeded } from "../../src/verify/seed.js";

export class Chance {
  /** In [0, 1). */
  readonly random: () => number;

  constructor(seed: number) {
    this.random = seeded(seed);
  }

  /** A stream of its own. */
  split(): Chance {
    return new Chance(this.below(2 ** 32));
  }

  /** A whole number below `count`. */
  below(count: number): number {
    return Math.floor(this.random() * count);
  }

  /** In whole microseconds, where the bounds are milliseconds. */
  between(min: number, max: number): number {
    return Math.round((min + (max - min) * this.random()) * 1000) / 1000;
  }

  /** Mostly near `min`, now and then far above it: how networks and disks take their time. */
  skewed(min: number, max: number): number {
    return Math.round(min * (max / min) ** (this.random() ** 3) * 1000) / 1000;
  }

  happens(probability: number): boolean {
    return this.random() < probability;
  }

  pick<Item>(items: readonly Item[]): Item {
    const item = items[this.below(items.length)];
    if (item === undefined) throw new Error("nothing to pick from");
    return item;
  }
}
