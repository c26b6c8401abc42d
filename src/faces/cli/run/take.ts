/**
 * Takes a lease for a command that works under it, standing in line if asked to. Whatever ends the wait, no lease is left
 * behind: one that was granted while its taker was leaving is given back.
 */
import type { Client } from "../../../client/client.js";
import { elapsedMs, type Moment, thisMoment } from "../../../client/durations.js";
import { HoldfastError, isLoss, isPassing } from "../../../client/errors.js";
import type { AcquireOptions, Waiting } from "../../../client/locks.js";
import type { Acquired, Delayed, Held } from "../../../client/replies.js";
import { newRequestId } from "../../../client/request-id.js";
import { CliError, ttlSecondsOf, waitSecondsOf } from "../failure.js";

export interface TakeFlags {
  readonly ttl?: string;
  readonly wait?: string;
  readonly metadata?: string;
}

export interface Wanted {
  readonly name: string;
  readonly ttlSeconds: number;
  readonly waitMs: number;
  readonly metadata: string | undefined;
  /** Of a failure to be granted it. */
  readonly exitCode: number;
  readonly onWaiting: (waiting: Waiting) => void;
  readonly signal: AbortSignal;
}

export interface Taken {
  readonly reply: Acquired;
  /** The moment before the call was sent that the reply's times answer. */
  readonly sentAt: Moment;
}

/** The signal came before there was a lease to work under. */
export interface Interrupted {
  readonly status: "interrupted";
  /** False: the server could not be asked. If it has granted the lease all the same, that ends with its TTL. */
  readonly isClean: boolean;
}

export const maybeHeld =
  "The server could not be asked whether it was granted: if so, it expires by itself after its TTL";

/** How long giving back may take when somebody wants to leave. */
const giveBackMaxMs = 3000;

/** Checks the durations before anything is asked of a server. */
export const durationsOf = ({ ttl = "60s", wait }: TakeFlags): { ttlSeconds: number; waitMs: number } => ({
  ttlSeconds: ttlSecondsOf(ttl),
  waitMs: waitSecondsOf(wait) * 1000,
});

type Outcome = Taken | Held | Delayed | Interrupted;

export async function take(client: Client, wanted: Wanted): Promise<Outcome> {
  const begunAt = thisMoment();
  for (;;) {
    const leftMs = Math.max(0, wanted.waitMs - elapsedMs(begunAt));
    const options = optionsFor(wanted, leftMs);
    const taken = await attempt(client, wanted, options);
    if (taken !== "over") return taken;
    if (elapsedMs(begunAt) >= wanted.waitMs && wanted.waitMs > 0)
      throw new CliError(
        `${wanted.name} was granted while this process was stopped, and is over`,
        wanted.exitCode,
        { code: "lease_lost", details: { resource: wanted.name } },
      );
  }
}

type Options = AcquireOptions & { readonly requestId: string };

const optionsFor = ({ ttlSeconds, metadata, onWaiting, signal }: Wanted, waitMs: number): Options => ({
  ttl: ttlSeconds,
  wait: Math.ceil(waitMs / 1000),
  ...(metadata === undefined ? {} : { metadata }),
  onWaiting,
  signal,
  requestId: newRequestId(),
});

/** `over`: it was granted, and has ended before it was heard of. */
async function attempt(
  client: Client,
  { name, signal }: Wanted,
  options: Options,
): Promise<Outcome | "over"> {
  // Nothing was asked for yet: there is nothing to give back.
  if (signal.aborted) return { status: "interrupted", isClean: true };
  try {
    const { reply, sentAt } = await client.locks.acquireFrom(name, options);
    if (!signal.aborted) return reply.status === "acquired" ? { reply, sentAt } : reply;
  } catch (error) {
    if (!signal.aborted && isLoss(error)) return "over";
    if (!signal.aborted) throw error;
  }
  return { status: "interrupted", isClean: await giveBack(client, name, options) };
}

/**
 * The same request id is answered with the same lease, if there is one: the grant may have crossed the interruption, or
 * its reply was lost. False: nobody can tell.
 */
async function giveBack(client: Client, name: string, options: Options): Promise<boolean> {
  const { onWaiting: _, wait: __, ...same } = options;
  const signal = AbortSignal.timeout(giveBackMaxMs);
  try {
    const reply = await client.locks.acquire(name, { ...same, signal });
    if (reply.status === "acquired") await client.locks.release(name, reply.leaseId, { signal });
    return true;
  } catch (error) {
    // A server that refuses, or says that it is over, has left nothing behind.
    if (error instanceof HoldfastError) return !isPassing(error);
    if (!signal.aborted) throw error;
    return false;
  }
}
