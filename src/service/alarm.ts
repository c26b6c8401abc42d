/**
 * Runs something at the earliest of the instants it is told of. Only a trigger: what is due is decided by the
 * store's clock in the step that follows.
 */
import type { Stop, Timer } from "../store/clock.js";

/** Node fires timers beyond 2^31 − 1 ms at once; nothing needs to sleep longer than this. */
const sleepMaxMs = 60_000;
/** A burst of instants shares one run. */
const gapMs = 5;
/** The same where the clock moves in steps. */
const stepMs = 25;
/** Pause after a failed run. */
const retryMs = 250;

export class Alarm {
  #stop: Stop | undefined;
  #at = Number.POSITIVE_INFINITY;
  #running = false;
  #closed = false;
  #earliest = 0;

  /** `run` returns the next instant to run at, or null. Instants are engine time, which is surely past only `lagMs` later. */
  constructor(
    readonly now: () => number,
    readonly run: () => Promise<number | null>,
    readonly failed: (error: unknown) => void,
    readonly after: Timer,
    readonly lagMs = 0,
  ) {}

  /** Makes sure that a run happens soon after `at`. */
  set(at: number): void {
    if (at >= this.#at || this.#closed) return;
    this.#at = at;
    if (!this.#running) this.#arm();
  }

  #arm(): void {
    this.#stop?.();
    if (this.#at === Number.POSITIVE_INFINITY || this.#closed) return;
    // One past: at its last instant a lease is still held.
    const wait = Math.max(this.#at + this.lagMs + 1, this.#earliest) - this.now();
    // A clock that moves in steps may not have moved yet.
    const least = this.lagMs > 0 ? stepMs : 0;
    this.#stop = this.after(Math.min(Math.max(wait, least), sleepMaxMs), () => void this.#fire());
  }

  async #fire(): Promise<void> {
    if (this.now() <= this.#at + this.lagMs) {
      this.#arm();
      return;
    }
    this.#running = true;
    this.#at = Number.POSITIVE_INFINITY;
    this.#earliest = this.now() + gapMs;
    try {
      const next = await this.run();
      if (next !== null) this.#at = Math.min(this.#at, next);
    } catch (error) {
      this.failed(error);
      this.#at = this.now();
      this.#earliest = this.now() + retryMs;
    }
    this.#running = false;
    this.#arm();
  }

  close(): void {
    this.#closed = true;
    this.#stop?.();
  }
}
