/**
 * Takes a lease for a command that works under it, standing in line if asked to. Whatever ends the wait, no lease is left
 * behind: one that was granted while its taker was leaving is given back.
 */
import type { Client } from "../../../client/client.js";
import { elapsedMs, type Moment, thisMoment, toMs, toTtlSeconds } from "../../../client/durations.js";
import { HoldfastError, isLoss } from "../../../client/errors.js";
import type { AcquireOptions, Waiting } from "../../../client/locks.js";
import type { Acquired, Delayed, Held } from "../../../client/replies.js";
import { newRequestId } from "../../../client/request-id.js";
import { CliError, exitCodes } from "../failure.js";

export interface TakeFlags {
  readonly ttl?: string;
  readonly wait?: string;
  readonly metadata?: string;
}

export interface Wanted {
  readonly name: string;
  readonly ttl: string;
  readonly waitMs: number;
  readonly metadata: string | undefined;
  readonly onWaiting: (waiting: Waiting) => void;
  readonly signal: AbortSignal;
}

export interface Taken {
  readonly reply: Acquired;
  /** The moment before the call was sent that the reply's times answer. */
  readonly sentAt: Moment;
}

/** How long giving back may take when somebody wants to leave. */
const giveBackMaxMs = 3000;

/** Checks the durations before anything is asked of a server. */
export function durationsOf({ ttl = "60s", wait = "0" }: TakeFlags): { ttl: string; waitMs: number } {
  try {
    toTtlSeconds(ttl, "--ttl");
    return { ttl, waitMs: toMs(wait, "--wait") };
  } catch (error) {
    throw new CliError((error as Error).message, exitCodes.usage);
  }
}

/** Throws the signal's reason when it was aborted, with nothing held. */
export async function take(client: Client, wanted: Wanted): Promise<Taken | Held | Delayed> {
  const begunAt = thisMoment();
  for (;;) {
    const leftMs = Math.max(0, wanted.waitMs - elapsedMs(begunAt));
    const options = optionsFor(wanted, leftMs);
    const taken = await attempt(client, wanted, options);
    if (taken !== "over") return taken;
    if (elapsedMs(begunAt) >= wanted.waitMs && wanted.waitMs > 0)
      throw new CliError(
        `${wanted.name} was granted while this process was stopped, and is over`,
        exitCodes.notInTime,
      );
  }
}

type Options = AcquireOptions & { readonly requestId: string };

const optionsFor = ({ ttl, metadata, onWaiting, signal }: Wanted, waitMs: number): Options => ({
  ttl,
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
): Promise<Taken | Held | Delayed | "over"> {
  try {
    const { reply, sentAt } = await client.locks.acquireFrom(name, options);
    signal.throwIfAborted();
    if (reply.status !== "acquired") return reply;
    return { reply, sentAt };
  } catch (error) {
    if (signal.aborted) await giveBack(client, name, options);
    else if (isLoss(error)) return "over";
    throw error;
  }
}

/** The same request id is answered with the same lease, if there is one: the grant may have crossed the interruption. */
async function giveBack(client: Client, name: string, options: Options): Promise<void> {
  const { onWaiting: _, wait: __, ...same } = options;
  const signal = AbortSignal.timeout(giveBackMaxMs);
  try {
    const reply = await client.locks.acquire(name, { ...same, signal });
    if (reply.status === "acquired") await client.locks.release(name, reply.leaseId, { signal });
  } catch (error) {
    // Over already, or out of reach: it ends with its TTL.
    if (!(error instanceof HoldfastError) && !signal.aborted) throw error;
  }
}
