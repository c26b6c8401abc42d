/** Handlers of /locks. */
import { randomUUID } from "node:crypto";
import type { Claim } from "../../core/lease.js";
import { newAuditId } from "../../service/bearer.js";
import { mayTouch } from "../../service/identity.js";
import type {
  AcquireRequest,
  CheckRequest,
  ExtendRequest,
  ListLocksQuery,
  ReleaseRequest,
  RenewRequest,
} from "../../wire/locks.js";
import type { ForceReleaseRequest } from "../../wire/operate.js";
import { type Answer, ok, refuse } from "./answer.js";
import { type Call, type Handler, pageLimit, pathName, requestOf } from "./call.js";
import { fromCursor, toCursor } from "./cursor.js";
import { lockRefusal, withinSight } from "./refusals.js";
import { refuseRevoked, waitOf } from "./waiting-caller.js";

const ttlDefaultMs = 60_000;

export const acquireLock: Handler = async (call) => {
  const body = call.body as AcquireRequest;
  const name = pathName(call, "write");
  if (body.ephemeral === true && body.session_id === undefined)
    return refuse(
      "invalid_input",
      "ephemeral needs session_id: a lease is ephemeral by being bound to a session.",
    );
  const metadata = body.metadata ?? null;
  const sessionId = body.session_id ?? null;
  const ttlMs = body.ttl_seconds === undefined ? null : body.ttl_seconds * 1000;
  const claim: Claim = {
    space: call.space,
    name,
    principal: call.identity.principal,
    owner: null,
    metadata,
    ttlMs: ttlMs ?? (sessionId === null ? defaultTtl(call, ttlDefaultMs) : null),
    ttlIsDefault: ttlMs === null,
    delayMs: (body.lock_delay_seconds ?? 0) * 1000,
    sessionId,
    leaseId: newLeaseId(),
    proof: body.lease_id ?? null,
    reentrant: call.identity.reentrant,
    request: requestOf(call, body.request_id, ["acquire", name, ttlMs, metadata, sessionId]),
  };
  return acquire(
    call,
    claim,
    body.wait_seconds ?? 0,
    (granted) => ok(call.desk.present.acquired(granted)),
    lockRefusal,
  );
};

/** What a lease gets that names no TTL, within what the operator allows. */
export const defaultTtl = (call: Call, ms: number): number =>
  Math.min(ms, call.desk.limits.ttlSecondsMax * 1000);

export const newLeaseId = (): string => `ls_${randomUUID()}`;

/** Acquires, waiting while the caller listens; a grant that cannot be told is taken back. */
export async function acquire(
  call: Call,
  claim: Claim,
  waitSeconds: number,
  granted: (holding: Parameters<Call["desk"]["present"]["acquired"]>[0]) => Answer,
  refused: typeof lockRefusal,
): Promise<Answer> {
  const { leases, present } = call.desk;
  const wait = waitOf(call, waitSeconds);
  const acquired = await leases.acquire(claim, wait).catch((error: unknown) => {
    if (wait === null) throw error;
    refuseRevoked(call);
    throw error;
  });
  const { outcome, waiters, position } = acquired;
  if (!("granted" in outcome)) {
    const seen = withinSight(outcome, claim.name, (name) => mayTouch(call.identity, name));
    return refused(seen, { name: claim.name, waiters, position, present });
  }
  if (wait === null) return granted(outcome.granted);
  const undelivered = (): void => leases.unheard(acquired.claim, outcome.granted);
  if (wait.gone.aborted) undelivered();
  refuseRevoked(call);
  return { ...granted(outcome.granted), undelivered };
}

export const renewLock: Handler = async (call) => {
  const body = call.body as RenewRequest;
  const name = pathName(call, "write");
  const outcome = await call.desk.leases.renew({
    ...caller(call, name, body.lease_id),
    ttlMs: body.ttl_seconds === undefined ? null : body.ttl_seconds * 1000,
  });
  if ("refused" in outcome) return lockRefusal(outcome, asked(call, name, body.lease_id));
  return ok(call.desk.present.renewed(outcome.renewed));
};

export const extendLock: Handler = async (call) => {
  const body = call.body as ExtendRequest;
  const name = pathName(call, "write");
  const outcome = await call.desk.leases.extend({
    ...caller(call, name, body.lease_id),
    ttlMs: body.ttl_seconds * 1000,
  });
  if ("refused" in outcome) return lockRefusal(outcome, asked(call, name, body.lease_id));
  const renewed = call.desk.present.renewed(outcome.renewed);
  return ok(outcome.capped ? { ...renewed, capped: true } : renewed);
};

export const releaseLock: Handler = async (call) => {
  const name = pathName(call, "write");
  const { lease_id } = call.body as ReleaseRequest;
  const outcome = await call.desk.leases.release({
    ...caller(call, name, lease_id),
    outcome: null,
    note: null,
    repeatable: false,
  });
  return "refused" in outcome ? lockRefusal(outcome, asked(call, name, lease_id)) : ok(null);
};

export const getLock: Handler = async (call) => {
  const name = pathName(call, "read");
  const found = await call.desk.leases.inspect(call.space, name);
  return ok(
    call.desk.present.lock(
      name,
      found,
      (found.elsewhere ?? 0) + call.desk.leases.queues.count(call.space, name),
    ),
  );
};

export const listLocks: Handler = async (call) => {
  const query = call.query as ListLocksQuery;
  const { leases, present } = call.desk;
  const prefix = (query.prefix ?? "").normalize("NFC");
  const mine = isTrue(query.mine);
  const page = await leases.list({
    space: call.space,
    prefix,
    after: fromCursor(call, query.cursor),
    limit: pageLimit(call, query.limit),
    accept: (lock) =>
      mayTouch(call.identity, lock.name) && (!mine || lock.lease?.principal === call.identity.principal),
  });
  const locks = page.holdings.map((holding) =>
    present.heldLock(holding, leases.queues.count(call.space, holding.lock.name)),
  );
  return ok({
    locks,
    total: locks.length,
    prefix: query.prefix ?? null,
    next_cursor: toCursor(call, page.next),
  });
};

export const isTrue = (flag: string | undefined): boolean => flag === "true" || flag === "1";

export const checkLock: Handler = async (call) => {
  const name = pathName(call, "read");
  const { token, holding } = await call.desk.leases.inspect(call.space, name);
  const { fencing_token } = call.body as CheckRequest;
  return ok({
    current: holding !== null && holding.lock.token === fencing_token,
    fencing_token: token,
  });
};

export const forceReleaseLock: Handler = async (call) => {
  const name = pathName(call, "force");
  const { reason } = call.body as ForceReleaseRequest;
  const by = call.identity.principal;
  const { ended, sessionHash, token } = await call.desk.leases.forceRelease({
    space: call.space,
    name,
    by,
    reason,
    auditId: newAuditId(),
    wallAt: call.desk.present.instants.wall(),
  });
  return ok({
    name,
    released: ended !== null,
    fencing_token: token,
    holder:
      ended === null
        ? null
        : {
            principal: ended.principal,
            session: sessionHash,
            since: call.desk.present.instants.text(ended.since),
          },
  });
};

/** The holder as the core knows it. */
export const caller = (call: Call, name: string, leaseId: string) => ({
  space: call.space,
  name,
  principal: call.identity.principal,
  leaseId,
});

export const asked = (call: Call, name: string, leaseId?: string) => ({
  name,
  leaseId,
  waiters: 0,
  present: call.desk.present,
});
