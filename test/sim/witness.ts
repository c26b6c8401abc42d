// Recognises situations: by what becomes durable, and by what a reply says about the call that it answers.
import { type Key, lockKey } from "../../src/core/keys.js";
import { endOf } from "../../src/core/lease.js";
import { type AnyRecord, isLeaseEvent, type LockRecord, type SessionRecord } from "../../src/core/records.js";
import type { Call, Reply } from "../../src/verify/history.js";
import { space } from "../history/answers.js";
import type { Deed, Disk, DiskWitness, Fate } from "./disk.js";
import type { Situation, Tally } from "./situations.js";

/** The call in whose course a decision was made. */
export interface Cause {
  readonly op: Call["op"];
  readonly newId: string;
}

const fates: { readonly [F in Fate]: Situation | null } = {
  durable: null,
  "unknown, written": "unknown commit that was written",
  "unknown, not written": "unknown commit that was not written",
  refused: "commit certainly refused",
};

export class Witness implements DiskWitness {
  /** Names that were held once and that nothing remembers but the floor. */
  readonly #cleaned = new Set<Key>();

  constructor(readonly tally: Tally) {}

  readonly deed = ({ decided, cause, at }: Deed, disk: Disk): void => {
    for (const event of decided.events)
      if (isLeaseEvent(event))
        this.tally.tell(`durable: ${event.type} ${event.name} ${event.token}, decided at ${at.toFixed(3)}`);
    for (const { key, record } of decided.writes) {
      const before = recordOf(disk, key);
      if (record === null && before?.kind === "lock") this.#cleaned.add(key);
      if (record?.kind !== "lock") continue;
      const earlier = before?.kind === "lock" ? before : null;
      this.#ending(earlier, record, cause as Cause | null);
      this.#grant(key, earlier, record, cause as Cause | null);
    }
  };

  #ending(before: LockRecord | null, { previous }: LockRecord, cause: Cause | null): void {
    if (previous === null || before?.previous?.leaseId === previous.leaseId) return;
    if (previous.how === "session" && cause?.op !== "end") this.tally.note("session expiry ended leases");
    if (previous.how === "released" && cause?.op !== "release") this.tally.note("ghost taken back");
  }

  #grant(key: Key, before: LockRecord | null, { lease, previous }: LockRecord, cause: Cause | null): void {
    if (lease === null || before?.lease?.id === lease.id) return;
    if (this.#cleaned.delete(key)) this.tally.note("token above the floor");
    if (previous?.how === "expired") this.tally.note("takeover after expiry");
    if (previous?.how === "forced") this.tally.note("takeover after force");
    if (cause?.newId === lease.id) return;
    this.tally.note("grant to a waiter");
    if (before !== null && before.availableAt !== 0) this.tally.note("lock delay waited out");
  }

  readonly fate = (fate: Fate): void => {
    const situation = fates[fate];
    if (situation !== null) this.tally.note(situation);
  };

  readonly crash = (kept: boolean): void =>
    this.tally.note(kept ? "crash kept the commit on its way" : "crash lost the commit on its way");

  /** The server ended with so many in line. */
  ended(waiting: number): void {
    if (waiting > 0) this.tally.note("restart with waiters");
  }

  stalled(disk: Disk, now: number, ms: number): void {
    for (const [, { value }] of disk.data.ordered.records) {
      if (value?.kind !== "lock" || value.lease === null) continue;
      const id = value.lease.sessionId;
      const session = id === null ? null : (recordOf(disk, `session/${space}/${id}`) as SessionRecord | null);
      const end = endOf(value.lease, session);
      if (end >= now && end < now + ms) this.tally.note("stall past a lease's end");
    }
  }

  /** A reply as the server gave it. */
  replied(call: Call, newId: string, reply: Reply, disk: Disk): void {
    if (call.op !== "acquire") return;
    const waited = call.waitMs > 0;
    if (reply.kind === "granted" && call.requestId !== null && reply.lease !== newId)
      this.tally.note("repeat answered with the same lease");
    if (reply.kind === "lost") this.tally.note("repeat of a spent request id");
    if (reply.kind === "reused") this.tally.note("request id with another body");
    if (reply.kind === "held" && waited) this.tally.note("wait in vain");
    if (reply.kind === "held" && reply.token === null) this.tally.note("overlap refused");
    if (reply.kind === "unknown" && /took over/.test(reply.why)) this.tally.note("place in line taken over");
    const lock = recordOf(disk, lockKey(space, call.name));
    if (reply.kind === "delayed" && lock?.kind === "lock" && lock.availableAt !== 0)
      this.tally.note("refused during a lock delay");
  }
}

const recordOf = (disk: Disk, key: Key): AnyRecord | null =>
  disk.data.ordered.records.get(key)?.value ?? null;
