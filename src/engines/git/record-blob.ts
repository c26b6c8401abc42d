/**
 * A lock as it lies in a repository: JSON with durations, because no two machines' clocks are compared. What a lease has
 * left when it is written is counted by each reader from the moment it first saw the record; wall-clock times are for
 * people, and for records so old that any clock will do. `write_id` makes every record unlike every other: two pushes
 * of the same bytes would both succeed.
 */
import { type Key, lockKey, requestKey } from "../../core/keys.js";
import type { Ended, Lease, LockRecord, Metadata, Outcome, RequestRecord } from "../../core/records.js";
import { StoreError } from "../../store/store.js";
import { faultIn } from "./record-fault.js";

/** The format that this version writes. */
const formatVersion = 1;
/** Request ids remembered with a lock: a repeat comes soon, and the record is written anew at every renewal. */
const requestsMax = 64;
/** What a contender on another machine adds to a lease, at least, in ms, and as a share of what it had left. */
const marginMinMs = 2000;
const marginShare = 0.1;

/** A lock with the request ids that it was granted to: they change in one reference. */
export interface Cell {
  readonly lock: LockRecord;
  readonly requests: readonly RequestRecord[];
}

/** How a reader's clock relates to the record that it reads. */
export interface Reading {
  readonly now: number;
  readonly wallNow: number;
  /** When this machine first saw the record; null: only now. */
  readonly seenAt: number | null;
  /** It was written on this machine, whose clock is the holder's own. */
  readonly wrote: boolean;
  readonly skewMs: number;
}

export interface Writing {
  readonly now: number;
  readonly wallNow: number;
  readonly writeId: string;
  /** What others may see of the writer's session. */
  readonly session: string | null;
}

interface StoredLease {
  readonly id: string;
  readonly owner: string;
  readonly label: string | null;
  readonly session: string | null;
  readonly metadata: Metadata;
  readonly ttl_ms: number;
  readonly left_ms: number;
  readonly delay_ms: number;
  readonly since: number;
  readonly renewed: number;
  readonly expires: number;
  readonly progress: string | null;
}

interface StoredRequest {
  readonly owner: string;
  readonly id: string;
  readonly fingerprint: string;
  readonly lease: string;
  readonly token: number;
  readonly until: number;
}

interface Stored {
  readonly holdfast: number;
  readonly write_id: string;
  readonly space: string;
  readonly resource: string;
  readonly state: "held" | "free";
  readonly token: number;
  readonly attempts: number;
  readonly lease: StoredLease | null;
  readonly previous: Ended | null;
  readonly outcome: Outcome | null;
  readonly delay_left_ms: number;
  readonly delay_until: number;
  readonly keep_until: number;
  readonly requests: readonly StoredRequest[];
}

export function encodeCell({ lock, requests }: Cell, writing: Writing): string {
  const { now, wallNow, writeId, session } = writing;
  const wall = (at: number): number => (at === 0 ? 0 : at - now + wallNow);
  const { lease, previous, outcome } = lock;
  const kept = requests.filter(({ gcAt }) => gcAt > now).slice(-requestsMax);
  const stored: Stored = {
    holdfast: formatVersion,
    write_id: writeId,
    space: lock.space,
    resource: lock.name,
    state: lease === null ? "free" : "held",
    token: lock.token,
    attempts: lock.attempts,
    lease: lease === null ? null : encodeLease(lease, now, wall, session),
    previous: previous && { ...previous, since: wall(previous.since), endedAt: wall(previous.endedAt) },
    outcome: outcome && { ...outcome, at: wall(outcome.at) },
    delay_left_ms: lock.availableAt === 0 ? 0 : lock.availableAt - now,
    delay_until: wall(lock.availableAt),
    keep_until: wall(lock.gcAt),
    requests: kept.map((request) => ({
      owner: request.principal,
      id: request.requestId,
      fingerprint: request.fingerprint,
      lease: request.leaseId,
      token: request.token,
      until: wall(request.gcAt),
    })),
  };
  return `${JSON.stringify(stored)}\n`;
}

function encodeLease(
  lease: Lease,
  now: number,
  wall: (at: number) => number,
  session: string | null,
): StoredLease {
  const { expiresAt, ttlMs } = lease;
  if (expiresAt === null || ttlMs === null || lease.sessionId !== null)
    throw new StoreError("unsupported", "a lock in a repository cannot be bound to a session of a server");
  return {
    id: lease.id,
    owner: lease.principal,
    label: lease.owner,
    // Renewed on another's behalf, it still shows whose it is.
    session: lease.sessionHash ?? session,
    metadata: lease.metadata,
    ttl_ms: ttlMs,
    left_ms: expiresAt - now,
    delay_ms: lease.delayMs,
    since: wall(lease.since),
    renewed: wall(lease.renewedAt),
    expires: wall(expiresAt),
    progress: lease.progress,
  };
}

/** Throws `corrupt` for what is no record of this lock. `where`: how people find it. */
export function decodeCell(stored: Stored, reading: Reading): Cell {
  const { now, wallNow } = reading;
  const engine = (at: number): number => (at === 0 ? 0 : Math.max(1, at - wallNow + now));
  const lease = stored.lease === null ? null : decodeLease(stored.lease, reading, engine);
  const availableAt =
    lease === null && stored.delay_left_ms > 0 ? endOf(stored.delay_left_ms, stored.delay_until, reading) : 0;
  const { space, resource: name, previous, outcome } = stored;
  const lock: LockRecord = {
    kind: "lock",
    space,
    name,
    token: stored.token,
    attempts: stored.attempts,
    lease,
    previous: previous && { ...previous, since: engine(previous.since), endedAt: engine(previous.endedAt) },
    outcome: outcome && { ...outcome, at: engine(outcome.at) },
    availableAt,
    dueAt: lease === null ? availableAt : (lease.expiresAt ?? 0),
    // Nothing depends on when a free name is forgotten, so the wall clock will do, as far as it can be trusted.
    gcAt: lease === null && stored.keep_until !== 0 ? engine(stored.keep_until + reading.skewMs) : 0,
  };
  return { lock, requests: stored.requests.map((request) => decodeRequest(request, stored, engine)) };
}

function decodeLease(stored: StoredLease, reading: Reading, engine: (at: number) => number): Lease {
  return {
    id: stored.id,
    principal: stored.owner,
    owner: stored.label,
    sessionId: null,
    sessionHash: stored.session,
    metadata: stored.metadata,
    ttlMs: stored.ttl_ms,
    since: engine(stored.since),
    renewedAt: engine(stored.renewed),
    expiresAt: endOf(stored.left_ms, stored.expires, reading),
    delayMs: stored.delay_ms,
    progress: stored.progress,
  };
}

/** As long as it had left after it was first seen, and more on another machine; sooner only if every clock agrees. */
function endOf(leftMs: number, wallEnd: number, reading: Reading): number {
  const { now, wallNow, seenAt, wrote, skewMs } = reading;
  const marginMs = wrote ? 0 : Math.max(marginMinMs, Math.ceil(leftMs * marginShare));
  const bySight = (seenAt ?? now) + leftMs + marginMs;
  const byWall = now + (wallEnd + skewMs - wallNow);
  return Math.max(1, wrote ? bySight : Math.min(bySight, byWall));
}

const decodeRequest = (
  { owner, id, fingerprint, lease, token, until }: StoredRequest,
  { space, resource }: Stored,
  engine: (at: number) => number,
): RequestRecord => ({
  kind: "request",
  space,
  principal: owner,
  requestId: id,
  fingerprint,
  name: resource,
  leaseId: lease,
  token,
  over: false,
  gcAt: engine(until),
});

export const requestKeyOf = (request: RequestRecord): Key<RequestRecord> =>
  requestKey(request.space, request.principal, request.requestId);

export const lockKeyOf = ({ lock }: Cell): Key<LockRecord> => lockKey(lock.space, lock.name);

/** What the text says, or why it cannot be trusted. */
export function parseCell(text: string): Stored | { readonly damaged: string; readonly isFuture: boolean } {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { damaged: "it is no JSON", isFuture: false };
  }
  if (typeof value !== "object" || value === null) return { damaged: "it is no record", isFuture: false };
  const stored = value as Partial<Stored>;
  if (typeof stored.holdfast === "number" && stored.holdfast > formatVersion)
    return {
      damaged: `a newer version of Holdfast wrote it (format ${stored.holdfast}): update this one`,
      isFuture: true,
    };
  const wrong = stored.holdfast === formatVersion ? faultIn(stored) : "it has no format";
  return wrong === null ? (stored as Stored) : { damaged: wrong, isFuture: false };
}

export type { Stored };
