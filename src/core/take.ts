/**
 * Taking one settled name (rules 1, 2, 3, 11 and 12): granted, given back to its own holder, or refused.
 */
import { canonical } from "./canonical.js";
import type { Range } from "./decision.js";
import type { Draft } from "./draft.js";
import { afterPrefix, type Key, lockKey, sessionKey, sortable } from "./keys.js";
import {
  type Claim,
  floorOf,
  grant,
  holdingNow,
  holdingOf,
  prolong,
  quietUntil,
  raiseTtlHigh,
  sessionOf,
  settled,
  toldAgain,
} from "./lease.js";
import { overlapOf } from "./names.js";
import type { LockRecord, Metadata } from "./records.js";
import type { Holding, Refusal } from "./refusal.js";

export interface Granted {
  readonly granted: Holding;
  /** how: a new grant, the caller's own lease again by proof, or a repeated request id. */
  readonly how: "new" | "again" | "repeat";
}

/** Grants the settled `lock` to the claim, or says why not. */
export function takeOrRefuse(draft: Draft, lock: LockRecord | null, claim: Claim): Granted | Refusal {
  const answer = againOrRefuse(draft, lock, claim);
  if (!("refused" in answer) || answer.refused !== "queued") return answer;
  const overlapping = overlapRefusal(draft, claim);
  if (overlapping !== null) return overlapping;
  return { granted: grant(draft, lock, claim), how: "new" };
}

/** What can be said without granting anew: its own lease again, or why not now; `queued` if the name is free. */
export function againOrRefuse(draft: Draft, lock: LockRecord | null, claim: Claim): Granted | Refusal {
  const { now } = draft;
  if (lock !== null && lock.lease !== null) {
    if (!isSameHolder(lock, claim))
      return { refused: "held", holding: holdingOf(lock, sessionOf(draft, lock), now) };
    // Never shortens: what lives as long as its session goes on to, whatever TTL it is asked for again with.
    const asked = claim.ttlIsDefault === true ? null : claim.ttlMs;
    const lease = { ...lock.lease, ttlMs: asked ?? lock.lease.ttlMs };
    const again = lock.lease.ttlMs === null ? lock : prolong(draft, lock, lease, null);
    raiseTtlHigh(draft, floorOf(draft, claim.space), claim.space, asked ?? 0);
    const holding = holdingOf(again, sessionOf(draft, again), now);
    return { granted: toldAgain(draft, holding, claim.leaseId), how: "again" };
  }
  if (lock !== null && lock.availableAt !== 0)
    return { refused: "delayed", availableAt: lock.availableAt, now, why: "lock_delay" };
  const quiet = quietUntil(floorOf(draft, claim.space), draft.earliest);
  if (quiet !== 0) return { refused: "delayed", availableAt: quiet, now, why: "restore" };
  return { refused: "queued" };
}

/** Rule 3: the same lease comes back only on proof, and only to the principal it belongs to. */
function isSameHolder(lock: LockRecord, claim: Claim): boolean {
  const { lease } = lock;
  if (lease === null || lease.principal !== claim.principal) return false;
  if (claim.proof !== null) return claim.proof === lease.id;
  if (claim.sessionId !== null) return claim.sessionId === lease.sessionId;
  return claim.reentrant && lease.sessionId === null && sameMetadata(lease.metadata, claim.metadata);
}

const sameMetadata = (one: Metadata, other: Metadata): boolean =>
  one === other || canonical(one) === canonical(other);

/** Rule 12: another's live lease on a name above or below this one. */
function overlapRefusal(draft: Draft, claim: Claim): Refusal | null {
  const { names, prefixes } = overlapOf(claim.name);
  if (names.length === 0 && prefixes.length === 0) return null;
  const ranges = prefixes.map((prefix) => heldRange(claim.space, prefix, draft.rowsMax));
  const keys = names.map((name) => lockKey(claim.space, name));
  draft.require(keys, ranges);
  for (const range of ranges) for (const row of draft.range(range)) keys.push(row.key as Key<LockRecord>);
  for (const record of draft.changed())
    if (record?.kind === "lock" && prefixes.some((prefix) => record.name.startsWith(prefix)))
      keys.push(lockKey(record.space, record.name));
  draft.require(keys);
  draft.require(keys.flatMap((key) => sessionKeyOf(draft.get(key))));
  for (const key of keys) {
    const lock = draft.get(key);
    // A free name is left alone: whoever clears its lock delay must serve its queue.
    if (lock === null || lock.space !== claim.space || lock.lease === null) continue;
    const holding = holdingNow(draft, settled(draft, lock));
    if (holding !== null && holding.lock.name !== claim.name && !isOwnLease(holding, claim))
      return { refused: "held", holding };
  }
  const full = ranges.map((range) => draft.range(range)).filter((rows) => rows.length === draft.rowsMax);
  if (full.length === 0) return null;
  // The rows are those of before this step: what it ended itself is no lease of the caller's.
  const again = full.some((rows) => rows.some((row) => !isHeld(draft, row.key as Key<LockRecord>)));
  return { refused: "overlap_too_wide", limit: draft.rowsMax, again };
}

const isHeld = (draft: Draft, key: Key<LockRecord>): boolean => (draft.get(key)?.lease ?? null) !== null;

function sessionKeyOf(lock: LockRecord | null): Key[] {
  const id = lock?.lease?.sessionId;
  return lock !== null && id ? [sessionKey(lock.space, id)] : [];
}

/** Overlapping leases of one session do not stand in each other's way. */
const isOwnLease = (holding: Holding, claim: Claim): boolean =>
  claim.sessionId !== null &&
  holding.lock.lease.sessionId === claim.sessionId &&
  holding.lock.lease.principal === claim.principal;

function heldRange(space: string, prefix: string, limit: number): Range {
  const from = `${space}/${sortable(prefix)}`;
  return { index: "held", from, to: afterPrefix(from), limit };
}
