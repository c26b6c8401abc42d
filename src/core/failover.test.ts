import assert from "node:assert/strict";
import { test } from "node:test";
import { failoverLift, floorsAfterFailover } from "./failover.js";
import { everySpace } from "./keys.js";
import { copyAgeMsMax, failoverJump, tokenMax } from "./limits.js";
import type { FloorRecord } from "./records.js";

const floor = (space: string, token: number): FloorRecord => ({
  kind: "floor",
  space,
  token,
  ttlHighMs: 60_000,
  quietUntil: 7,
});

test("every floor is lifted above the highest token of all, and keeps the rest", () => {
  const lifted = floorsAfterFailover([floor("a", 5), floor(everySpace, 900), floor("b", 0)], 40, 7000);
  assert.deepEqual(lifted, [floor("a", 900 + 7000), floor(everySpace, 900 + 7000), floor("b", 900 + 7000)]);
});

test("spaces that nobody knows of are held to it, too", () => {
  const [only, ...others] = floorsAfterFailover([], 40, 7000);
  assert.deepEqual(others, []);
  assert.deepEqual([only?.space, only?.token, only?.quietUntil], [everySpace, 40 + 7000, 0]);
});

test("of two failovers from the same copy the later begins above all that the first can have granted since", () => {
  const [ageMs, laterMs] = [5000, 60_000];
  const first = 40 + failoverLift(ageMs) + laterMs * 50;
  assert.ok(40 + failoverLift(ageMs + laterMs) > first);
  assert.equal(failoverLift(-5), failoverJump, "a clock that is ahead of the time of day takes nothing off");
});

test("a failover a day for a century leaves room, each after a day without a server", () => {
  const all = failoverLift(24 * 3_600_000) * 365 * 100;
  assert.ok(all < tokenMax / 2);
  // Places in the feed have fifteen digits at most.
  assert.ok(all < 10 ** 15);
});

test("a wall clock that is off by centuries uses up little", () => {
  assert.equal(failoverLift(1e15), failoverLift(copyAgeMsMax));
  assert.ok(failoverLift(copyAgeMsMax) * 100 < 10 ** 15);
});
