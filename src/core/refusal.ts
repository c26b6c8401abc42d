/**
 * Everything a caller can be refused for, as one union of values. Each face translates it by one total table.
 */
import type { Ended, LockRecord } from "./records.js";

/** A name that is held: its record (with a lease) and the instant at which the lease ends if nothing happens. */
export interface Holding {
  readonly lock: LockRecord & { readonly lease: NonNullable<LockRecord["lease"]> };
  readonly expiresAt: number;
  readonly now: number;
}

export type Refusal =
  /** Another holds the name, or one that overlaps it. */
  | { readonly refused: "held"; readonly holding: Holding }
  /** The name is free but its lock delay runs, or the server is quiet after a restore. */
  | {
      readonly refused: "delayed";
      readonly availableAt: number;
      readonly now: number;
      readonly why: "lock_delay" | "restore";
    }
  /** The lease that was named is over or never was; `holding` is who has the name now. */
  | {
      readonly refused: "not_current";
      readonly holding: Holding | null;
      readonly previous: Ended | null;
      readonly now: number;
    }
  /** A request id was repeated after its lease had ended: which it was, and on which name. */
  | {
      readonly refused: "request_spent";
      readonly name: string;
      readonly leaseId: string;
      readonly holding: Holding | null;
      readonly previous: Ended | null;
      readonly now: number;
    }
  /** A request id was repeated with another request. */
  | { readonly refused: "request_reused" }
  /** Free, but earlier waiters go first. */
  | { readonly refused: "queued" }
  | { readonly refused: "session_unknown" }
  | { readonly refused: "session_expired"; readonly endedAt: number; readonly now: number }
  /**
   * More leases lie below this name than one step may read, and no other's among those that it read. `again`: some of those
   * were over and are ended now, so the same call made again reads on behind them; else all of them are the caller's own.
   */
  | { readonly refused: "overlap_too_wide"; readonly limit: number; readonly again: boolean };

export type RefusalCode = Refusal["refused"];

/** The step could not see all that it had to, and came further than before: to be decided once more. */
export const isUndecided = (outcome: object): boolean => "again" in outcome && outcome.again === true;

export const isRefusal = (reply: object): reply is Refusal => "refused" in reply;
