/** A request id that came before (rule 8): the record that says so, and what to answer. */
import type { Draft } from "./draft.js";
import { lockKey, requestKey } from "./keys.js";
import { type Claim, holdingNow, settled } from "./lease.js";
import type { RequestRecord } from "./records.js";
import type { Refusal } from "./refusal.js";
import type { Granted } from "./take.js";

/** What the claim's request id was granted, or null. */
export function requestOf(draft: Draft, claim: Claim): RequestRecord | null {
  return claim.request === null
    ? null
    : draft.get(requestKey(claim.space, claim.principal, claim.request.id));
}

/** The same lease while it is current, else spent; null: this request id was granted nothing yet. */
export function repeated(draft: Draft, claim: Claim): Granted | Refusal | null {
  const record = requestOf(draft, claim);
  if (record === null) return null;
  if (record.fingerprint !== claim.request?.fingerprint) return { refused: "request_reused" };
  const found = draft.get(lockKey(claim.space, record.name));
  // A lock delay is left alone: whoever clears it must serve the queue.
  const lock = found?.lease ? settled(draft, found) : found;
  const holding = holdingNow(draft, lock);
  if (holding !== null && holding.lock.lease.id === record.leaseId)
    return { granted: holding, how: "repeat" };
  return { refused: "request_spent", holding, previous: lock?.previous ?? null, now: draft.now };
}
