// Simulated time. Events happen one after the other, each at its instant; between two of them everything that the
// first set going in promises comes to rest. Nothing here looks at a real clock.
import type { Stop } from "../../src/store/clock.js";

interface Event {
  readonly at: number;
  /** Events of one instant happen in the order in which they were planned. */
  readonly order: number;
  run: (() => void) | null;
}

/** Steps taken in one turn of Node's loop. Node drains promises between two immediates, which costs far less than a turn. */
const burst = 256;

export class Scheduler {
  #now = 0;
  #planned = 0;
  readonly #events: Event[] = [];

  /** Milliseconds since the run began. */
  readonly now = (): number => this.#now;

  readonly after = (ms: number, run: () => void): Stop => this.at(this.#now + ms, run);

  at(at: number, run: () => void): Stop {
    const event: Event = { at: Math.max(at, this.#now), order: this.#planned++, run };
    this.#push(event);
    return () => {
      event.run = null;
    };
  }

  readonly sleep = (ms: number, signal?: AbortSignal): Promise<void> =>
    new Promise((resolve) => {
      if (signal?.aborted) {
        resolve();
        return;
      }
      const done = (): void => {
        stop();
        signal?.removeEventListener("abort", done);
        resolve();
      };
      const stop = this.after(ms, done);
      signal?.addEventListener("abort", done, { once: true });
    });

  /** Lets time pass until `work` is settled. Fails if nothing is left that could settle it. */
  drive<Result>(work: Promise<Result>): Promise<Result> {
    return new Promise((resolve, reject) => {
      let over = false;
      const end = (finish: () => void): void => {
        over = true;
        finish();
      };
      work.then(
        (result) => end(() => resolve(result)),
        (error: unknown) => end(() => reject(error)),
      );
      const step = (): void => {
        if (over) return;
        try {
          if (!this.#next()) throw new Error("nothing is left to happen, and the run is not over");
        } catch (error) {
          end(() => reject(error));
        }
      };
      const turn = (): void => {
        if (over) return;
        for (let i = 0; i < burst; i++) setImmediate(step);
        setImmediate(turn);
      };
      turn();
    });
  }

  /** The next event happens; false if there is none. */
  #next(): boolean {
    for (;;) {
      const event = this.#pop();
      if (event === undefined) return false;
      if (event.run === null) continue;
      this.#now = event.at;
      event.run();
      return true;
    }
  }

  #push(event: Event): void {
    const heap = this.#events;
    let at = heap.length;
    while (at > 0) {
      const above = (at - 1) >> 1;
      const parent = heap[above] as Event;
      if (!isBefore(event, parent)) break;
      heap[at] = parent;
      at = above;
    }
    heap[at] = event;
  }

  #pop(): Event | undefined {
    const heap = this.#events;
    const first = heap[0];
    const last = heap.pop();
    if (first === undefined || last === undefined || first === last) return first;
    let at = 0;
    for (;;) {
      let below = 2 * at + 1;
      if (below >= heap.length) break;
      const right = heap[below + 1];
      if (right !== undefined && isBefore(right, heap[below] as Event)) below++;
      const child = heap[below] as Event;
      if (!isBefore(child, last)) break;
      heap[at] = child;
      at = below;
    }
    heap[at] = last;
    return first;
  }
}

const isBefore = (one: Event, other: Event): boolean =>
  one.at < other.at || (one.at === other.at && one.order < other.order);
