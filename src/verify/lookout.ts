/**
 * Looks at what a run has seen so far while it goes on, in a thread of its own, so that a service which breaks a promise
 * is found out soon and not when the time is up. The whole history is judged in the end all the same.
 */
import { Worker } from "node:worker_threads";
import type { Operation, Seen, Terms, Timely } from "./history.js";
import type { Recorder } from "./recorder.js";

/** What has been added to a workload's history since the last look. */
export interface Glimpse {
  readonly workload: string;
  readonly operations: readonly Operation[];
  readonly seen: readonly Seen[];
  /** All that is under way now. */
  readonly underWay: readonly Operation[];
  readonly clockBoundMs: number;
  readonly timely: Timely | undefined;
  readonly terms: Terms | undefined;
}

/** What a look found. */
export interface Looked {
  readonly isViolated: boolean;
  readonly tookMs: number;
}

/** Between two looks, in ms: as often as they cost a tenth of a core at most. */
const lookEveryMs = 1000;
const share = 10;

export interface Watched {
  readonly workload: string;
  readonly recorder: Recorder;
  /** What is to be allowed for, by what is known so far. */
  readonly terms: () => Terms | undefined;
}

export class Lookout {
  readonly #worker = new Worker(new URL("./lookout-thread.js", import.meta.url));
  /** By workload: how much of its history the thread has. */
  readonly #given = new Map<string, { operations: number; seen: number }>();
  #timer: NodeJS.Timeout;

  constructor(
    readonly watched: readonly Watched[],
    onViolation: () => void,
  ) {
    this.#worker.unref();
    this.#worker.on("message", ({ isViolated, tookMs }: Looked) => {
      if (isViolated) onViolation();
      else this.#timer = this.#after(Math.max(lookEveryMs, share * tookMs));
    });
    // Whatever fails here fails at the end of the run as well, and is told there.
    this.#worker.on("error", () => undefined);
    this.#timer = this.#after(lookEveryMs);
  }

  async close(): Promise<void> {
    clearTimeout(this.#timer);
    await this.#worker.terminate();
  }

  #after(ms: number): NodeJS.Timeout {
    return setTimeout(() => this.#worker.postMessage(this.watched.map((one) => this.#glimpse(one))), ms);
  }

  #glimpse({ workload, recorder, terms }: Watched): Glimpse {
    const { operations, seen, underWay, clockBoundMs, timely } = recorder;
    const given = this.#given.get(workload) ?? { operations: 0, seen: 0 };
    this.#given.set(workload, { operations: operations.length, seen: seen.length });
    return {
      workload,
      operations: operations.slice(given.operations),
      seen: seen.slice(given.seen),
      underWay,
      clockBoundMs,
      timely,
      terms: terms(),
    };
  }
}
