/**
 * What time brings: settling what is due and cleaning up what nobody needs any more. Both work in bounded steps
 * over an index, so their cost does not grow with the number of leases.
 */
import type { Decision, Range, View } from "./decision.js";
import { type Draft, deciding } from "./draft.js";
import { type Heir, noHeirs, type Successors, succeed } from "./heirs.js";
import { everySpace, floorKey, type Key, lockKey, requestKey, sessionKey, sortableInstant } from "./keys.js";
import { floorOf, noFloor, save, settled } from "./lease.js";
import { type Policy, rangeMax, sweepWritesMax } from "./limits.js";
import { settlePeer } from "./line.js";
import { hasOverlap } from "./names.js";
import type { AnyRecord, LockRecord, RequestRecord } from "./records.js";
import { drain } from "./session.js";
import { endSessionIfOver } from "./session-end.js";

export interface SweepReply {
  readonly heirs: readonly Heir[];
  /** There is more that is due already. */
  readonly more: boolean;
  readonly settled: number;
  /** Nothing that is due lies before this place in the index, until something is put there again. */
  readonly next: string;
}

/** Due strictly before the clock's earliest: at its last instant a lease is still held. */
export const dueRange = (earliest: number, from = "", limit = rangeMax): Range => ({
  index: "due",
  from,
  to: sortableInstant(earliest),
  limit,
});

export function decideSweep(
  view: View,
  policy: Policy,
  successors: Successors = noHeirs,
  from = "",
): Decision<SweepReply> {
  return deciding(view, policy, (draft) => {
    const range = dueRange(draft.earliest, from, draft.rowsMax);
    const most = Math.min(sweepWritesMax, 2 * draft.rowsMax);
    const rows = draft.range(range);
    draft.require(rows.map((row) => row.key));
    const heirs: Heir[] = [];
    let count = 0;
    let cost = 0;
    const full = draft.first(rows, (row) => {
      const record = draft.get(row.key);
      cost += costOf(draft, record, successors);
      if (count > 0 && (cost > most || draft.writeCount >= most)) return true;
      heirs.push(...settleDue(draft, record, successors));
      count++;
      return undefined;
    });
    const more = full === true || rows.length === range.limit || sessionsLeft(draft, rows);
    return { heirs, more, settled: count, next: nextPlace(rows, more, range) };
  });
}

/** An engine may have to step over what was removed lately: who knows that nothing is there spares it that. */
const nextPlace = (rows: readonly { readonly sort: string }[], more: boolean, { from, to }: Range): string =>
  more ? (rows[0]?.sort ?? from) : to;

/** How many records settling this one may have to look at. */
function costOf(draft: Draft, record: AnyRecord | null, successors: Successors): number {
  if (record?.kind === "session") return Math.max(1, Math.min(record.leases, draft.rowsMax));
  const waitedFor = record?.kind === "lock" && successors(record.space, record.name, 0) !== undefined;
  return waitedFor && hasOverlap(record.name) ? draft.rowsMax : 1;
}

function settleDue(draft: Draft, record: AnyRecord | null, successors: Successors): readonly Heir[] {
  if (record?.kind === "lock") {
    const lock = settled(draft, record);
    if (lock === null) return [];
    // An early entry: the lease was renewed since. Now it moves to where it belongs.
    if (lock.lease !== null) save(draft, { ...lock, dueAt: lock.lease.expiresAt ?? 0 });
    return succeed(draft, record.space, record.name, lock, successors);
  }
  if (record?.kind === "peer") settlePeer(draft, record);
  if (record?.kind !== "session") return [];
  const session = endSessionIfOver(draft, record);
  if (session.ended !== null) return drain(draft, session, successors).heirs;
  draft.put(sessionKey(session.space, session.id), { ...session, dueAt: session.expiresAt });
  return [];
}

/** An ended session that still has leases after this step stays due. */
const sessionsLeft = (draft: Draft, rows: readonly { readonly key: Key }[]): boolean =>
  rows.some((row) => {
    const record = draft.get(row.key);
    return record?.kind === "session" && record.ended !== null && record.leases > 0;
  });

export interface CleanReply {
  readonly removed: number;
  readonly more: boolean;
  /** As of a sweep. */
  readonly next: string;
}

/** Removes free records, spent request ids, ended sessions and old audit records; tokens go into the floor. */
export function decideClean(view: View, policy: Policy, from = "", limit = rangeMax): Decision<CleanReply> {
  return deciding(view, policy, (draft) => {
    const range: Range = {
      index: "gc",
      from,
      // Not by `now`, which is another one in every round where several servers share a clock: so would the range be.
      to: sortableInstant(draft.earliest),
      limit: Math.min(limit, draft.rowsMax),
    };
    const rows = draft.range(range);
    draft.require(rows.map((row) => row.key));
    draft.require(rows.flatMap((row) => floorKeysOf(draft.get(row.key))));
    draft.require(rows.flatMap((row) => currentLeaseKeys(draft.get(row.key))));
    let removed = 0;
    for (const row of rows) if (cleanOne(draft, row.key, draft.get(row.key))) removed++;
    const more = rows.length === range.limit;
    return { removed, more, next: nextPlace(rows, more, range) };
  });
}

const floorKeysOf = (record: AnyRecord | null): Key[] =>
  record?.kind === "lock" ? [floorKey(record.space), floorKey(everySpace)] : [];

const currentLeaseKeys = (record: AnyRecord | null): Key[] =>
  record?.kind === "request" ? [lockKey(record.space, record.name)] : [];

function cleanOne(draft: Draft, key: Key, record: AnyRecord | null): boolean {
  if (record === null) return false;
  if (record.kind === "lock" && record.dueAt !== 0) {
    // The sweep has not been there yet: it ends the lock delay and serves the queue, and finds it by this record.
    save(draft, { ...record, gcAt: draft.now + draft.policy.recordRetentionMs });
    return false;
  }
  if (record.kind === "lock") raiseFloor(draft, record);
  if (record.kind === "request" && stillCurrent(draft, record)) return false;
  draft.put(key, null);
  return true;
}

function raiseFloor(draft: Draft, lock: LockRecord): void {
  const key = floorKey(lock.space);
  const floor = floorOf(draft, lock.space) ?? noFloor(lock.space);
  if (lock.token > floor.token) draft.put(key, { ...floor, token: lock.token });
}

/** A request id outlives its lease, however long that was renewed. */
function stillCurrent(draft: Draft, record: RequestRecord): boolean {
  const lock = draft.get(lockKey(record.space, record.name));
  const endedAt = lock?.previous?.leaseId === record.leaseId ? lock.previous.endedAt : null;
  const live = lock?.lease?.id === record.leaseId;
  // Its end was overwritten by a later lease: it lies between the last look and now, so keep it from now.
  const from = live || (endedAt === null && !record.over) ? draft.now : (endedAt ?? 0);
  const keepUntil = from + draft.policy.requestRetentionMs;
  if (draft.now > keepUntil) return false;
  const key = requestKey(record.space, record.principal, record.requestId);
  draft.put(key, { ...record, over: !live, gcAt: keepUntil });
  return true;
}
