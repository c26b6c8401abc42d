// Every record and event comes back from its text as it was, also what an older release wrote by name.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { AnyRecord, FeedEvent, LeaseEvent, LockRecord } from "../core/records.js";
import { decodeEvents, decodeRecord, encodeEvents, encodeRecord } from "./codec.js";

const text = fc.string({ unit: "binary" });
const maybe = <T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | null> => fc.option(arbitrary);
const count = fc.maxSafeNat();
const metadata = fc.oneof(
  maybe(text),
  fc.dictionary(
    text.filter((key) => key !== "__proto__"),
    fc.oneof(text, fc.integer(), fc.constant(null)),
  ),
);

const lease = fc.record({
  id: text,
  principal: text,
  owner: maybe(text),
  sessionId: maybe(text),
  sessionHash: maybe(text),
  metadata,
  ttlMs: maybe(count),
  since: count,
  renewedAt: count,
  expiresAt: maybe(count),
  delayMs: count,
  progress: maybe(text),
});
const ended = fc.record({
  leaseId: text,
  principal: text,
  owner: maybe(text),
  token: count,
  since: count,
  endedAt: count,
  how: fc.constantFrom("released" as const, "expired" as const, "forced" as const, "session" as const),
  by: maybe(text),
  reason: maybe(text),
});
const lock: fc.Arbitrary<LockRecord> = fc.record({
  kind: fc.constant("lock" as const),
  space: text,
  name: text,
  token: count,
  attempts: count,
  lease: maybe(lease),
  previous: maybe(ended),
  outcome: maybe(fc.record({ outcome: fc.constant("done" as const), note: maybe(text), at: count })),
  availableAt: count,
  dueAt: count,
  gcAt: count,
});
const event: fc.Arbitrary<LeaseEvent> = fc.record({
  type: fc.constantFrom("acquired" as const, "renewed" as const, "released" as const, "expired" as const),
  space: text,
  name: text,
  token: count,
  principal: text,
  owner: maybe(text),
  sessionHash: maybe(text),
  since: count,
  metadata,
  expiresAt: maybe(count),
  at: count,
});
const floor: AnyRecord = { kind: "floor", space: "default", token: 7, ttlHighMs: 60_000, quietUntil: 0 };

/** fast-check's records may have no prototype; what is parsed has one. */
const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

test("a record comes back as it was", () => {
  fc.assert(
    fc.property(lock, (record) => {
      assert.deepEqual(decodeRecord(encodeRecord(record)), plain(record));
      assert.deepEqual(decodeRecord(JSON.stringify(record)), plain(record), "as schema 1 wrote it");
    }),
  );
  assert.deepEqual(decodeRecord(encodeRecord(floor)), floor);
});

test("events come back as they were, in order", () => {
  const token: FeedEvent = { type: "token", space: "default", id: "t1" };
  fc.assert(
    fc.property(fc.array(fc.oneof(event, fc.constant(token)), { maxLength: 5 }), (events) => {
      assert.deepEqual(decodeEvents(encodeEvents(events)), plain(events));
      assert.deepEqual(decodeEvents(JSON.stringify(events)), plain(events), "as schema 1 wrote them");
    }),
  );
});

test("no text holds a line break: the log's lines end there", () => {
  fc.assert(fc.property(lock, (record) => !encodeRecord(record).includes("\n")));
});
