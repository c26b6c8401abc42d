import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { aboveAllCopies, floorsAfterFailover, givenBy, liftOf } from "./copies.js";
import { everySpace } from "./keys.js";
import { copyAgeMsMax, copyJump, grantsPerMsMax, tokenMax, wallMsMax } from "./limits.js";
import type { FloorRecord } from "./records.js";

const floor = (space: string, token: number): FloorRecord => ({
  kind: "floor",
  space,
  token,
  ttlHighMs: 60_000,
  quietUntil: 7,
});

const wallNow = Date.UTC(2026, 10, 19);
const given = givenBy(wallNow);

test("every floor is lifted above the highest token of all, and keeps the rest", () => {
  const high = given + 900;
  const known = [floor("a", 5), floor(everySpace, high), floor("b", 0)];
  const lifted = floorsAfterFailover(known, 40, { wallNow, ageMs: 70 });
  const token = high + liftOf(70);
  assert.deepEqual(lifted, [floor("a", token), floor(everySpace, token), floor("b", token)]);
});

test("spaces that nobody knows of are held to it, too", () => {
  const [only, ...others] = floorsAfterFailover([], 40, { wallNow, ageMs: 0 });
  assert.deepEqual(others, []);
  assert.deepEqual([only?.space, only?.token, only?.quietUntil], [everySpace, given, 0]);
});

// The data as it was after each step: a step goes on with the data of any step before, some of whose last grants it may lack.
test("whichever copies are gone on with, in whatever order, nothing that was ever given is given again", () => {
  const step = fc.record({
    from: fc.nat(),
    lacked: fc.double({ min: 0, max: 1, noNaN: true }),
    afterMs: fc.integer({ min: 1, max: 90 * 24 * 3_600_000 }),
    granted: fc.double({ min: 0, max: 1, noNaN: true }),
  });
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 12 }), (steps) => {
      let now = wallNow;
      const states = [{ from: 0, to: 40, since: now }];
      for (const { from, lacked, afterMs, granted } of steps) {
        const last = states.at(-1) ?? assert.fail();
        last.to += Math.floor(granted * afterMs * (grantsPerMsMax - 1));
        now += afterMs;
        const source = states[from % states.length] ?? assert.fail();
        const high = source.to - Math.floor(lacked * (source.to - source.from));
        const token = aboveAllCopies(high, { wallNow: now, ageMs: now - source.since });
        for (const { to } of states) assert.ok(token > to, `${token} after ${to}`);
        states.push({ from: token, to: token, since: now });
      }
    }),
  );
});

test("where a wall clock was ahead before, the later of two from the same copy still begins above the first", () => {
  const [ageMs, laterMs, high] = [5000, 60_000, given * 2];
  const first = aboveAllCopies(high, { wallNow, ageMs }) + laterMs * 50;
  assert.ok(aboveAllCopies(high, { wallNow: wallNow + laterMs, ageMs: ageMs + laterMs }) > first);
  assert.equal(liftOf(-5), copyJump, "a copy of the future takes nothing off");
});

test("a wall clock that is off by centuries leaves room for a lifetime of failovers", () => {
  assert.equal(givenBy(1e15), givenBy(wallMsMax));
  assert.equal(liftOf(1e15), liftOf(copyAgeMsMax));
  const most = givenBy(1e15) + 100 * liftOf(1e15);
  assert.ok(most < tokenMax / 2);
  // Places in the feed have fifteen digits at most.
  assert.ok(most < 10 ** 15);
});
