/** Renew and extend (rules 4 and 5): only the live lease goes on, nothing is ever revived, the token stays. */
import type { Decision, View } from "./decision.js";
import { type Draft, deciding } from "./draft.js";
import { type Heir, noHeirs, type Successors, settledAndServed } from "./heirs.js";
import { everySpace, floorKey, type Key, lockKey } from "./keys.js";
import { floorOf, holdingNow, holdingOf, prolong, prolongTo, raiseTtlHigh, sessionOf } from "./lease.js";
import type { Policy } from "./limits.js";
import type { LockRecord } from "./records.js";
import type { Holding, Refusal } from "./refusal.js";

/** A holder speaking of its lease. */
export interface LeaseCall {
  readonly space: string;
  readonly name: string;
  readonly principal: string;
  readonly leaseId: string;
}

export interface Renewal extends LeaseCall {
  readonly ttlMs: number | null;
  readonly progress?: string;
}

export interface RenewReply {
  readonly outcome: { readonly renewed: Holding; readonly capped: boolean } | Refusal;
  readonly heirs: readonly Heir[];
}

export const leaseCallKeys = (call: LeaseCall): Key[] => [
  lockKey(call.space, call.name),
  floorKey(call.space),
  floorKey(everySpace),
];

/** The settled record if the caller holds it, else why not. Serves the queue if settling freed the name. */
export function current(
  draft: Draft,
  call: LeaseCall,
  heirs: Heir[],
  successors: Successors,
): (LockRecord & { readonly lease: NonNullable<LockRecord["lease"]> }) | Refusal {
  const lock = settledAndServed(draft, call.space, call.name, heirs, successors);
  const holding = holdingNow(draft, lock);
  if (
    holding !== null &&
    holding.lock.lease.id === call.leaseId &&
    holding.lock.lease.principal === call.principal
  )
    return holding.lock;
  return { refused: "not_current", holding, previous: lock?.previous ?? null, now: draft.now };
}

export function decideRenew(
  view: View,
  call: Renewal,
  policy: Policy,
  successors: Successors = noHeirs,
): Decision<RenewReply> {
  return deciding(view, policy, (draft) => renewOne(draft, call, successors));
}

/** Many renewals in one step: one commit, whatever the number. */
export function decideRenewMany(
  view: View,
  calls: readonly Renewal[],
  policy: Policy,
  successors: Successors = noHeirs,
): Decision<readonly RenewReply[]> {
  return deciding(view, policy, (draft) => {
    draft.require(calls.flatMap(leaseCallKeys));
    const replies: RenewReply[] = [];
    draft.first(calls, (call) => void replies.push(renewOne(draft, call, successors)));
    return replies;
  });
}

function renewOne(draft: Draft, call: Renewal, successors: Successors): RenewReply {
  const heirs: Heir[] = [];
  const lock = current(draft, call, heirs, successors);
  if ("refused" in lock) return { outcome: lock, heirs };
  const next = prolong(draft, lock, lock.lease, call.ttlMs, call.progress);
  return { outcome: { renewed: holdingOf(next, sessionOf(draft, next), draft.now), capped: false }, heirs };
}

/** Lengthens the lease to now + `ttlMs`, never past the policy's maximum, never shorter than it is. */
export function decideExtend(
  view: View,
  call: LeaseCall & { readonly ttlMs: number },
  policy: Policy,
  successors: Successors = noHeirs,
): Decision<RenewReply> {
  return deciding(view, policy, (draft) => {
    const heirs: Heir[] = [];
    const lock = current(draft, call, heirs, successors);
    if ("refused" in lock) return { outcome: lock, heirs };
    const wanted = draft.now + Math.min(call.ttlMs, policy.ttlMaxMs);
    const { lease } = lock;
    const lengthens = lease.expiresAt !== null && wanted > lease.expiresAt;
    // Keeps the lease's own TTL: the next plain renew must not repeat the long one.
    const next = lengthens ? prolongTo(draft, lock, { ...lease, expiresAt: wanted }) : lock;
    if (lengthens)
      raiseTtlHigh(draft, floorOf(draft, call.space), call.space, Math.min(call.ttlMs, policy.ttlMaxMs));
    const renewed = holdingOf(next, sessionOf(draft, next), draft.now);
    // The policy's maximum or the end of the session cut it short.
    const capped = renewed.expiresAt < draft.now + call.ttlMs;
    return { outcome: { renewed, capped }, heirs };
  });
}
