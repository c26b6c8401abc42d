/** Release and force release (rule 6): ends the lease and serves the queue in one step, never a successor's. */
import type { Decision, View } from "./decision.js";
import { deciding } from "./draft.js";
import { type Heir, noHeirs, type Successors, succeed } from "./heirs.js";
import { auditKey, lockKey } from "./keys.js";
import { endLease, isUnheard, settled, type Unheard } from "./lease.js";
import type { Policy } from "./limits.js";
import type { Ended, Outcome } from "./records.js";
import type { Refusal } from "./refusal.js";
import { current, type LeaseCall } from "./renew.js";

export interface Release extends LeaseCall {
  readonly outcome: Outcome["outcome"] | null;
  readonly note: string | null;
  /** Whether a repeated release of the same lease succeeds. */
  readonly repeatable: boolean;
  /** Of a call that may be decided again after it was made, and that must know what it did from what another call did. */
  readonly call?: string;
  /** It is taken back as one that nobody heard of, unless somebody may have. */
  readonly unheard?: Unheard;
}

export interface ReleaseReply {
  readonly outcome: { readonly released: true; readonly repeat: boolean } | Refusal;
  readonly heirs: readonly Heir[];
}

export function decideRelease(
  view: View,
  call: Release,
  policy: Policy,
  successors: Successors = noHeirs,
): Decision<ReleaseReply> {
  return deciding(view, policy, (draft) => {
    const heirs: Heir[] = [];
    const lock = current(draft, call, heirs, successors);
    if ("refused" in lock) {
      const repeat = lock.refused === "not_current" && wasReleasedBy(lock.previous, call);
      return { outcome: repeat ? { released: true, repeat } : lock, heirs };
    }
    if (call.unheard !== undefined && !isUnheard(draft, lock, call.unheard))
      return { outcome: { released: true, repeat: true }, heirs };
    const outcome = call.outcome === null ? null : { outcome: call.outcome, note: call.note, at: draft.now };
    const clean = call.outcome === null || call.outcome === "done";
    const end = { at: draft.now, event: "released", outcome, clean, call: call.call } as const;
    const free = endLease(draft, lock, "released", end);
    heirs.push(...succeed(draft, call.space, call.name, free, successors));
    return { outcome: { released: true, repeat: false }, heirs };
  });
}

const wasReleasedBy = (previous: Ended | null, { leaseId, principal, repeatable, call }: Release): boolean =>
  previous !== null &&
  previous.how === "released" &&
  previous.leaseId === leaseId &&
  previous.principal === principal &&
  (repeatable || (call !== undefined && previous.call === call));

export interface ForceRelease {
  readonly space: string;
  readonly name: string;
  readonly by: string;
  readonly reason: string;
  readonly auditId: string;
  /** For the audit: the wall clock's time of the call. */
  readonly wallAt: number;
}

export interface ForceReleaseReply {
  readonly ended: Ended | null;
  /** What others may see of the session that the ended lease was bound to. */
  readonly sessionHash: string | null;
  /** The last token granted, 0 if none is remembered. */
  readonly token: number;
  readonly heirs: readonly Heir[];
}

/** Ends whatever lease there is; who did it and why is told to the holder and kept in the audit. */
export function decideForceRelease(
  view: View,
  call: ForceRelease,
  policy: Policy,
  successors: Successors = noHeirs,
): Decision<ForceReleaseReply> {
  return deciding(view, policy, (draft) => {
    const lock = settled(draft, draft.get(lockKey(call.space, call.name)));
    if (lock === null || lock.lease === null)
      return {
        ended: null,
        sessionHash: null,
        token: lock?.token ?? 0,
        heirs: succeed(draft, call.space, call.name, lock, successors),
      };
    const { by, reason } = call;
    const free = endLease(draft, lock, "forced", { at: draft.now, event: "released", by, reason });
    draft.put(auditKey(call.space, call.auditId), {
      kind: "audit",
      id: call.auditId,
      space: call.space,
      at: draft.now,
      wallAt: call.wallAt,
      principal: by,
      action: "force_release",
      subject: call.name,
      reason,
      token: lock.token,
      gcAt: draft.now + policy.auditRetentionMs,
    });
    return {
      ended: free.previous,
      sessionHash: lock.lease.sessionHash,
      token: free.token,
      heirs: succeed(draft, call.space, call.name, free, successors),
    };
  });
}
