/**
 * Names that are to be offered to their waiters because something was freed. Plain names many at once, so that one that takes
 * long holds up no other, and a store can put them into one commit. Names that overlap others one after the other, in the order
 * of their first waiters: the first of them may be in the way of the next. Each once, however often it was freed meanwhile.
 */
import { hasOverlap } from "../core/names.js";
import type { Stop, Timer } from "../store/clock.js";
import { Attempts, type Report } from "../store/report.js";
import type { Name } from "./lines.js";
import { queueName } from "./queues.js";

/** Plain names that are offered at once: as many as the store takes into one commit, and far fewer than its callers. */
const plainMax = 256;
/** Pause before it is tried again after a failure. */
const retryMs = 250;

/** Those that wait, and how many of them are being offered. */
interface Lane {
  readonly names: Map<string, Name>;
  readonly atOnceMax: number;
  offering: number;
}

export class Wanted {
  readonly #plain: Lane = { names: new Map(), atOnceMax: plainMax, offering: 0 };
  readonly #overlapping: Lane = { names: new Map(), atOnceMax: 1, offering: 0 };
  readonly #attempts: Attempts;
  #pause: Stop | undefined;

  constructor(
    readonly offer: (name: Name) => Promise<void>,
    readonly stopping: AbortSignal,
    report: Report,
    readonly after: Timer,
  ) {
    this.#attempts = new Attempts("offering what was freed", report);
    stopping.addEventListener("abort", () => {
      for (const { names } of [this.#plain, this.#overlapping]) names.clear();
      this.#pause?.();
    });
  }

  /** It will be looked at in a step that begins after this. */
  add(name: Name): void {
    if (this.stopping.aborted) return;
    this.#put(name);
    this.#go();
  }

  #put({ space, name }: Name): void {
    const { names } = hasOverlap(name) ? this.#overlapping : this.#plain;
    names.set(queueName(space, name), { space, name });
  }

  #go(): void {
    for (const lane of [this.#plain, this.#overlapping])
      while (this.#pause === undefined && lane.offering < lane.atOnceMax) {
        const [next] = lane.names;
        if (next === undefined) break;
        lane.names.delete(next[0]);
        lane.offering++;
        void this.#offer(next[1], lane);
      }
  }

  async #offer(name: Name, lane: Lane): Promise<void> {
    try {
      await this.offer(name);
      this.#attempts.worked();
    } catch (error) {
      if (!this.stopping.aborted) this.#later(name, error);
    }
    lane.offering--;
    this.#go();
  }

  /** All of them: a store that fails one step fails the others, too. */
  #later(name: Name, error: unknown): void {
    this.#attempts.failed(error);
    this.#put(name);
    this.#pause ??= this.after(retryMs, () => {
      this.#pause = undefined;
      this.#go();
    });
  }
}
