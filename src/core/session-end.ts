/** How a session ends: by its holder's wish or by time. Its leases are over in that very moment. */
import type { Draft } from "./draft.js";
import { sessionKey } from "./keys.js";
import type { SessionRecord } from "./records.js";

/** The session as it truly is now: ended here, in this step, if its time has passed. */
export function endSessionIfOver(draft: Draft, session: SessionRecord): SessionRecord {
  if (session.ended !== null || draft.earliest <= session.expiresAt) return session;
  return endSession(draft, session, "expired", session.expiresAt);
}

export function endSession(
  draft: Draft,
  session: SessionRecord,
  how: "deleted" | "expired",
  at: number,
): SessionRecord {
  const empty = session.leases === 0;
  const next: SessionRecord = {
    ...session,
    ended: { at, how },
    // Due at once and until its last lease is settled, so that the sweep finds it also after a restart.
    dueAt: empty ? 0 : Math.max(1, Math.min(session.dueAt, draft.earliest - 1)),
    gcAt: empty ? draft.now + draft.policy.sessionRetentionMs : 0,
  };
  draft.put(sessionKey(session.space, session.id), next);
  return next;
}
