// A face for the simulation: calls of a history as calls of the service, outcomes as replies of a history. It does
// what the HTTP face does where that matters to leases: a grant whose caller left while it waited is taken back.
import type { Leases } from "../../src/service/leases.js";
import type { Wait } from "../../src/service/waiting.js";
import { StoreError } from "../../src/store/store.js";
import type { Call, Reply } from "../../src/verify/history.js";
import { claimOf, granted, holderOf, refused, space } from "../history/answers.js";

/** One request as it arrives at the server. */
export interface Request {
  readonly principal: string;
  readonly call: Call;
  /** Names the lease, session or audit record that it makes. */
  readonly newId: string;
  /** Aborted when the caller's connection closed before the reply was written. */
  readonly gone: AbortSignal;
}

export async function answer(leases: Leases, request: Request): Promise<Reply> {
  try {
    return await carryOut(leases, request);
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    if (error.kind === "unknown") return { kind: "unknown", why: error.message };
    return { kind: "refused", code: error.kind === "unsupported" ? "conflict" : "unavailable" };
  }
}

async function carryOut(leases: Leases, request: Request): Promise<Reply> {
  const { principal, call, newId } = request;
  switch (call.op) {
    case "acquire":
      return acquire(leases, request, call);
    case "renew": {
      const { name, lease: leaseId, ttlMs } = call;
      const outcome = await leases.renew({ space, name, principal, leaseId, ttlMs });
      return "refused" in outcome ? refused(outcome, name) : granted(outcome.renewed);
    }
    case "release": {
      const { name, lease: leaseId } = call;
      const release = { space, name, principal, leaseId, outcome: null, note: null, repeatable: false };
      const outcome = await leases.release(release);
      return "refused" in outcome ? refused(outcome, name) : { kind: "done" };
    }
    case "force":
      await leases.forceRelease({
        space,
        name: call.name,
        by: principal,
        reason: "simulated",
        auditId: newId,
        wallAt: leases.store.now(),
      });
      return { kind: "done" };
    case "read": {
      const { holding, token } = await leases.inspect(space, call.name);
      const state = { kind: "state", held: holding !== null, token } as const;
      return holding === null ? state : { ...state, holder: holderOf(holding) };
    }
    case "open": {
      const { ttlMs } = call;
      const start = { id: newId, hash: newId, space, principal, metadata: null, ttlMs };
      const { session, now } = await leases.sessions.start(start);
      return { kind: "opened", session: newId, leftMs: session.expiresAt - now };
    }
    case "keepalive": {
      const reply = await leases.sessions.keepalive({ space, principal, id: call.session });
      if ("refused" in reply) return refused(reply, "");
      return { kind: "done", leftMs: reply.session.expiresAt - reply.now };
    }
    case "end": {
      const reply = await leases.sessions.end({ space, principal, id: call.session });
      return "refused" in reply && reply.refused !== "session_expired"
        ? refused(reply, "")
        : { kind: "done" };
    }
    case "node":
      throw new Error("there are no nodes here");
  }
}

async function acquire(
  leases: Leases,
  { principal, newId, gone }: Request,
  call: Extract<Call, { op: "acquire" }>,
): Promise<Reply> {
  const claim = claimOf(principal, call, newId);
  const wait: Wait | null = call.waitMs === 0 ? null : { ms: call.waitMs, gone };
  const acquired = await leases.acquire(claim, wait);
  const { outcome } = acquired;
  if ("refused" in outcome) return refused(outcome, call.name);
  if (wait !== null && gone.aborted) leases.unheard(acquired.claim, outcome.granted);
  return granted(outcome.granted);
}
