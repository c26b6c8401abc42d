// A history's words for what the core takes and gives: an acquire as a claim, and outcomes as replies. The service of
// the checker's own tests and the face of the simulation speak the same.
import type { Claim } from "../../src/core/lease.js";
import type { Holding, Refusal, RefusalCode } from "../../src/core/refusal.js";
import type { Call, Holder, Reply } from "../../src/verify/history.js";

export const space = "default";

/** `leaseId`: of the lease that it is granted, if it is granted a new one. */
export function claimOf(
  principal: string,
  { name, ttlMs, delayMs, session, lease, requestId, label }: Extract<Call, { op: "acquire" }>,
  leaseId: string,
): Claim {
  return {
    space,
    name,
    principal,
    owner: null,
    metadata: label ?? null,
    ttlMs,
    delayMs,
    sessionId: session,
    leaseId,
    proof: lease,
    reentrant: false,
    request:
      requestId === null ? null : { id: requestId, fingerprint: JSON.stringify([name, ttlMs, session]) },
  };
}

export const granted = ({ lock, expiresAt, now }: Holding): Reply => ({
  kind: "granted",
  lease: lock.lease.id,
  token: lock.token,
  leftMs: Math.max(0, expiresAt - now),
});

/** Who has it, as anybody may read. */
export const holderOf = ({ lock, expiresAt, now }: Holding): Holder => ({
  principal: lock.lease.principal,
  label: typeof lock.lease.metadata === "string" ? lock.lease.metadata : null,
  leftMs: Math.max(0, expiresAt - now),
});

type Of<Code extends RefusalCode> = Extract<Refusal, { refused: Code }>;

const replies: { readonly [Code in RefusalCode]: (refusal: Of<Code>, name: string) => Reply } = {
  held: ({ holding }, name) =>
    holding.lock.name === name
      ? { kind: "held", token: holding.lock.token, holder: holderOf(holding) }
      : { kind: "held", token: null, overlapping: holding.lock.name },
  delayed: () => ({ kind: "delayed" }),
  queued: () => ({ kind: "delayed" }),
  not_current: () => ({ kind: "lost" }),
  request_spent: () => ({ kind: "lost" }),
  request_reused: () => ({ kind: "reused" }),
  session_unknown: () => ({ kind: "gone" }),
  session_expired: () => ({ kind: "gone" }),
  overlap_too_wide: () => ({ kind: "refused", code: "conflict" }),
};

/** `name`: what was asked for. */
export const refused = (refusal: Refusal, name: string): Reply =>
  (replies[refusal.refused] as (refusal: Refusal, name: string) => Reply)(refusal, name);
