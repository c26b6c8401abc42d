/**
 * What a restore does to what a backup believes. Since it was taken, tokens were granted and leases may be held that
 * it does not know: so its leases are over, and nothing at or below the raised floor is ever granted again.
 */
import { aboveAllCopies, type Continued } from "./copies.js";
import type { FloorRecord, LockRecord } from "./records.js";

/** The record with its lease ended, and who did it and why remembered for the holder. */
export function endedByRestore(
  lock: LockRecord,
  now: number,
  by: string,
  recordRetentionMs: number,
): LockRecord {
  const lease = lock.lease;
  if (lease === null) return lock;
  return {
    ...lock,
    lease: null,
    previous: {
      leaseId: lease.id,
      principal: lease.principal,
      owner: lease.owner,
      token: lock.token,
      since: lease.since,
      endedAt: now,
      how: "forced",
      by,
      reason: "restored from a backup",
    },
    dueAt: 0,
    availableAt: 0,
    gcAt: now + recordRetentionMs,
  };
}

/** The floor above anything that can have been granted since the backup or after another restore. Nothing is granted for `quietMs`. */
export function floorAfterRestore(
  floor: FloorRecord,
  continued: Continued,
  now: number,
  quietMs: number,
): FloorRecord {
  return { ...floor, token: aboveAllCopies(floor.token, continued), quietUntil: now + quietMs };
}
