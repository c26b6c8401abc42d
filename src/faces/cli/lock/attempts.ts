/**
 * Asking for a lease so that it can always be found again: the attempt is kept before the call, becomes the kept lease
 * on a grant, and goes on a refusal. One that a killed command left behind is looked up by its request id.
 */
import { HoldfastError, isLoss } from "../../../client/errors.js";
import type { Acquired, Claimed, ClaimRefused, Delayed, Held, NoneClaimed } from "../../../client/replies.js";
import { clientOf } from "../connect.js";
import type { Desk } from "./desk.js";
import { Interruption } from "./interruption.js";
import type { Attempt, Grant, Kept, Wish } from "./kept-leases.js";
import { fateOf } from "./process-mark.js";

type Answer = Acquired | Held | Delayed | Claimed | ClaimRefused | NoneClaimed;

/** What was granted, if anything was. */
export function grantIn(answer: Answer): Grant | null {
  if ("claimed" in answer) {
    if (!answer.claimed) return null;
    const { jobId, leaseId, token, expiresAt } = answer;
    return { resource: jobId, leaseId, token, expiresAt: expiresAt.getTime() };
  }
  if (answer.status !== "acquired") return null;
  const { name, leaseId, fencingToken, expiresAt } = answer;
  return { resource: name, leaseId, token: fencingToken, expiresAt: expiresAt.getTime() };
}

/** Sends the wish and keeps what is granted. Interrupted, it gives back what may have been granted meanwhile. */
export async function ask<Reply extends Answer>(
  desk: Desk,
  wish: Wish,
  send: (signal: AbortSignal) => Promise<Reply>,
): Promise<Reply> {
  const interruption = new Interruption();
  try {
    const earlier = wish.resources.map((resource) => desk.kept.lease(resource)?.leaseId);
    const attempt = desk.kept.begin(wish);
    const reply = await sent(desk, attempt, interruption.signal, send);
    // From here on it is as if the signal had come after the end: what was granted is told, not left behind unsaid.
    if (reply !== null && !(await interruption.happened())) return reply;
    const isClean = await giveBack(desk, attempt, earlier);
    const what = wish.resources.join(", ");
    throw interruption.error(
      isClean
        ? `interrupted while asking for ${what}: nothing was taken`
        : `interrupted while asking for ${what}: it could not be learned whether it was granted; if so, it expires by itself`,
    );
  } catch (error) {
    interruption.end();
    throw error;
  }
}

/** Null if it was interrupted before a reply came. */
async function sent<Reply extends Answer>(
  { kept }: Desk,
  attempt: Attempt,
  signal: AbortSignal,
  send: (signal: AbortSignal) => Promise<Reply>,
): Promise<Reply | null> {
  try {
    const reply = await send(signal);
    const grant = grantIn(reply);
    if (grant === null) kept.discard(attempt);
    else kept.promote(attempt, grant);
    return reply;
  } catch (error) {
    if (signal.aborted) return null;
    if (!isUncertain(error)) kept.discard(attempt);
    throw error;
  }
}

/** It may have been granted though no reply says so. */
const isUncertain = (error: unknown): boolean =>
  error instanceof HoldfastError &&
  (error.code === "unreachable" || error.code === "unknown_outcome" || error.code === "not_holdfast");

/** How long an interrupted command may take to leave nothing behind. */
const giveBackTry = { timeoutMs: 3000, retries: 1 };

/**
 * Asks once more by the same request id, which is answered after whatever is still on its way, and releases what comes.
 * All but the leases of `earlier`: a named session may have asked for what it had already.
 */
async function giveBack(
  desk: Desk,
  attempt: Attempt,
  earlier: readonly (string | undefined)[],
): Promise<boolean> {
  const client = clientOf(desk.place, giveBackTry);
  try {
    const grant = grantIn(await sendAgain(client, attempt));
    if (grant !== null && !earlier.includes(grant.leaseId)) {
      await client.locks.release(grant.resource, grant.leaseId);
      const kept = desk.kept.lease(grant.resource);
      if (kept?.leaseId === grant.leaseId) desk.kept.forget(kept);
    }
    desk.kept.discard(attempt);
    return true;
  } catch (error) {
    // It was granted, and is over.
    if (!isLoss(error)) return false;
    desk.kept.discard(attempt);
    return true;
  }
}

/** The lease that a killed command of this session was granted and could not keep, or null. */
export async function recovered(desk: Desk, resource: string): Promise<Kept | null> {
  const { kept } = desk;
  for (const left of kept.attempts()) {
    if (!left.resources.includes(resource) || fateOf(left.command) !== "gone") continue;
    // The command came as far as keeping the lease.
    if (kept.leases().some(({ requestId }) => requestId === left.requestId)) {
      kept.discard(left);
      continue;
    }
    const attempt = kept.inherit(left);
    if (attempt === null) continue;
    const grant = await grantedTo(desk, attempt);
    if (grant === null) kept.discard(attempt);
    else {
      const found = kept.promote(attempt, grant);
      if (found.resource === resource) return found;
    }
  }
  return null;
}

/**
 * What the attempt's request was granted and still has. The same request is sent only while this principal holds such a
 * name, and a lease that it makes anew (the old one having ended in between) is given back: nothing is taken here.
 */
async function grantedTo({ client, principal }: Desk, attempt: Attempt): Promise<Grant | null> {
  const before = await Promise.all(attempt.resources.map((resource) => client.locks.get(resource)));
  if (!before.some(({ holder }) => holder?.principal === principal)) return null;
  try {
    const grant = grantIn(await sendAgain(client, attempt));
    if (grant === null) return null;
    const last = before.find(({ name }) => name === grant.resource)?.fencingToken ?? 0;
    if (grant.token <= last) return grant;
    await client.locks.release(grant.resource, grant.leaseId);
    return null;
  } catch (error) {
    // It was granted, and is over.
    if (isLoss(error)) return null;
    throw error;
  }
}

function sendAgain(client: Desk["client"], attempt: Attempt): Promise<Answer> {
  const { kind, resources, requestId, ttlSeconds, metadata, owner } = attempt;
  const [resource = ""] = resources;
  const ttl = ttlSeconds === null ? {} : { ttl: ttlSeconds };
  if (kind === "lock")
    return client.locks.acquire(resource, {
      ...ttl,
      requestId,
      ...(typeof metadata === "string" ? { metadata } : {}),
    });
  const options = {
    ...ttl,
    requestId,
    ...(metadata === null ? {} : { metadata: metadata as string | Record<string, unknown> }),
    ...(owner === null ? {} : { owner }),
  };
  return resources.length === 1
    ? client.jobs.claim(resource, options)
    : client.jobs.claimFirst(resources, options);
}
