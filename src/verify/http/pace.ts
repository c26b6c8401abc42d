/**
 * How hard a run may press a service: calls a second, calls at once, silence when it says that it is too much, and a
 * single try now and then while it cannot be reached.
 */
import { monotonicMs, sleep } from "./clock.js";

export interface Load {
  readonly callsPerSecond: number;
  /** Calls at once. Those that wait in line do not count: they cost the service nothing. */
  readonly inFlightMax: number;
}

/** How early a call may begin: makes up for timers that wake late. */
const burstMs = 30;
/** However often the service asked for silence. */
const rateMin = 1;
/** What is left of the rate when the service asks for silence. Calls that were under way together are told together. */
const backOff = 0.6;
const backOffEveryMs = 100;
/** No slower than this share of what it has taken in the last second. */
const takenShare = 0.9;
const takenMs = 1000;
/** Won back in a second without it: the rate stays near what the service allows, and asks for too much now and then. */
const recovery = 1.15;
/** How long nobody calls while the service cannot be reached: doubled each time, up to the second. */
const missedMinMs = 50;
const missedMaxMs = 250;

export class Pace {
  #rate: number;
  #ratedAt = monotonicMs();
  #backedOffAt = Number.NEGATIVE_INFINITY;
  /** When calls of the last second were answered. */
  readonly #takenAt: number[] = [];
  #nextAt = 0;
  #silentUntil = 0;
  /** The part of it that the service asked for. */
  #hushedUntil = 0;
  /** 0 while the service can be reached. */
  #missedMs = 0;
  #inFlight = 0;
  readonly #queue: (() => void)[] = [];

  constructor(readonly load: Load) {
    this.#rate = load.callsPerSecond;
  }

  /** Resolves when a call may begin, or as soon as the signal is aborted. */
  async begin(signal?: AbortSignal): Promise<void> {
    do await this.#turn(signal);
    while (
      // The service may have asked for silence meanwhile.
      monotonicMs() < this.#hushedUntil &&
      !signal?.aborted
    );
  }

  async #turn(signal?: AbortSignal): Promise<void> {
    for (let left = this.#silence(); left > 0 && !signal?.aborted; left = this.#silence())
      await sleep(left, signal);
    const now = monotonicMs();
    // This one tries; the others wait for what becomes of it.
    if (this.#missedMs > 0) this.#silentUntil = now + this.#missedMs;
    this.#recover(now);
    const at = Math.max(this.#nextAt, now);
    this.#nextAt = at + 1000 / this.#rate;
    const earlyMs = at - now - burstMs;
    if (earlyMs > 0) await sleep(earlyMs, signal);
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

  /** Calls a second, at present. */
  get rate(): number {
    return this.#rate;
  }

  /** The service asked for silence. */
  hush(ms: number): void {
    const now = monotonicMs();
    if (now - this.#backedOffAt >= backOffEveryMs) {
      this.#recover(now);
      this.#rate = Math.min(
        this.#rate,
        Math.max(rateMin, this.#rate * backOff, takenShare * this.#taken(now)),
      );
      this.#backedOffAt = now;
    }
    this.#hushedUntil = Math.max(this.#hushedUntil, now + ms);
    this.#silentUntil = Math.max(this.#silentUntil, now + ms);
  }

  /** The service could not be reached. */
  missed(): void {
    this.#missedMs = Math.min(missedMaxMs, Math.max(missedMinMs, 2 * this.#missedMs));
    this.#silentUntil = Math.max(this.#silentUntil, monotonicMs() + this.#missedMs);
  }

  /** The service answered, and did not ask for silence. */
  taken(): void {
    const now = monotonicMs();
    this.#takenAt.push(now);
    this.#taken(now);
  }

  /** The service answered, whatever it was. */
  answered(): void {
    if (this.#missedMs === 0) return;
    this.#missedMs = 0;
    this.#silentUntil = this.#hushedUntil;
  }

  /** How many calls of the last second were answered. */
  #taken(now: number): number {
    while ((this.#takenAt[0] ?? now) < now - takenMs) this.#takenAt.shift();
    return this.#takenAt.length;
  }

  #recover(now: number): void {
    const won = recovery ** ((now - this.#ratedAt) / 1000);
    this.#rate = Math.min(this.load.callsPerSecond, this.#rate * won);
    this.#ratedAt = now;
  }

  #silence(): number {
    return this.#silentUntil - monotonicMs();
  }
}
