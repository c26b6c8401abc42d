/**
 * When a lease is over, and how one begins, goes on and ends. Rules 1, 4, 7, 10 and 11 of the design are here;
 * the `decide…` functions put them together.
 */
import type { Draft } from "./draft.js";
import { InvariantError } from "./invariants.js";
import { everySpace, floorKey, lockKey, requestKey, sessionKey } from "./keys.js";
import { tokenMax } from "./limits.js";
import { freeNode } from "./nodes/freed.js";
import type {
  EndedHow,
  FloorRecord,
  Lease,
  LeaseEvent,
  LockRecord,
  Metadata,
  Outcome,
  SessionRecord,
} from "./records.js";
import type { Holding } from "./refusal.js";

/** Somebody asking for a name. */
export interface Claim {
  readonly space: string;
  readonly name: string;
  readonly principal: string;
  readonly owner: string | null;
  readonly metadata: Metadata;
  /** null only with a session: live as long as it does. */
  readonly ttlMs: number | null;
  /** The caller named no TTL: whoever has the lease already keeps its own. */
  readonly ttlIsDefault?: boolean;
  readonly delayMs: number;
  readonly sessionId: string | null;
  /** The id the lease gets if it is granted. */
  readonly leaseId: string;
  /** Proof of being the holder already. */
  readonly proof: string | null;
  /** Same principal and metadata count as the same holder. */
  readonly reentrant: boolean;
  readonly request: { readonly id: string; readonly fingerprint: string } | null;
}

/** The instant after which the lease is over, given its session. */
export function endOf(lease: Lease, session: SessionRecord | null): number {
  if (lease.sessionId === null) return lease.expiresAt ?? 0;
  const sessionEnd = session === null ? 0 : (session.ended?.at ?? session.expiresAt);
  return lease.expiresAt === null ? sessionEnd : Math.min(lease.expiresAt, sessionEnd);
}

/** Over means that the clock has surely passed the end: at the end itself the lease is still held. */
function isOver(lease: Lease, session: SessionRecord | null, earliest: number): boolean {
  if (lease.sessionId !== null && (session === null || session.ended !== null)) return true;
  return earliest > endOf(lease, session);
}

export function sessionOf(draft: Draft, lock: LockRecord): SessionRecord | null {
  const id = lock.lease?.sessionId;
  return id ? draft.get(sessionKey(lock.space, id)) : null;
}

/**
 * The record as it truly is now: a lease that is over is ended here, in this step, with its one event. Also
 * clears a lock delay that has run out.
 */
export function settled(draft: Draft, lock: LockRecord | null): LockRecord | null {
  if (lock === null) return null;
  if (lock.lease === null) return settledFree(draft, lock);
  const session = sessionOf(draft, lock);
  if (isOver(lock.lease, session, draft.earliest)) {
    const bySession = lock.lease.sessionId !== null && sessionEndedFirst(lock.lease, session);
    const lost = lock.lease.sessionId !== null && session === null;
    const endedAt = lost ? draft.now : Math.min(draft.now, endOf(lock.lease, session));
    return endLease(draft, lock, bySession ? "session" : "expired", {
      at: endedAt,
      event: session?.ended?.how === "deleted" && bySession ? "released" : "expired",
    });
  }
  return lock;
}

function sessionEndedFirst(lease: Lease, session: SessionRecord | null): boolean {
  if (session === null || lease.expiresAt === null) return true;
  return (session.ended?.at ?? session.expiresAt) <= lease.expiresAt;
}

function settledFree(draft: Draft, lock: LockRecord): LockRecord {
  if (lock.availableAt === 0 || draft.earliest <= lock.availableAt) return lock;
  return save(draft, { ...lock, availableAt: 0, dueAt: 0 });
}

export interface End {
  readonly at: number;
  readonly event: "released" | "expired";
  readonly by?: string;
  readonly reason?: string;
  readonly call?: string | undefined;
  readonly outcome?: Outcome | null;
  /** A clean release forgets the attempts. */
  readonly clean?: boolean;
  /** Nobody ever heard of it: it was no attempt. */
  readonly isUndone?: boolean;
  /** Of a node's lease: the work is over with it. */
  readonly isFinal?: boolean;
}

/** Ends the lease in `lock`: keeps the token, remembers who had it, starts a lock delay where one is due. */
export function endLease(draft: Draft, lock: LockRecord, how: EndedHow, end: End): LockRecord {
  const lease = lock.lease;
  if (lease === null) throw new InvariantError(`no lease to end: ${lock.name}`);
  unbind(draft, lock.space, lease);
  freeNode(draft, lock, how, end);
  const availableAt = how !== "released" && lease.delayMs > 0 ? end.at + lease.delayMs : 0;
  const delayed = availableAt >= draft.earliest;
  draft.emit({ ...eventOf(lock, lease, end.event, draft.now), expiresAt: end.at });
  return save(draft, {
    ...lock,
    lease: null,
    previous: {
      leaseId: lease.id,
      principal: lease.principal,
      owner: lease.owner,
      token: lock.token,
      since: lease.since,
      endedAt: end.at,
      how,
      by: end.by ?? null,
      reason: end.reason ?? null,
      ...(end.call === undefined ? {} : { call: end.call }),
    },
    outcome: end.outcome === undefined ? lock.outcome : end.outcome,
    attempts: end.clean === true ? 0 : lock.attempts - (end.isUndone === true ? 1 : 0),
    availableAt: delayed ? availableAt : 0,
    dueAt: delayed ? availableAt : 0,
    gcAt: Math.max(draft.now, availableAt) + draft.policy.recordRetentionMs,
  });
}

function unbind(draft: Draft, space: string, lease: Lease): void {
  if (lease.sessionId === null) return;
  const key = sessionKey(space, lease.sessionId);
  const session = draft.get(key);
  if (session === null) return;
  const leases = session.leases - 1;
  const drained = session.ended !== null && leases === 0;
  draft.put(key, {
    ...session,
    leases,
    dueAt: drained ? 0 : session.dueAt,
    gcAt: drained ? draft.now + draft.policy.sessionRetentionMs : session.gcAt,
  });
}

/** Grants a free name: the next token above everything ever granted, written with its request id and event. */
export function grant(draft: Draft, lock: LockRecord | null, claim: Claim): Holding {
  const { now } = draft;
  const floor = floorOf(draft, claim.space);
  const token = Math.max(lock?.token ?? 0, floor?.token ?? 0) + 1;
  if (token > tokenMax) throw new InvariantError(`tokens exhausted: ${claim.name}`);
  const session = bind(draft, claim);
  const expiresAt = claim.ttlMs === null ? null : now + claim.ttlMs;
  const lease: Lease = {
    id: claim.leaseId,
    principal: claim.principal,
    owner: claim.owner,
    sessionId: claim.sessionId,
    sessionHash: session?.hash ?? null,
    metadata: claim.metadata,
    ttlMs: claim.ttlMs,
    since: now,
    renewedAt: now,
    expiresAt,
    delayMs: claim.delayMs,
    progress: null,
  };
  const granted = save(draft, {
    kind: "lock",
    space: claim.space,
    name: claim.name,
    token,
    attempts: (lock?.attempts ?? 0) + 1,
    lease,
    previous: lock?.previous ?? null,
    outcome: lock?.outcome ?? null,
    availableAt: 0,
    dueAt: expiresAt ?? 0,
    gcAt: 0,
  });
  raiseTtlHigh(draft, floor, claim.space, claim.ttlMs ?? session?.ttlMs ?? 0);
  remember(draft, claim, token, endOf(lease, session));
  draft.emit(eventOf(granted, lease, "acquired", now));
  return holdingOf(granted, session, now);
}

function bind(draft: Draft, claim: Claim): SessionRecord | null {
  if (claim.sessionId === null) return null;
  const key = sessionKey(claim.space, claim.sessionId);
  const session = draft.get(key);
  if (session === null) throw new InvariantError(`grant without its session: ${claim.name}`);
  const bound = { ...session, leases: session.leases + 1 };
  draft.put(key, bound);
  return bound;
}

export function raiseTtlHigh(draft: Draft, floor: FloorRecord | null, space: string, ttlMs: number): void {
  if (ttlMs <= (floor?.ttlHighMs ?? 0)) return;
  draft.put(floorKey(space), { ...(floor ?? noFloor(space)), ttlHighMs: ttlMs });
}

/**
 * The space's floor, or the one that holds for spaces without their own: a restore sets that, since it cannot know
 * of spaces that were made after the backup.
 */
export function floorOf(draft: Draft, space: string): FloorRecord | null {
  const own = draft.get(floorKey(space));
  if (own !== null) return own;
  const every = draft.get(floorKey(everySpace));
  return every === null ? null : { ...every, space };
}

/** Until when nothing is granted after a restore; 0: it may be. */
export const quietUntil = (floor: FloorRecord | null, earliest: number): number =>
  floor !== null && earliest <= floor.quietUntil ? floor.quietUntil : 0;

export const noFloor = (space: string): FloorRecord => ({
  kind: "floor",
  space,
  token: 0,
  ttlHighMs: 0,
  quietUntil: 0,
});

/** Writes down what the request id was granted, in the step that grants it. */
export function remember(
  draft: Draft,
  claim: Pick<Claim, "space" | "principal" | "name" | "leaseId" | "request">,
  token: number,
  end: number,
): void {
  if (claim.request === null) return;
  draft.put(requestKey(claim.space, claim.principal, claim.request.id), {
    kind: "request",
    space: claim.space,
    principal: claim.principal,
    requestId: claim.request.id,
    fingerprint: claim.request.fingerprint,
    name: claim.name,
    leaseId: claim.leaseId,
    token,
    over: false,
    gcAt: end + draft.policy.requestRetentionMs,
  });
}

/** Rule 4: the later of the current end and now + TTL; only an explicit TTL may shorten. Keeps the token. */
export function prolong(
  draft: Draft,
  lock: LockRecord,
  lease: Lease,
  ttlMs: number | null,
  progress?: string,
): LockRecord {
  const { now } = draft;
  const ttl = ttlMs ?? lease.ttlMs;
  let expiresAt = lease.expiresAt;
  if (ttl !== null)
    expiresAt = ttlMs === null && lease.expiresAt !== null ? Math.max(lease.expiresAt, now + ttl) : now + ttl;
  if (ttlMs !== null) raiseTtlHigh(draft, floorOf(draft, lock.space), lock.space, ttlMs);
  return prolongTo(draft, lock, { ...lease, ttlMs: ttl, expiresAt, progress: progress ?? lease.progress });
}

/** In the place of calls: whoever was told, its holder has heard. */
const heard: readonly string[] = ["holder"];
/** More calls than this were told of one lease: it is not taken back. */
const toldMax = 8;

/** The calls that may have heard of the lease. */
const toldOf = ({ told, id }: Lease): readonly string[] => told ?? [id];

/** The holder is told of its lease once more: on a cluster that must be known to all, on one server it knows it itself. */
export function toldAgain(draft: Draft, holding: Holding, call: string): Holding {
  const { lock } = holding;
  const told = toldOf(lock.lease);
  if (!draft.isShared || [call, ...heard].some((one) => told.includes(one))) return holding;
  return { ...holding, lock: saveTold(draft, lock, told.length < toldMax ? [...told, call] : heard) };
}

/** Calls that were told of a lease, and did not hear. */
export interface Unheard {
  readonly calls: readonly string[];
  /** Whether another call of this server heard of it. Asked while deciding: the answer must be current. */
  readonly isTold: () => boolean;
}

/** Whether nobody heard of the lease; else it is noted that these calls did not. */
export function isUnheard(draft: Draft, lock: Holding["lock"], { calls, isTold }: Unheard): boolean {
  if (isTold()) return false;
  const told = toldOf(lock.lease);
  const left = told.filter((call) => !calls.includes(call));
  if (left.length > 0 && left.length < told.length) saveTold(draft, lock, left);
  return left.length === 0;
}

function saveTold(draft: Draft, lock: Holding["lock"], told: readonly string[]): Holding["lock"] {
  const next = { ...lock, lease: { ...lock.lease, told } };
  save(draft, next);
  return next;
}

/** Puts the lease, which has its new end, in place of the one in `lock`. A later end need not move the due entry. */
export function prolongTo(draft: Draft, lock: LockRecord, lease: Lease): LockRecord {
  const { expiresAt } = lease;
  const dueAt =
    expiresAt === null ? lock.dueAt : lock.dueAt === 0 ? expiresAt : Math.min(lock.dueAt, expiresAt);
  const renewed: Lease = { ...lease, renewedAt: draft.now, ...(draft.isShared ? { told: heard } : {}) };
  const next = save(draft, { ...lock, lease: renewed, dueAt });
  draft.emit(eventOf(next, renewed, "renewed", draft.now));
  return next;
}

export function save(draft: Draft, lock: LockRecord): LockRecord {
  draft.put(lockKey(lock.space, lock.name), lock);
  return lock;
}

export function holdingOf(lock: LockRecord, session: SessionRecord | null, now: number): Holding {
  if (lock.lease === null) throw new InvariantError(`not held: ${lock.name}`);
  return { lock: lock as Holding["lock"], expiresAt: endOf(lock.lease, session), now };
}

/** Who holds the name now, or null. The record must be settled. */
export function holdingNow(draft: Draft, lock: LockRecord | null): Holding | null {
  return lock === null || lock.lease === null ? null : holdingOf(lock, sessionOf(draft, lock), draft.now);
}

function eventOf(lock: LockRecord, lease: Lease, type: LeaseEvent["type"], at: number): LeaseEvent {
  return {
    type,
    space: lock.space,
    name: lock.name,
    token: lock.token,
    principal: lease.principal,
    owner: lease.owner,
    sessionHash: lease.sessionHash,
    since: lease.since,
    metadata: lease.metadata,
    expiresAt: lease.expiresAt,
    at,
  };
}
