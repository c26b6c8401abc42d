/** How hard a run may press a service: calls a second, calls at once, and silence when it says that it is too much. */
import { monotonicMs, sleep } from "./clock.js";

export interface Load {
  readonly callsPerSecond: number;
  /** Calls at once. Those that wait in line do not count: they cost the service nothing. */
  readonly inFlightMax: number;
}

/** How early a call may begin: makes up for timers that wake late. */
const burstMs = 30;
/** However often the service asked for silence. */
const intervalMaxMs = 1000;

/** Each call for silence makes calls rarer by this much; each call afterwards makes up for a little of it. */
const backOff = 2;
const recovery = 0.99;

export class Pace {
  #intervalMs: number;
  #nextAt = 0;
  #silentUntil = 0;
  #inFlight = 0;
  readonly #queue: (() => void)[] = [];

  constructor(readonly load: Load) {
    this.#intervalMs = 1000 / load.callsPerSecond;
  }

  /** Resolves when a call may begin. */
  async begin(): Promise<void> {
    for (let left = this.#silence(); left > 0; left = this.#silence()) await sleep(left);
    const now = monotonicMs();
    const at = Math.max(this.#nextAt, now);
    this.#intervalMs = Math.max(1000 / this.load.callsPerSecond, this.#intervalMs * recovery);
    this.#nextAt = at + this.#intervalMs;
    const earlyMs = at - now - burstMs;
    if (earlyMs > 0) await sleep(earlyMs);
  }

  /** Counts a call until it is over. */
  async during<Result>(call: () => Promise<Result>): Promise<Result> {
    while (this.#inFlight >= this.load.inFlightMax)
      await new Promise<void>((resolve) => this.#queue.push(resolve));
    this.#inFlight++;
    try {
      return await call();
    } finally {
      this.#inFlight--;
      this.#queue.shift()?.();
    }
  }

  /** The service asked for silence. */
  hush(ms: number): void {
    // Several calls under way are told the same.
    if (this.#silence() <= 0) this.#intervalMs = Math.min(this.#intervalMs * backOff, intervalMaxMs);
    this.#silentUntil = Math.max(this.#silentUntil, monotonicMs() + ms);
  }

  #silence(): number {
    return this.#silentUntil - monotonicMs();
  }
}
