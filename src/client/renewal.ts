/** Keeps one lease alive: renews at a third of its TTL after the last success, and tells at once when it is lost. */
import { type Moment, sleep, thisMoment } from "./durations.js";
import { HoldfastError, isPassing } from "./errors.js";
import type { LeaseState } from "./lease-state.js";
import { Locks } from "./locks.js";
import { type NodeLeaseProof, renewNode } from "./nodes-renewal.js";
import { pauseMs, Transport, type TransportOptions } from "./transport.js";

/** A lock's lease, or a node's. Plain values: another thread may be told of it. */
export type Granted = ({ readonly name: string; readonly leaseId: string } | NodeLeaseProof) & {
  /** 0: a third of what it has. */
  readonly renewAfterMs: number;
  readonly sentAt: Moment;
};

/** A renewal that gets no reply is given up after the time in which it would be due again, but not before this. */
const attemptMinMs = 250;
/** Between two attempts, at the least. */
const pauseMinMs = 10;
/** Between two renewals that succeed, at the least. A third of the shortest TTL is more. */
const renewAfterMinMs = 100;

/** When to renew, of a lease that has `leftMs`: as the server says, unless that is no time at all. */
const paceMs = (askedMs: number, leftMs: number): number =>
  Math.max(renewAfterMinMs, askedMs > 0 && Number.isFinite(askedMs) ? askedMs : leftMs / 3);

export class Renewal {
  readonly #transport: Transport;
  readonly #stopped = new AbortController();
  #renewAfterMs: number;
  #lastSuccess: Moment;

  constructor(
    options: TransportOptions,
    readonly granted: Granted,
    readonly state: LeaseState,
    /** Why it is lost, in words. */
    readonly lost: (why: string) => void,
    /** The moment before a renewal that succeeded was sent, and what it gave. */
    readonly renewed: (sentAt: Moment, expiresInMs: number) => void = () => {},
  ) {
    this.#renewAfterMs = paceMs(granted.renewAfterMs, state.leftMs());
    const timeoutMs = Math.min(options.timeoutMs, Math.max(attemptMinMs, this.#renewAfterMs));
    this.#transport = new Transport({ ...options, timeoutMs, retries: 0 });
    this.#lastSuccess = granted.sentAt;
    void this.#run();
  }

  stop(): void {
    this.#stopped.abort();
  }

  async #run(): Promise<void> {
    try {
      let trouble: HoldfastError | null = null;
      for (let attempt = 0; ; ) {
        const due = this.#lastSuccess.monotonic + this.#renewAfterMs - thisMoment().monotonic;
        // In trouble it is tried again before the time is up, whatever pause the server asks for.
        const left = Math.max(pauseMinMs, this.state.leftMs() / 2);
        const pause = trouble === null ? Math.max(0, due) : pauseMs(attempt, trouble);
        await sleep(Math.min(pause, left), this.#stopped.signal);
        if (this.state.leftMs() === 0) return this.#lose(outOfTime(trouble));
        trouble = await this.#renew();
        attempt = trouble === null ? 0 : attempt + 1;
        if (trouble !== null && !isPassing(trouble)) return this.#lose(trouble.message);
      }
    } catch (error) {
      // Stopped: nothing is left to be kept.
      if (!this.#stopped.signal.aborted) this.#lose(`it cannot be renewed: ${String(error)}`);
    }
  }

  /** Null: renewed. */
  async #renew(): Promise<HoldfastError | null> {
    const sentAt = thisMoment();
    try {
      const reply = await renewOnce(this.#transport, this.granted, this.#stopped.signal);
      this.state.renewed(sentAt, reply.expiresInMs);
      this.#lastSuccess = sentAt;
      this.#renewAfterMs = paceMs(reply.renewAfterMs, reply.expiresInMs);
      this.renewed(sentAt, reply.expiresInMs);
      return null;
    } catch (error) {
      if (error instanceof HoldfastError) return error;
      throw error;
    }
  }

  #lose(why: string): void {
    this.state.end(why);
    this.lost(why);
  }
}

async function renewOnce(
  transport: Transport,
  granted: Granted,
  signal: AbortSignal,
): Promise<{ readonly expiresInMs: number; readonly renewAfterMs: number }> {
  if ("leaseId" in granted) return new Locks(transport).renew(granted.name, granted.leaseId, { signal });
  const { lease } = await renewNode(transport, granted, signal);
  return { expiresInMs: lease.expiresInMs, renewAfterMs: 0 };
}

export const outOfTime = (trouble: HoldfastError | null): string =>
  `it could not be renewed in time${trouble === null ? " (the process was stopped or blocked)" : `: ${trouble.message}`}`;
