/**
 * Asking for the best free work, and waiting for it. A call that is called off leaves nothing behind: a claim that was
 * granted meanwhile, and that nobody would hear of for as long as a claim lasts, is given back.
 */
import { type Duration, elapsedMs, thisMoment, toMs } from "./durations.js";
import type { HoldfastError } from "./errors.js";
import type { CallSignal } from "./locks.js";
import { leaseNameOf, renewNode } from "./nodes-renewal.js";
import type { NextClaimed, NothingFree } from "./nodes-replies.js";
import { segment } from "./path.js";
import type { Transport } from "./transport.js";
import { type Answered, type Step, standInLine } from "./waiting.js";

export interface NextOptions extends CallSignal {
  /** Only nodes of this type. */
  readonly type?: string | undefined;
  /** The caller's own label for this run: another of its runs cannot renew or release then. */
  readonly session?: string | undefined;
  readonly dispatch?: string | undefined;
  /** How long to wait if nothing is free; longer than any proxy's patience is fine. Not at all if left out. */
  readonly wait?: Duration | undefined;
  /** The same id gives the same claim again. Made up if left out. */
  readonly requestId?: string | undefined;
  /** Told that there is nothing, again and again while waiting. */
  readonly onWaiting?: ((waiting: WaitingForWork) => void) | undefined;
}

/** What is known while waiting: there is nothing, or why the server cannot be asked. */
export type WaitingForWork = NothingFree | { readonly status: "trouble"; readonly error: HoldfastError };

export type NextReply = NextClaimed | NothingFree;

/** Between two looks of one who waits, where the server would not wait. */
const breathMs = 1000;
/** A claim may be as old as the wait for it: beyond this share of its time it is renewed at once. */
const freshShare = 0.1;
/** How long giving back may take when somebody wants to leave. */
const giveBackMaxMs = 3000;

/** With the moment before the deciding call was sent: what a lease's time is counted from. */
export async function nextFrom(
  transport: Transport,
  options: NextOptions,
  waitMs = toMs(options.wait ?? 0, "wait"),
): Promise<Answered<NextReply>> {
  const { signal } = options;
  let asked: string | null = null;
  try {
    const answered = await standInLine<NextReply>({
      waitMs,
      requestId: options.requestId,
      signal,
      ask: (step) => {
        asked = step.requestId;
        return ask(transport, options, step);
      },
      isGranted: (reply) => reply.status !== "empty",
      retryAfterMs: () => breathMs,
      onWaiting: (reply) => reply.status === "empty" && options.onWaiting?.(reply),
      onTrouble: (error) => options.onWaiting?.({ status: "trouble", error }),
    });
    signal?.throwIfAborted();
    return answered;
  } catch (error) {
    // Who chose the request id can ask again by it.
    if (signal?.aborted === true && asked !== null && options.requestId === undefined)
      await giveBack(transport, options, asked);
    throw error;
  }
}

async function ask(
  transport: Transport,
  { type, session, dispatch, signal }: NextOptions,
  { requestId, waitSeconds, ...retries }: Step,
): Promise<Answered<NextReply>> {
  const sentAt = thisMoment();
  const reply = await transport.ask<NextReply>({
    method: "POST",
    path: "/v1/queue/next",
    headers: { "idempotency-key": requestId },
    body: { type, session, dispatch, ...(waitSeconds === 0 ? {} : { wait_seconds: waitSeconds }) },
    waitMs: waitSeconds * 1000,
    signal,
    expects: ["status", "lease"],
    ...retries,
  });
  if (reply.status === "empty" || elapsedMs(sentAt) <= reply.lease.expiresInMs * freshShare)
    return { reply, sentAt };
  // Nobody can tell how much of the wait came after the grant, so its time is counted from a renewal instead.
  const { nodeId, token } = reply.lease;
  const renewedAt = thisMoment();
  const { lease } = await renewNode(transport, { nodeId, session, token }, signal);
  return { reply: { ...reply, lease }, sentAt: renewedAt };
}

/** The same request id is answered with the same claim, if there is one, after whatever is still on its way. */
async function giveBack(transport: Transport, options: NextOptions, requestId: string): Promise<void> {
  const signal = AbortSignal.timeout(giveBackMaxMs);
  try {
    const { reply } = await ask(transport, { ...options, signal }, { requestId, waitSeconds: 0 });
    if (reply.status === "empty") return;
    const { nodeId, token } = reply.lease;
    await transport.call({
      method: "POST",
      path: `/v1/nodes/${segment(nodeId)}/release`,
      body: { session: options.session, token },
      signal,
      resource: leaseNameOf(nodeId),
    });
  } catch {
    // Refused, or out of reach: then it ends by itself. Why the caller left matters more.
  }
}
