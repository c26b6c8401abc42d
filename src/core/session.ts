/**
 * Sessions (rule 10): a record of their own, so that a keepalive is one write whatever it carries, and so that
 * all leases of a session are over in the moment it is. Those leases are settled in bounded steps afterwards;
 * until then the ended session's record is what says that they are over.
 */
import type { Decision, Range, View } from "./decision.js";
import { type Draft, deciding } from "./draft.js";
import { type Heir, noHeirs, plainOnly, type Successors, succeed } from "./heirs.js";
import { afterPrefix, boundPrefix, type Key, sessionKey } from "./keys.js";
import { floorOf, raiseTtlHigh, settled } from "./lease.js";
import type { Policy } from "./limits.js";
import type { LockRecord, Metadata, SessionRecord } from "./records.js";
import type { Refusal } from "./refusal.js";
import { endSession, endSessionIfOver } from "./session-end.js";

export interface SessionReply {
  readonly session: SessionRecord;
  readonly now: number;
}

export interface SessionStart {
  readonly id: string;
  readonly hash: string;
  readonly space: string;
  readonly principal: string;
  readonly metadata: Metadata;
  readonly ttlMs: number;
}

export function decideStartSession(view: View, start: SessionStart, policy: Policy): Decision<SessionReply> {
  return deciding(view, policy, (draft) => {
    const expiresAt = draft.now + start.ttlMs;
    const session: SessionRecord = {
      kind: "session",
      ...start,
      createdAt: draft.now,
      expiresAt,
      ended: null,
      leases: 0,
      dueAt: expiresAt,
      gcAt: 0,
    };
    draft.put(sessionKey(start.space, start.id), session);
    raiseTtlHigh(draft, floorOf(draft, start.space), start.space, start.ttlMs);
    return { session, now: draft.now };
  });
}

export interface SessionCall {
  readonly space: string;
  readonly principal: string;
  readonly id: string;
}

/** One write, whatever the number of leases. */
export function decideKeepalive(
  view: View,
  call: SessionCall,
  policy: Policy,
): Decision<SessionReply | Refusal> {
  return deciding(view, policy, (draft) => {
    const session = owned(draft, call);
    if ("refused" in session) return session;
    const next = { ...session, expiresAt: Math.max(session.expiresAt, draft.now + session.ttlMs) };
    draft.put(sessionKey(call.space, call.id), next);
    return { session: next, now: draft.now };
  });
}

export function decideInspectSession(
  view: View,
  call: SessionCall,
  policy: Policy,
): Decision<SessionReply | Refusal> {
  return deciding(view, policy, (draft) => {
    const session = draft.get(sessionKey(call.space, call.id));
    if (session === null || session.principal !== call.principal) return { refused: "session_unknown" };
    return { session: endSessionIfOver(draft, session), now: draft.now };
  });
}

/** Ends the session; its leases are over at once. */
export function decideEndSession(
  view: View,
  call: SessionCall,
  policy: Policy,
): Decision<SessionReply | Refusal> {
  return deciding(view, policy, (draft) => {
    const session = owned(draft, call);
    if ("refused" in session) return session;
    return { session: endSession(draft, session, "deleted", draft.now), now: draft.now };
  });
}

export interface DrainReply {
  readonly heirs: readonly Heir[];
  readonly more: boolean;
}

/** Settles some leases of an ended session and serves their queues. */
export function decideDrainSession(
  view: View,
  key: Key<SessionRecord>,
  policy: Policy,
  successors: Successors = noHeirs,
): Decision<DrainReply> {
  return deciding(view, policy, (draft) => {
    const session = draft.get(key);
    return session === null || session.ended === null
      ? { heirs: [], more: false }
      : drain(draft, session, successors);
  });
}

export function drain(draft: Draft, session: SessionRecord, successors: Successors): DrainReply {
  const from = boundPrefix(session.space, session.id);
  const range: Range = { index: "session", from, to: afterPrefix(from), limit: draft.rowsMax };
  const keys = draft.range(range).map((row) => row.key as Key<LockRecord>);
  draft.require(keys);
  const plain = plainOnly(successors);
  const heirs: Heir[] = [];
  draft.first(keys, (key) => {
    const lock = settled(draft, draft.get(key));
    if (lock !== null) heirs.push(...succeed(draft, lock.space, lock.name, lock, plain));
  });
  return { heirs, more: keys.length === range.limit };
}

function owned(draft: Draft, call: SessionCall): SessionRecord | Refusal {
  const session = draft.get(sessionKey(call.space, call.id));
  if (session === null || session.principal !== call.principal) return { refused: "session_unknown" };
  const now = endSessionIfOver(draft, session);
  return now.ended === null ? now : { refused: "session_expired", endedAt: now.ended.at, now: draft.now };
}
