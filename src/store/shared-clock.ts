/**
 * One clock for several servers that trust no other's: a number in the shared data that only moves forward, and never faster
 * than time. Whoever has itself watched it stand still for a while, on its own monotonic clock, may move it on by that while.
 *
 * Each move covers time that passed between two values of the clock, and no two moves cover the same time; so from the moment
 * at which the clock got one value to that at which it got another, d later, at least d has passed, whichever servers moved it.
 * A move is capped, so that a standstill of all servers counts as no time: leases get longer by it, never shorter. Within the
 * cap the true time may be ahead of the number, which is why a reading is an interval: what begins is counted from its end,
 * what is over is judged by its beginning. So a name may be seen held for as long as that after its holder's time, and a lock
 * delay, which runs from the holder's time, may seem shorter by it to who saw the name held last.
 */
import type { Stop, Timer } from "./clock.js";

/** How often it is moved, in ms. */
const tickMs = 100;
/** How long a server lets another do it before it tries itself, in ms: much more than a tick, so that few try. */
const patienceMs = 250;
/** The most that one move adds: how far the true time can be ahead of the clock, in ms. */
export const clockLagMs = 300;
/** How far it can be behind while all is well: as far as that, and until it is moved and has been read. */
export const clockLateMs = clockLagMs + 2 * tickMs;

export class SharedClock {
  #value = 0;
  #seenAt = 0;
  #high = 0;
  #stop: Stop | undefined;
  #closed = false;
  /** Whether the last move was ours. */
  #isMover = false;

  constructor(
    readonly monotonic: () => number,
    readonly after: Timer,
    readonly move: (from: number, to: number) => Promise<number>,
    readonly failed: (error: unknown) => void,
  ) {}

  start(value: number): void {
    this.saw(value);
    this.#arm();
  }

  /** It was read; any value but the last one seen is a new one, also a lower one after a failover that lost some. */
  saw(value: number): void {
    if (value === this.#value) return;
    this.#value = value;
    this.#seenAt = this.monotonic();
  }

  /**
   * It was read by who asked at that moment and hears only now: others may have moved it on by as much as has passed since. Whatever
   * is decided by that reading begins no earlier than that.
   */
  heard(value: number, askedAt: number): void {
    this.saw(value);
    this.#high = Math.max(this.#high, Math.ceil(value + this.monotonic() - askedAt) + clockLagMs);
  }

  /**
   * The latest that it can be by what was seen last, in steps of a ms and never going back: what begins is counted from here,
   * which may be a little too late, so that what begins after it is later.
   */
  now(): number {
    const passed = Math.min(this.monotonic() - this.#seenAt, clockLagMs);
    this.#high = Math.max(this.#high, Math.floor(this.#value + passed) + clockLagMs);
    return this.#high;
  }

  /** How far the wall clock is ahead of it: known to the one who moves it, while it does. */
  offset(wall: number): number | null {
    const passed = this.monotonic() - this.#seenAt;
    return this.#isMover && passed < clockLagMs ? Math.round(wall - this.#value - passed - clockLagMs) : null;
  }

  close(): void {
    this.#closed = true;
    this.#stop?.();
  }

  #arm(leastMs = tickMs / 4): void {
    if (this.#closed) return;
    const wait = this.#isMover ? tickMs : patienceMs * (1 + Math.random() / 2);
    const due = this.#seenAt + wait - this.monotonic();
    this.#stop = this.after(Math.max(due, leastMs), () => void this.#tick());
  }

  async #tick(): Promise<void> {
    let hasFailed = false;
    const from = this.#value;
    const passed = Math.floor(this.monotonic() - this.#seenAt);
    if (passed >= tickMs / 2)
      try {
        const to = from + Math.min(passed, clockLagMs);
        const value = await this.move(from, to);
        this.#isMover = value === to;
        this.saw(value);
      } catch (error) {
        this.#isMover = false;
        hasFailed = true;
        this.failed(error);
      }
    // Who is in trouble is not asked more often than one who is well.
    this.#arm(hasFailed ? patienceMs : undefined);
  }
}
