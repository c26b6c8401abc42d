import assert from "node:assert/strict";
import { test } from "node:test";
import { floorsAfterFailover } from "./failover.js";
import { everySpace } from "./keys.js";
import { failoverJump, tokenMax } from "./limits.js";
import type { FloorRecord } from "./records.js";

const floor = (space: string, token: number): FloorRecord => ({
  kind: "floor",
  space,
  token,
  ttlHighMs: 60_000,
  quietUntil: 7,
});

test("every floor is lifted above the highest token of all, and keeps the rest", () => {
  const lifted = floorsAfterFailover([floor("a", 5), floor(everySpace, 900), floor("b", 0)], 40);
  assert.deepEqual(lifted, [
    floor("a", 900 + failoverJump),
    floor(everySpace, 900 + failoverJump),
    floor("b", 900 + failoverJump),
  ]);
});

test("spaces that nobody knows of are held to it, too", () => {
  const [only, ...others] = floorsAfterFailover([], 40);
  assert.deepEqual(others, []);
  assert.deepEqual([only?.space, only?.token, only?.quietUntil], [everySpace, 40 + failoverJump, 0]);
});

test("a failover a day for a century leaves room", () => {
  assert.ok(failoverJump * 365 * 100 < tokenMax / 2);
  // Places in the feed have fifteen digits at most.
  assert.ok(failoverJump * 365 * 100 < 10 ** 15);
});
