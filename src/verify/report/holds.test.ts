// Holds as a timeline shows them: from the reply to the last moment that the holder could count on.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Call, Operation, Reply } from "../history.js";
import { acquiring } from "../workloads/crew.js";
import { holdsOf } from "./holds.js";

const op = (began: number, ended: number, call: Call, reply: Reply, process = "a"): Operation => ({
  process,
  principal: "p",
  call,
  began,
  ended,
  reply,
});
const granted = (lease: string, token: number, leftMs = 1000): Reply => ({
  kind: "granted",
  lease,
  token,
  leftMs,
});
const done: Reply = { kind: "done" };
const spans = (operations: readonly Operation[]): unknown[] =>
  holdsOf(operations).map(({ lease, from, to, how }) => [lease, from, to, how]);

test("a lease that is released, one that is renewed and runs out, one whose reply was lost", () => {
  const operations = [
    op(0, 5, acquiring("n", 1000), granted("l1", 1)),
    op(50, 60, { op: "release", name: "n", lease: "l1" }, done),
    op(70, 75, acquiring("n", 1000), granted("l2", 2), "b"),
    op(500, 505, { op: "renew", name: "n", lease: "l2", ttlMs: null }, granted("l2", 2), "b"),
    op(1600, Number.POSITIVE_INFINITY, acquiring("n", 1000), { kind: "unknown", why: "timeout" }),
  ];
  assert.deepEqual(spans(operations), [
    ["l1", 5, 50, "released"],
    ["l2", 75, 1500, "ran out"],
  ]);
});

test("a repeat that is answered after the release does not revive the bar", () => {
  const call = acquiring("n", 1000, { requestId: "r" });
  const operations = [
    op(0, 5, call, granted("l1", 1)),
    op(10, 20, { op: "release", name: "n", lease: "l1" }, done),
    op(6, 25, call, granted("l1", 1, 990), "b"),
  ];
  assert.deepEqual(spans(operations), [["l1", 5, 10, "released"]]);
});

test("leases end with their session, and by force", () => {
  const operations = [
    op(0, 5, { op: "open", ttlMs: 5000 }, { kind: "opened", session: "s", leftMs: 5000 }),
    op(6, 10, acquiring("n", null, { session: "s" }), granted("l1", 1, 4990)),
    op(11, 15, acquiring("m", 1000, { session: "s" }), granted("l2", 1)),
    op(4000, 4001, { op: "keepalive", session: "s" }, done),
    op(6000, 6001, { op: "end", session: "s" }, done),
    op(6100, 6101, acquiring("n", 3000), granted("l3", 2, 3000)),
    op(6200, 6201, { op: "force", name: "n" }, done),
  ];
  assert.deepEqual(spans(operations), [
    ["l1", 10, 6000, "session ended"],
    ["l2", 15, 1011, "ran out"],
    ["l3", 6101, 6200, "forced"],
  ]);
});
