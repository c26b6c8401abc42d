/**
 * Records and events as text, for engines that keep text. The two that make up nearly all traffic, a lock and its
 * events, are written by position, the rest by name: half the bytes, and half the time to write and to read them.
 * Positions are part of the stored format: new fields go to the end, and what is missing there has a default.
 */
import {
  type AnyRecord,
  type FeedEvent,
  isLeaseEvent,
  type Lease,
  type LeaseEvent,
  type LockRecord,
} from "../core/records.js";

export function encodeRecord(record: AnyRecord): string {
  return JSON.stringify(record.kind === "lock" ? lockRow(record) : record);
}

export function decodeRecord(text: string): AnyRecord {
  const value = JSON.parse(text) as AnyRecord | LockRow;
  return "kind" in value ? value : lockOf(value);
}

export const encodeEvents = (events: readonly FeedEvent[]): string =>
  JSON.stringify(events.map((event) => (isLeaseEvent(event) ? eventRow(event) : event)));

export const decodeEvents = (text: string): FeedEvent[] =>
  (JSON.parse(text) as (FeedEvent | EventRow)[]).map((value) => ("type" in value ? value : eventOf(value)));

const lockRow = ({
  space,
  name,
  token,
  attempts,
  lease,
  previous,
  outcome,
  availableAt,
  dueAt,
  gcAt,
}: LockRecord) =>
  [
    space,
    name,
    token,
    attempts,
    lease === null ? null : leaseRow(lease),
    previous,
    outcome,
    availableAt,
    dueAt,
    gcAt,
  ] as const;

const leaseRow = (lease: Lease) =>
  (lease.told === undefined ? leaseParts(lease) : [...leaseParts(lease), lease.told]) as LeaseRow;

const leaseParts = (lease: Lease) =>
  [
    lease.id,
    lease.principal,
    lease.owner,
    lease.sessionId,
    lease.sessionHash,
    lease.metadata,
    lease.ttlMs,
    lease.since,
    lease.renewedAt,
    lease.expiresAt,
    lease.delayMs,
    lease.progress,
  ] as const;

const eventRow = (event: LeaseEvent) =>
  [
    event.type,
    event.space,
    event.name,
    event.token,
    event.principal,
    event.owner,
    event.sessionHash,
    event.since,
    event.metadata,
    event.expiresAt,
    event.at,
  ] as const;

type LockRow = ReturnType<typeof lockRow>;
type LeaseRow = readonly [...ReturnType<typeof leaseParts>, told?: readonly string[]];
type EventRow = ReturnType<typeof eventRow>;

const lockOf = (row: LockRow): LockRecord => ({
  kind: "lock",
  space: row[0],
  name: row[1],
  token: row[2],
  attempts: row[3],
  lease: row[4] === null ? null : leaseOf(row[4]),
  previous: row[5],
  outcome: row[6],
  availableAt: row[7],
  dueAt: row[8],
  gcAt: row[9],
});

const leaseOf = (row: LeaseRow): Lease => ({
  id: row[0],
  principal: row[1],
  owner: row[2],
  sessionId: row[3],
  sessionHash: row[4],
  metadata: row[5],
  ttlMs: row[6],
  since: row[7],
  renewedAt: row[8],
  expiresAt: row[9],
  delayMs: row[10],
  progress: row[11],
  ...(row[12] === undefined ? {} : { told: row[12] }),
});

const eventOf = (row: EventRow): LeaseEvent => ({
  type: row[0],
  space: row[1],
  name: row[2],
  token: row[3],
  principal: row[4],
  owner: row[5],
  sessionHash: row[6],
  since: row[7],
  metadata: row[8],
  expiresAt: row[9],
  at: row[10],
});
