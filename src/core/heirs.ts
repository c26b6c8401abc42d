/**
 * Serving the queue: whoever finds a name free grants it to the first live waiter in the same step, so that a
 * release and the next grant are one write and no acquire passes a waiter.
 */
import type { Draft } from "./draft.js";
import { floorKey, type Key, lockKey, requestKey, sessionKey } from "./keys.js";
import type { Claim } from "./lease.js";
import { hasOverlap, overlapOf } from "./names.js";
import type { LockRecord } from "./records.js";
import type { Holding, Refusal } from "./refusal.js";
import { endSessionIfOver } from "./session-end.js";
import { takeOrRefuse } from "./take.js";

/** A waiter that was served, or that can never be. */
export interface Heir {
  readonly claim: Claim;
  readonly outcome: { readonly granted: Holding } | Refusal;
}

/** The n-th live waiter of a name (from 0), or undefined. Asked while deciding: the answer must be current. */
export type Successors = (space: string, name: string, nth: number) => Claim | undefined;

export const noHeirs: Successors = () => undefined;

/** Records that every acquire looks at. */
export function acquireKeys(claim: Claim): Key[] {
  const keys: Key[] = [lockKey(claim.space, claim.name), floorKey(claim.space)];
  if (claim.request !== null) keys.push(requestKey(claim.space, claim.principal, claim.request.id));
  if (claim.sessionId !== null) keys.push(sessionKey(claim.space, claim.sessionId));
  for (const name of overlapOf(claim.name).names) keys.push(lockKey(claim.space, name));
  return keys;
}

/** Loads at once what serving the first waiter of each of these names needs. */
export function requireHeirs(draft: Draft, keys: readonly Key<LockRecord>[], successors: Successors): void {
  const wanted: Key[] = [];
  for (const key of keys) {
    const lock = draft.get(key);
    const claim = lock === null ? undefined : successors(lock.space, lock.name, 0);
    if (claim !== undefined) wanted.push(...acquireKeys(claim));
  }
  if (wanted.length > 0) draft.require(wanted);
}

/**
 * For steps over many names: names that overlap others need reads of their own for each waiter, so their queues
 * are served one by one afterwards, when the feed tells that they are free.
 */
export const plainOnly =
  (successors: Successors): Successors =>
  (space, name, nth) =>
    hasOverlap(name) ? undefined : successors(space, name, nth);

/** Offers the settled name to its waiters. Returns those whose wait is over, granted or refused for good. */
export function succeed(
  draft: Draft,
  space: string,
  name: string,
  lock: LockRecord | null,
  successors: Successors,
): Heir[] {
  const heirs: Heir[] = [];
  if (lock !== null && (lock.lease !== null || lock.availableAt !== 0)) return heirs;
  for (let nth = 0; ; nth++) {
    const claim = successors(space, name, nth);
    if (claim === undefined) return heirs;
    const lost = lostSession(draft, claim);
    if (lost !== null) {
      heirs.push({ claim, outcome: lost });
      continue;
    }
    const outcome = takeOrRefuse(draft, lock, claim);
    if ("refused" in outcome) return heirs;
    heirs.push({ claim, outcome });
    return heirs;
  }
}

function lostSession(draft: Draft, claim: Claim): Refusal | null {
  if (claim.sessionId === null) return null;
  const session = draft.get(sessionKey(claim.space, claim.sessionId));
  if (session === null) return { refused: "session_unknown" };
  const ended = endSessionIfOver(draft, session).ended;
  return ended === null ? null : { refused: "session_expired", endedAt: ended.at, now: draft.now };
}
