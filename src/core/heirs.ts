/**
 * Serving the queue: whoever finds a name free grants it to the first live waiter in the same step, so that a
 * release and the next grant are one write and no acquire passes a waiter.
 */
import type { Draft } from "./draft.js";
import { everySpace, floorKey, type Key, lockKey, requestKey, sessionKey } from "./keys.js";
import { type Claim, holdingNow, settled, toldAgain } from "./lease.js";
import { waitersAhead } from "./limits.js";
import { countTurns, isServing, nextIn, type Peer, tellNext, turnsIn } from "./line.js";
import { hasOverlap, overlapOf } from "./names.js";
import type { LockRecord } from "./records.js";
import type { Holding, Refusal } from "./refusal.js";
import { endSessionIfOver } from "./session-end.js";
import { type Granted, takeOrRefuse } from "./take.js";

/** A waiter that was served, or that can never be. */
export interface Heir {
  readonly claim: Claim;
  readonly outcome: { readonly granted: Holding } | Refusal;
}

/** The n-th live waiter of a name (from 0), or undefined. Asked while deciding: the answer must be current. */
export interface Successors {
  (space: string, name: string, nth: number): Claim | undefined;
  /** Of a cluster: the server whose waiters these are. Others' turns come before or after theirs. */
  readonly peer?: Peer;
}

export const noHeirs: Successors = () => undefined;

/** Records that every acquire looks at. */
export function acquireKeys(claim: Claim): Key[] {
  const keys: Key[] = [lockKey(claim.space, claim.name), floorKey(claim.space), floorKey(everySpace)];
  if (claim.request !== null) keys.push(requestKey(claim.space, claim.principal, claim.request.id));
  if (claim.sessionId !== null) keys.push(sessionKey(claim.space, claim.sessionId));
  for (const name of overlapOf(claim.name).names) keys.push(lockKey(claim.space, name));
  return keys;
}

/**
 * For a session's leases, many at once: names that overlap others need reads of their own for each waiter, so
 * their queues are served one by one afterwards, when the feed tells that they are free.
 */
export function plainOnly(successors: Successors): Successors {
  const plain = (space: string, name: string, nth: number): Claim | undefined =>
    hasOverlap(name) ? undefined : successors(space, name, nth);
  return Object.assign(plain, successors.peer === undefined ? {} : { peer: successors.peer });
}

/** Offers the settled name to its waiters. Returns those whose wait is over, granted or refused for good. */
export function succeed(
  draft: Draft,
  space: string,
  name: string,
  lock: LockRecord | null,
  successors: Successors,
): Heir[] {
  if (lock !== null && (lock.lease !== null || lock.availableAt !== 0)) return [];
  const { peer } = successors;
  if (peer === undefined) return serveFirst(draft, space, name, lock, successors);
  const before = nextIn(turnsIn(draft, space, name, peer));
  if (before === peer.id) countTurns(draft, space, name, peer);
  const first = nextIn(turnsIn(draft, space, name, peer));
  if (first !== undefined && first !== peer.id) {
    // What ended without an event, such as a lock delay or a turn that nobody was there to take, only this step knows of.
    if (before !== first || draft.hasChanged(lockKey(space, name))) tellNext(draft, space, name);
    return [];
  }
  if (isServing(peer, space, name)) return [];
  const heirs = serveFirst(draft, space, name, lock, successors);
  if (heirs.length > 0) countTurns(draft, space, name, peer, heirs);
  if (heirs.some(isGranted)) return heirs;
  if (isOthersTurn(draft, space, name, successors)) tellNext(draft, space, name);
  return heirs;
}

const isGranted = (heir: Heir): boolean => !("refused" in heir.outcome);

/** Whether others' waiters come before whoever asks now. Those of this server have been offered the name already. */
export function isOthersTurn(draft: Draft, space: string, name: string, { peer }: Successors): boolean {
  if (peer === undefined) return false;
  const first = nextIn(turnsIn(draft, space, name, peer));
  return first !== undefined && first !== peer.id;
}

/** Grants to the first waiter here that can take it. */
function serveFirst(
  draft: Draft,
  space: string,
  name: string,
  lock: LockRecord | null,
  successors: Successors,
): Heir[] {
  const heirs: Heir[] = [];
  for (let nth = 0; ; nth++) {
    requireWaiters(draft, space, name, nth, successors);
    const claim = successors(space, name, nth);
    if (claim === undefined) return heirs;
    const over = sessionRefusal(draft, claim) ?? repeated(draft, claim, heirs, successors);
    if (over !== null) {
      heirs.push({ claim, outcome: over });
      continue;
    }
    // Those before it have left the line: it may be another server's turn now.
    if (heirs.length > 0 && isPassed(draft, space, name, heirs, successors)) return heirs;
    const outcome = takeOrRefuse(draft, lock, claim);
    if ("refused" in outcome) return heirs;
    heirs.push({ claim, outcome });
    return heirs;
  }
}

function isPassed(
  draft: Draft,
  space: string,
  name: string,
  served: readonly Heir[],
  successors: Successors,
): boolean {
  if (successors.peer === undefined) return false;
  countTurns(draft, space, name, successors.peer, served);
  return isOthersTurn(draft, space, name, successors);
}

/** Loads the first waiter; if its wait turns out to be in vain, the following ones many at a time. */
function requireWaiters(
  draft: Draft,
  space: string,
  name: string,
  nth: number,
  successors: Successors,
): void {
  const ahead = Math.min(waitersAhead, draft.rowsMax);
  if (nth > 0 && (nth - 1) % ahead !== 0) return;
  const keys: Key[] = [];
  for (let next = nth; next < nth + (nth === 0 ? 1 : ahead); next++) {
    const claim = successors(space, name, next);
    if (claim === undefined) break;
    keys.push(...acquireKeys(claim));
  }
  draft.require(keys);
}

/** Settles a name and, if that changed anything, serves its queue. Returns it as it is then. */
export function settledAndServed(
  draft: Draft,
  space: string,
  name: string,
  heirs: Heir[],
  successors: Successors,
): LockRecord | null {
  const key = lockKey(space, name);
  const before = draft.get(key);
  const lock = settled(draft, before);
  if (lock !== before) heirs.push(...succeed(draft, space, name, lock, successors));
  return draft.get(key);
}

/**
 * A request id that was granted before (rule 8): the same lease while it is current, else spent; null: it was
 * granted nothing yet. Adds the waiters that are served because that lease is over.
 */
export function repeated(
  draft: Draft,
  claim: Claim,
  heirs: Heir[],
  successors: Successors,
): Granted | Refusal | null {
  if (claim.request === null) return null;
  const record = draft.get(requestKey(claim.space, claim.principal, claim.request.id));
  if (record === null) return null;
  if (record.fingerprint !== claim.request.fingerprint) return { refused: "request_reused" };
  const found = draft.get(lockKey(claim.space, record.name));
  // A free name is left alone: the sweep ends its lock delay and serves its queue.
  const lock = found?.lease ? settledAndServed(draft, claim.space, record.name, heirs, successors) : found;
  const holding = holdingNow(draft, lock);
  if (holding !== null && holding.lock.lease.id === record.leaseId)
    return { granted: toldAgain(draft, holding, claim.leaseId), how: "repeat" };
  const { name, leaseId } = record;
  return {
    refused: "request_spent",
    name,
    leaseId,
    holding,
    previous: lock?.previous ?? null,
    now: draft.now,
  };
}

/** Why the claim's session cannot carry a lease, or null. */
export function sessionRefusal(draft: Draft, claim: Claim): Refusal | null {
  if (claim.sessionId === null) return null;
  const session = draft.get(sessionKey(claim.space, claim.sessionId));
  if (session === null || session.principal !== claim.principal) return { refused: "session_unknown" };
  const ended = endSessionIfOver(draft, session).ended;
  return ended === null ? null : { refused: "session_expired", endedAt: ended.at, now: draft.now };
}
