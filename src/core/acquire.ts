/**
 * Acquire: rules 1, 2, 3, 8, 9, 11 and 12. One step settles what is over, serves the queue before the caller,
 * and grants or refuses.
 */
import type { Decision, View } from "./decision.js";
import { type Draft, deciding } from "./draft.js";
import { acquireKeys, type Heir, noHeirs, requireHeirs, type Successors, succeed } from "./heirs.js";
import { lockKey, requestKey, sessionKey } from "./keys.js";
import { type Claim, holdingNow, settled } from "./lease.js";
import type { Policy } from "./limits.js";
import type { Refusal } from "./refusal.js";
import { endSessionIfOver } from "./session-end.js";
import { type Granted, takeOrRefuse } from "./take.js";

export interface AcquireReply {
  readonly outcome: Granted | Refusal;
  readonly heirs: readonly Heir[];
}

export function decideAcquire(
  view: View,
  claim: Claim,
  policy: Policy,
  successors: Successors = noHeirs,
): Decision<AcquireReply> {
  return deciding(view, policy, (draft) => {
    const repeat = repeated(draft, claim);
    if (repeat !== null) return { outcome: repeat, heirs: [] };
    const bad = sessionRefusal(draft, claim);
    if (bad !== null) return { outcome: bad, heirs: [] };
    let lock = settled(draft, draft.get(lockKey(claim.space, claim.name)));
    const heirs = succeed(draft, claim.space, claim.name, lock, successors);
    if (heirs.length > 0) lock = draft.get(lockKey(claim.space, claim.name));
    return { outcome: takeOrRefuse(draft, lock, claim), heirs };
  });
}

export interface AcquireFirstReply {
  readonly granted: Granted | null;
  /** One refusal per candidate tried, in order. */
  readonly refusals: readonly { readonly name: string; readonly refusal: Refusal }[];
  readonly heirs: readonly Heir[];
}

/** Tries the claims in order and grants at most one, all in one step. The claims share one request id. */
export function decideAcquireFirst(
  view: View,
  claims: readonly Claim[],
  policy: Policy,
  successors: Successors = noHeirs,
): Decision<AcquireFirstReply> {
  return deciding(view, policy, (draft) => {
    const refusals: { name: string; refusal: Refusal }[] = [];
    const heirs: Heir[] = [];
    const first = claims[0];
    const repeat = first === undefined ? null : repeated(draft, first);
    if (first !== undefined && repeat !== null)
      return "refused" in repeat
        ? { granted: null, refusals: [{ name: first.name, refusal: repeat }], heirs }
        : { granted: repeat, refusals, heirs };
    draft.require(claims.flatMap(acquireKeys));
    requireHeirs(
      draft,
      claims.map((claim) => lockKey(claim.space, claim.name)),
      successors,
    );
    for (const claim of claims) {
      const outcome = sessionRefusal(draft, claim) ?? tryCandidate(draft, claim, heirs, successors);
      if (!("refused" in outcome)) return { granted: outcome, refusals, heirs };
      refusals.push({ name: claim.name, refusal: outcome });
    }
    return { granted: null, refusals, heirs };
  });
}

function tryCandidate(draft: Draft, claim: Claim, heirs: Heir[], successors: Successors): Granted | Refusal {
  const key = lockKey(claim.space, claim.name);
  const lock = settled(draft, draft.get(key));
  const served = succeed(draft, claim.space, claim.name, lock, successors);
  heirs.push(...served);
  return takeOrRefuse(draft, served.length > 0 ? draft.get(key) : lock, claim);
}

/** A request id that was granted before: the same lease while it is current, else spent. */
function repeated(draft: Draft, claim: Claim): Granted | Refusal | null {
  if (claim.request === null) return null;
  const record = draft.get(requestKey(claim.space, claim.principal, claim.request.id));
  if (record === null) return null;
  if (record.fingerprint !== claim.request.fingerprint) return { refused: "request_reused" };
  const lock = settled(draft, draft.get(lockKey(claim.space, record.name)));
  const holding = holdingNow(draft, lock);
  if (holding !== null && holding.lock.lease.id === record.leaseId)
    return { granted: holding, how: "repeat" };
  return { refused: "request_spent", holding, previous: lock?.previous ?? null, now: draft.now };
}

/** Why this claim's session cannot carry a lease, or null. */
function sessionRefusal(draft: Draft, claim: Claim): Refusal | null {
  if (claim.sessionId === null) return null;
  const session = draft.get(sessionKey(claim.space, claim.sessionId));
  if (session === null || session.principal !== claim.principal) return { refused: "session_unknown" };
  const ended = endSessionIfOver(draft, session).ended;
  return ended === null ? null : { refused: "session_expired", endedAt: ended.at, now: draft.now };
}
