// A record comes back as it was, by the reader's clock; never does it end earlier than it may; and no text, however
// damaged, becomes a record that the rules would choke on.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { free, held } from "../../../test/store-lab.js";
import { assertRecord } from "../../core/invariants.js";
import type { LockRecord, RequestRecord } from "../../core/records.js";
import { decodeCell, encodeCell, parseCell, type Reading, type Stored, type Writing } from "./record-blob.js";

const skewMs = 900_000;
const writing: Writing = { now: 50_000, wallNow: 1_700_000_000_000, writeId: "w-1", session: null };
const written: Reading = { ...writing, seenAt: writing.now, wrote: true, skewMs };

const lease = (ttlMs: number, now = writing.now): LockRecord => {
  const lock = held("deploy", 7, { dueAt: now + ttlMs });
  const times = { since: now, renewedAt: now, expiresAt: now + ttlMs, ttlMs };
  return { ...lock, lease: lock.lease && { ...lock.lease, ...times } };
};

function parsed(
  lock: LockRecord,
  requests: readonly RequestRecord[] = [],
  by: Partial<Writing> = {},
): Stored {
  const stored = parseCell(encodeCell({ lock, requests }, { ...writing, ...by }));
  assert.ok(!("damaged" in stored));
  return stored;
}

const endOf = (stored: Stored, reading: Partial<Reading>): number =>
  decodeCell(stored, { ...written, wrote: false, ...reading }).lock.lease?.expiresAt ?? 0;

const request: RequestRecord = {
  kind: "request",
  space: "default",
  principal: "runner-1",
  requestId: "r-1",
  fingerprint: "f",
  name: "deploy",
  leaseId: "lease-deploy-7",
  token: 7,
  over: false,
  gcAt: writing.now + 1000,
};

test("who wrote it reads it as it was", () => {
  const whole: LockRecord = {
    ...lease(60_000),
    previous: {
      leaseId: "before",
      principal: "p",
      owner: "label",
      token: 6,
      since: 100,
      endedAt: 200,
      how: "expired",
      by: null,
      reason: null,
    },
    outcome: { outcome: "failed", note: "why", at: 200 },
  };
  assert.deepEqual(decodeCell(parsed(whole, [request]), written), { lock: whole, requests: [request] });
  const delayed = { ...free("deploy", 7), availableAt: 51_000, dueAt: 51_000, gcAt: 90_000 };
  const read = decodeCell(parsed(delayed), written).lock;
  assert.deepEqual({ ...read, gcAt: 0 }, { ...delayed, gcAt: 0 });
  assert.equal(read.gcAt, 90_000 + skewMs, "cleaned up when every clock agrees that it is time");
});

test("two records of the same lock are never the same bytes, and no time of another clock is in them", () => {
  const text = encodeCell({ lock: lease(60_000), requests: [] }, writing);
  assert.notEqual(text, encodeCell({ lock: lease(60_000), requests: [] }, { ...writing, writeId: "w-2" }));
  const { lease: stored } = parsed(lease(60_000));
  assert.deepEqual([stored?.left_ms, stored?.expires], [60_000, writing.wallNow + 60_000]);
});

test("another machine adds a margin, and counts from when it first saw it", () => {
  const rows: [ttlMs: number, marginMs: number][] = [
    [1000, 2000],
    [20_000, 2000],
    [60_000, 6000],
    [3_600_000, 360_000],
  ];
  for (const [ttlMs, marginMs] of rows) {
    const stored = parsed(lease(ttlMs));
    assert.equal(endOf(stored, { now: 900, seenAt: 500 }), 500 + ttlMs + marginMs, `${ttlMs}`);
    assert.equal(endOf(stored, { now: 900, seenAt: null }), 900 + ttlMs + marginMs, "seen only now");
  }
});

test("the wall clock ends it only when it says so by more than two clocks can be apart", () => {
  const stored = parsed(lease(60_000));
  const wallEnd = writing.wallNow + 60_000;
  const at = (wallNow: number): number => endOf(stored, { now: 1000, seenAt: 1000, wallNow });
  assert.equal(at(wallEnd - 600_000), 67_000, "ten minutes ahead");
  assert.equal(at(wallEnd + 600_000), 67_000, "ten minutes behind");
  assert.equal(at(wallEnd + skewMs - 1000), 2000, "nearly beyond doubt");
  assert.equal(at(wallEnd + skewMs + 500), 500, "beyond doubt: it is over");
  assert.equal(at(wallEnd + 10 * skewMs), 1);
  // Its own machine's clock is the holder's: there the wall clock has no say.
  assert.equal(
    endOf(stored, { wrote: true, seenAt: 1000, now: 1000, wallNow: wallEnd + 10 * skewMs }),
    61_000,
  );
});

test("a decode never ends earlier than the holder counts, unless every clock agrees", () => {
  const ms = fc.integer({ min: 1000, max: 86_400_000 });
  const instant = fc.integer({ min: 1, max: 10 ** 10 });
  fc.assert(
    fc.property(
      ms,
      instant,
      instant,
      instant,
      fc.integer({ min: -skewMs, max: skewMs }),
      fc.boolean(),
      (...given) => {
        const [ttlMs, wroteAt, readAt, later, apartMs, wrote] = given;
        const stored = parsed(lease(ttlMs, wroteAt), [], { now: wroteAt });
        // Real time since the write, and the reader's clocks: its own monotonic one, and a wall clock apart by at most the skew.
        const sinceMs = later % (2 * ttlMs);
        const seenSinceMs = wrote ? sinceMs : later % (sinceMs + 1);
        const end = endOf(stored, {
          now: readAt + sinceMs,
          seenAt: readAt + sinceMs - seenSinceMs,
          wallNow: writing.wallNow + sinceMs + apartMs,
          wrote,
        });
        const holdersEnd = readAt + ttlMs;
        assert.ok(end >= holdersEnd, `${holdersEnd - end} ms early`);
      },
    ),
    { numRuns: 2000 },
  );
});

test("request ids stand with their lock until their time is over, and not without end", () => {
  const many = Array.from({ length: 80 }, (_, i) => ({ ...request, requestId: `r-${i}` }));
  const over = { ...request, requestId: "over", gcAt: writing.now };
  const { requests } = decodeCell(parsed(lease(1000), [over, ...many]), written);
  assert.deepEqual(
    requests.map(({ requestId }) => requestId),
    many.slice(-64).map(({ requestId }) => requestId),
  );
});

test("what is no record says why", () => {
  const good = parsed(lease(1000)) as unknown as Record<string, unknown>;
  const rows: [text: string, why: RegExp, isFuture?: boolean][] = [
    ["", /no JSON/],
    ["{", /no JSON/],
    ["null", /no record/],
    ['"text"', /no record/],
    ["[]", /no format/],
    ["{}", /no format/],
    [JSON.stringify({ ...good, holdfast: 2 }), /newer version.*format 2/, true],
    [JSON.stringify({ ...good, holdfast: "1" }), /no format/],
    [JSON.stringify({ ...good, write_id: 1 }), /incomplete/],
    [JSON.stringify({ ...good, resource: "" }), /no resource/],
    [JSON.stringify({ ...good, token: 0 }), /no token/],
    [JSON.stringify({ ...good, token: 1.5 }), /no token/],
    [JSON.stringify({ ...good, token: 2 ** 60 }), /no token/],
    [JSON.stringify({ ...good, lease: undefined }), /no lease/],
    [JSON.stringify({ ...good, lease: {} }), /lease is incomplete/],
    [JSON.stringify({ ...good, requests: null }), /no requests/],
  ];
  for (const [text, why, isFuture = false] of rows) {
    const found = parseCell(text);
    assert.ok("damaged" in found, text);
    assert.match(found.damaged, why);
    assert.equal(found.isFuture, isFuture);
  }
});

test("no damaged text becomes a record that the rules choke on", () => {
  const good = encodeCell({ lock: { ...lease(60_000), ...ended }, requests: [request] }, writing);
  const values = [null, 0, -1, 1.5, 2 ** 60, "", "text", [], {}, true, [null], [{}]];
  const paths = pathsIn(JSON.parse(good));
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.constantFrom(...paths), fc.constantFrom(undefined, ...values)), {
        minLength: 1,
        maxLength: 3,
      }),
      (changes) => {
        const value = JSON.parse(good);
        for (const [path, change] of changes) put(value, path, structuredClone(change));
        const stored = parseCell(JSON.stringify(value));
        if ("damaged" in stored) return;
        const { lock, requests } = decodeCell(stored, { ...written, wrote: false });
        assertRecord(lock);
        for (const found of requests) assertRecord(found);
        for (const at of [lock.lease?.expiresAt, lock.gcAt, lock.availableAt, lock.dueAt])
          assert.ok(at === undefined || Number.isSafeInteger(at), `${at} is no instant`);
        assert.doesNotThrow(() => encodeCell({ lock, requests }, writing));
      },
    ),
    { numRuns: 3000 },
  );
});

const ended: Pick<LockRecord, "previous" | "outcome"> = {
  previous: {
    leaseId: "before",
    principal: "p",
    owner: null,
    token: 6,
    since: 1,
    endedAt: 2,
    how: "released",
    by: null,
    reason: null,
  },
  outcome: { outcome: "done", note: null, at: 2 },
};

function pathsIn(value: unknown, path: readonly string[] = []): string[][] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, part]) => [
    [...path, name],
    ...pathsIn(part, [...path, name]),
  ]);
}

function put(value: unknown, path: readonly string[], change: unknown): void {
  let at = value as Record<string, unknown>;
  for (const name of path.slice(0, -1)) {
    const next = at[name];
    if (typeof next !== "object" || next === null) return;
    at = next as Record<string, unknown>;
  }
  at[path.at(-1) ?? ""] = change;
}

test("what nobody could show, or that leaves no token to come, is no record", () => {
  const good = JSON.parse(encodeCell({ lock: lease(60_000), requests: [] }, writing)) as Record<
    string,
    object
  >;
  const nested = (depth: number): unknown =>
    Array.from({ length: depth }).reduce((inner: unknown) => ({ a: inner }), "x");
  const withLease = (changes: object) => ({ ...good, lease: { ...good["lease"], ...changes } });
  const isDamaged = (value: unknown): boolean => "damaged" in parseCell(JSON.stringify(value));
  assert.equal(isDamaged(withLease({ metadata: nested(32) })), false);
  for (const wrong of [
    withLease({ metadata: nested(40) }),
    withLease({ metadata: { a: "x".repeat(10_000) } }),
    withLease({ metadata: "x".repeat(10_000) }),
    withLease({ owner: "x".repeat(10_000) }),
    { ...good, token: Number.MAX_SAFE_INTEGER },
  ])
    assert.ok(isDamaged(wrong), JSON.stringify(wrong).slice(0, 200));
  // Deeper than a program can go down, as text.
  const deep = JSON.stringify(withLease({ metadata: "HERE" })).replace(
    '"HERE"',
    `${'{"a":'.repeat(100_000)}1${"}".repeat(100_000)}`,
  );
  assert.ok("damaged" in parseCell(deep));
});
