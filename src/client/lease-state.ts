/**
 * How long a lease may be trusted, in memory that two threads can share: whoever renews writes it, whoever works reads
 * it, at any line and without a turn of the event loop in between.
 */
import { type Moment, thisMoment } from "./durations.js";

/** Both ends are kept as they are written: each alone is enough to distrust the lease, so a torn pair is harmless. */
const monotonicEnd = 0;
const wallEnd = 1;
const ended = 2;
/** Why it is over: its length in bytes, and the text itself behind the cells. */
const whyLength = 3;
const cells = 4;
const whyBytesMax = 1024;

/** Allowed for clocks that run at different speeds, and for the moment between the look and the work. */
const marginShare = 0.02;
const marginMinMs = 50;

/** How much of what the server promised is used. */
export const trustedMs = (expiresInMs: number): number =>
  Math.max(0, expiresInMs - Math.max(marginMinMs, expiresInMs * marginShare));

export class LeaseState {
  readonly #cells: BigInt64Array;
  readonly #why: Uint8Array;

  constructor(
    readonly memory: SharedArrayBuffer | ArrayBuffer = newMemory(),
    /** What this thread's monotonic clock shows while that of the thread which made the memory shows 0. */
    readonly offsetMs = 0,
  ) {
    this.#cells = new BigInt64Array(memory, 0, cells);
    this.#why = new Uint8Array(memory, this.#cells.byteLength, whyBytesMax);
  }

  /** The server said that `expiresInMs` are left, to a call that was sent at `sentAt`. */
  renewed(sentAt: Moment, expiresInMs: number): void {
    // What is no time at all is none: nothing is trusted for it.
    const trusted = Number.isFinite(expiresInMs) ? trustedMs(expiresInMs) : 0;
    Atomics.store(this.#cells, monotonicEnd, BigInt(Math.floor(sentAt.monotonic - this.offsetMs + trusted)));
    Atomics.store(this.#cells, wallEnd, BigInt(Math.floor(sentAt.wall + trusted)));
  }

  /** Over for good: lost, which the other thread then learns with the reason, or released. */
  end(why = ""): void {
    if (Atomics.load(this.#cells, ended) !== 0n) return;
    const bytes = new TextEncoder().encode(why).subarray(0, whyBytesMax);
    this.#why.set(bytes);
    Atomics.store(this.#cells, whyLength, BigInt(bytes.length));
    Atomics.store(this.#cells, ended, 1n);
  }

  /** Why it is over, as far as somebody said so. */
  get why(): string | null {
    if (Atomics.load(this.#cells, ended) === 0n) return null;
    const length = Number(Atomics.load(this.#cells, whyLength));
    // A copy: shared memory cannot be decoded.
    return length === 0 ? null : new TextDecoder().decode(this.#why.slice(0, length));
  }

  /** In ms, on whichever clock has less; 0 once it is over. */
  leftMs(now: Moment = thisMoment()): number {
    if (Atomics.load(this.#cells, ended) !== 0n) return 0;
    const left = Math.min(
      Number(Atomics.load(this.#cells, monotonicEnd)) - (now.monotonic - this.offsetMs),
      Number(Atomics.load(this.#cells, wallEnd)) - now.wall,
    );
    return Math.max(0, left);
  }

  get safeUntil(): Date {
    return new Date(Number(Atomics.load(this.#cells, wallEnd)));
  }
}

/** Pages share no memory with their workers unless they are isolated; they renew in their own thread anyway. */
function newMemory(): SharedArrayBuffer | ArrayBuffer {
  const bytes = cells * BigInt64Array.BYTES_PER_ELEMENT + whyBytesMax;
  return typeof SharedArrayBuffer === "undefined" ? new ArrayBuffer(bytes) : new SharedArrayBuffer(bytes);
}
