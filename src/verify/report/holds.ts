/**
 * Who held what from when to when, as the callers saw it: from the reply that told of the grant to the last moment
 * that they could count on. In a service that keeps its promises two holds of a name never overlap.
 */
import type { Operation } from "../history.js";

export interface Hold {
  readonly name: string;
  readonly process: string;
  readonly lease: string;
  readonly token: number;
  readonly from: number;
  readonly to: number;
  readonly how: "released" | "ran out" | "session ended" | "forced";
}

interface Draft {
  readonly name: string;
  readonly process: string;
  readonly token: number;
  readonly from: number;
  /** Set where the lease lives exactly as long as this session. */
  readonly session: string | null;
  to: number;
  how: Hold["how"];
}

/** In the order in which they were granted. */
export function holdsOf(operations: readonly Operation[]): Hold[] {
  const drafts = new Map<string, Draft>();
  const sessionTtls = new Map<string, number>();
  const inOrder = operations
    .filter(({ ended }) => Number.isFinite(ended))
    .sort((one, other) => one.ended - other.ended);
  for (const operation of inOrder) apply(operation, drafts, sessionTtls);
  return [...drafts].map(([lease, { session: _, ...draft }]) => ({ lease, ...draft }));
}

function apply(
  { call, reply, began, ended, process }: Operation,
  drafts: Map<string, Draft>,
  sessionTtls: Map<string, number>,
): void {
  if (call.op === "open" && reply.kind === "opened") sessionTtls.set(reply.session, call.ttlMs);
  if ((call.op === "acquire" || call.op === "renew") && reply.kind === "granted") {
    const draft = drafts.get(reply.lease) ?? {
      name: call.name,
      process,
      token: reply.token,
      from: ended,
      session: call.op === "acquire" && call.ttlMs === null ? call.session : null,
      to: ended,
      how: "ran out",
    };
    drafts.set(reply.lease, draft);
    // A copy of the request may be answered after the release.
    if (draft.how === "ran out") draft.to = Math.max(draft.from, began + reply.leftMs);
  }
  if (reply.kind !== "done") return;
  // From the moment that an end is asked for, nobody can count on the lease.
  if (call.op === "release") endAt(drafts.get(call.lease), began, "released");
  for (const draft of drafts.values()) {
    if (call.op === "force" && draft.name === call.name && draft.to > began) endAt(draft, began, "forced");
    if ((call.op !== "keepalive" && call.op !== "end") || draft.session !== call.session) continue;
    if (call.op === "end") endAt(draft, began, "session ended");
    else if (draft.how === "ran out") draft.to = began + (sessionTtls.get(call.session) ?? 0);
  }
}

function endAt(draft: Draft | undefined, at: number, how: Hold["how"]): void {
  if (draft === undefined || draft.how !== "ran out") return;
  draft.to = Math.max(draft.from, Math.min(draft.to, at));
  draft.how = how;
}
