// Who writes while a database is made to fail, and knows afterwards what must be there: what was answered is, what was refused for
// certain is not, and of what nobody knows either may be.
import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { type Store, StoreError } from "../src/store/store.js";
import { bump, tokenOf } from "./store-lab.js";

export class Ledger {
  readonly counts = { done: 0, unavailable: 0, unknown: 0, contended: 0 };
  /** The longest that an answer took, in ms. */
  slowestMs = 0;
  /** When something was done last. */
  doneAt = 0;
  readonly #known = new Map<string, { low: number; high: number }>();
  #isOver = false;
  #writers: Promise<void>[] = [];

  /** Writers, each on a name of its own, on all stores in turn. */
  start(stores: readonly Store[], writers: number): void {
    this.#writers = Array.from({ length: writers }, (_, i) => this.#write(stores, `w-${i}`, i));
  }

  /** Resolves when something was done that began after this call. */
  async untilDone(withinMs: number): Promise<number> {
    const began = performance.now();
    const { done } = this.counts;
    // One more than can have been under way.
    while (this.counts.done < done + this.#writers.length + 1) {
      assert.ok(
        performance.now() - began < withinMs,
        `nothing was done for ${withinMs} ms: ${JSON.stringify(this.counts)}`,
      );
      await delay(10);
    }
    return performance.now() - began;
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#writers);
  }

  /** Everything that was answered is there, and nothing that was refused. */
  async check(store: Store): Promise<void> {
    for (const [name, { low, high }] of this.#known) {
      const token = await tokenOf(store, name);
      assert.ok(token >= low && token <= high, `${name} is ${token}, and was between ${low} and ${high}`);
    }
  }

  async #write(stores: readonly Store[], name: string, first: number): Promise<void> {
    for (let i = first; !this.#isOver; i++) {
      const store = stores[i % stores.length] ?? assert.fail();
      const known = this.#known.get(name) ?? { low: 0, high: 0 };
      const began = performance.now();
      try {
        const token = await bump(store, name);
        assert.ok(
          token > known.low && token <= known.high + 1,
          `${name} became ${token} after ${JSON.stringify(known)}`,
        );
        this.#known.set(name, { low: token, high: token });
        this.counts.done++;
        this.doneAt = performance.now();
      } catch (error) {
        if (!(error instanceof StoreError)) throw error;
        assert.ok(error.kind in this.counts, error.message);
        this.counts[error.kind as keyof Ledger["counts"]]++;
        if (error.kind === "unknown") this.#known.set(name, { low: known.low, high: known.high + 1 });
        await delay(5);
      }
      this.slowestMs = Math.max(this.slowestMs, performance.now() - began);
    }
  }
}
