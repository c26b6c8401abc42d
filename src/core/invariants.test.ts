/** Damage and bugs are noticed when a record is read or written, never passed on. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { LoadedView } from "../store/rounds.js";
import { deciding } from "./draft.js";
import { assertRecord, InvariantError } from "./invariants.js";
import { lockKey } from "./keys.js";
import { policyDefault } from "./limits.js";
import type { AnyRecord, Lease, LockRecord, SessionRecord } from "./records.js";

const lease: Lease = {
  id: "lease",
  principal: "a",
  owner: null,
  sessionId: null,
  sessionHash: null,
  metadata: null,
  ttlMs: 10,
  since: 0,
  renewedAt: 0,
  expiresAt: 10,
  delayMs: 0,
  progress: null,
};
const held: LockRecord = {
  kind: "lock",
  space: "default",
  name: "k",
  token: 2,
  attempts: 1,
  lease,
  previous: null,
  outcome: null,
  availableAt: 0,
  dueAt: 10,
  gcAt: 0,
};
const previous: NonNullable<LockRecord["previous"]> = {
  leaseId: "before",
  principal: "b",
  owner: null,
  token: 1,
  since: 0,
  endedAt: 0,
  how: "released",
  by: null,
  reason: null,
};
const session: SessionRecord = {
  kind: "session",
  id: "s",
  hash: "#s",
  space: "default",
  principal: "a",
  metadata: null,
  ttlMs: 10,
  createdAt: 0,
  expiresAt: 10,
  ended: null,
  leases: 0,
  dueAt: 10,
  gcAt: 0,
};
const free: LockRecord = { ...held, lease: null, dueAt: 0, gcAt: 99 };

describe("what must be true of every record", () => {
  const good: Record<string, AnyRecord> = {
    "a held name": held,
    "a held name with an early due entry": { ...held, dueAt: 3 },
    "a held name with a previous lease": { ...held, previous },
    "a lease that lives with its session": {
      ...held,
      dueAt: 0,
      lease: { ...lease, sessionId: "s", expiresAt: null },
    },
    "a free name": { ...free, previous: { ...previous, token: 2 } },
    "a free name with a delay": { ...free, availableAt: 20, dueAt: 20 },
    "a session": session,
    "an ended session": { ...session, ended: { at: 5, how: "deleted" }, dueAt: 0 },
  };
  for (const [what, record] of Object.entries(good)) test(`good: ${what}`, () => assertRecord(record));

  const bad: Record<string, AnyRecord> = {
    "a name without a token": { ...held, token: 0 },
    "a token that JSON cannot carry": { ...held, token: 2 ** 53 },
    "a token that is no integer": { ...held, token: 1.5 },
    "a previous lease with the token of this one": { ...held, previous: { ...previous, token: 2 } },
    "a lease without an id": { ...held, lease: { ...lease, id: "" } },
    "a lease without a holder": { ...held, lease: { ...lease, principal: "" } },
    "a lease without an end": { ...held, lease: { ...lease, expiresAt: null } },
    "a held name without a due entry": { ...held, dueAt: 0 },
    "a held name that is due too late": { ...held, dueAt: 11 },
    "a held name with a delay": { ...held, availableAt: 20 },
    "a held name to be cleaned up": { ...held, gcAt: 20 },
    "a delay that nobody ends": { ...free, availableAt: 20 },
    "a delay that is ended too late": { ...free, availableAt: 20, dueAt: 21 },
    "a session with less than no leases": { ...session, leases: -1 },
    "a session that is never due": { ...session, dueAt: 0 },
    "a session that is due too late": { ...session, dueAt: 11 },
    "a floor below zero": { kind: "floor", space: "default", token: -1, ttlHighMs: 0, quietUntil: 0 },
    "a request without a token": {
      kind: "request",
      space: "default",
      principal: "a",
      requestId: "r",
      fingerprint: "f",
      name: "k",
      leaseId: "lease",
      token: 0,
      over: false,
      gcAt: 1,
    },
  };
  for (const [what, record] of Object.entries(bad))
    test(`a bug or damage: ${what}`, () => assert.throws(() => assertRecord(record), InvariantError));

  test("is checked on every read and before every write", () => {
    const key = lockKey("default", "k");
    const broken: LockRecord = { ...held, token: 0 };
    const view = new LoadedView(0);
    view.addRecord(key, broken);
    assert.throws(() => deciding(view, policyDefault, (draft) => draft.get(key)), InvariantError);
    assert.throws(() => deciding(view, policyDefault, (draft) => draft.put(key, broken)), InvariantError);
  });
});
