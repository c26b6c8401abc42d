/**
 * What must be true of every record, checked after each read and before each write. A failure is a bug or a
 * damaged store, never a caller's mistake, so it throws.
 */
import { blockersMax, edgesMax, tokenMax } from "./limits.js";
import type { NodeRecord } from "./nodes/records.js";
import type { AnyRecord, LockRecord, SessionRecord } from "./records.js";

export class InvariantError extends Error {
  override readonly name = "InvariantError";
}

export function assertRecord(record: AnyRecord): void {
  if (record.kind === "lock") assertLock(record);
  else if (record.kind === "session") assertSession(record);
  else if (record.kind === "floor") check(isToken(record.token), "floor token out of range", record.space);
  else if (record.kind === "request")
    check(isToken(record.token) && record.token > 0, "request without a token", record.requestId);
  else if (record.kind === "node") assertNode(record);
  else if (record.kind === "line") check(record.turns.length > 0, "line without anybody in it", record.name);
}

function assertLock(lock: LockRecord): void {
  const { lease, previous } = lock;
  check(isToken(lock.token) && lock.token > 0, "lock without a token", lock.name);
  if (previous !== null)
    check(previous.token < lock.token || lease === null, "ended token not below the current", lock.name);
  if (lease === null) {
    check(
      lock.availableAt === 0 || (lock.dueAt !== 0 && lock.dueAt <= lock.availableAt),
      "delay without a wake-up",
      lock.name,
    );
    return;
  }
  check(lease.id !== "" && lease.principal !== "", "lease without id or holder", lock.name);
  check(lock.availableAt === 0 && lock.gcAt === 0, "held name with a delay or a clean-up date", lock.name);
  if (lease.expiresAt === null) check(lease.sessionId !== null, "lease without an end", lock.name);
  else check(lock.dueAt !== 0 && lock.dueAt <= lease.expiresAt, "due entry later than the expiry", lock.name);
}

function assertSession(session: SessionRecord): void {
  check(session.leases >= 0, "session with a negative count", session.hash);
  if (session.ended === null)
    check(
      session.dueAt !== 0 && session.dueAt <= session.expiresAt,
      "session due later than its expiry",
      session.hash,
    );
}

function assertNode(node: NodeRecord): void {
  const { claim, edges } = node;
  const assigned = edges.filter((edge) => edge.type === "assigned");
  check(assigned.length <= 1, "node with two assigned edges", node.id);
  check(
    edges.length - assigned.length <= edgesMax && node.blockedBy.length <= blockersMax,
    "node with too many edges",
    node.id,
  );
  check(node.blocking >= 0 && node.lapses >= 0, "node with a negative count", node.id);
  check(
    node.phase !== "terminal" || (node.parked === null && claim === null),
    "parked or claimed though it is over",
    node.id,
  );
  if (claim === null) return;
  check(isToken(claim.token) && claim.token > 0, "claim without a token", node.id);
  check(assigned[0]?.to === claim.by, "lease whose edge is missing", node.id);
}

const isToken = (token: number): boolean => Number.isSafeInteger(token) && token >= 0 && token <= tokenMax;

function check(holds: boolean, what: string, subject: string): void {
  if (!holds) throw new InvariantError(`${what}: ${subject}`);
}
