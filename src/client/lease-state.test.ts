// How long a lease is trusted: on whichever clock has less, never once it is over, and the same in two threads.
import assert from "node:assert/strict";
import { test } from "node:test";
import { LeaseState, trustedMs } from "./lease-state.js";

const at = (monotonic: number, wall: number) => ({ monotonic, wall });

test("less is trusted than the server promised", () => {
  assert.deepEqual([1000, 60_000, 10].map(trustedMs), [950, 58_800, 0]);
});

test("what is left is what the faster clock says", () => {
  const state = new LeaseState();
  state.renewed(at(100, 1_000_000), 10_000);
  assert.equal(state.leftMs(at(100, 1_000_000)), 9800);
  assert.equal(state.leftMs(at(5100, 1_000_000)), 4800, "the wall clock was set back, or stands");
  assert.equal(state.leftMs(at(100, 1_007_000)), 2800, "the machine slept");
  assert.equal(state.leftMs(at(100, 2_000_000)), 0);
  assert.equal(state.safeUntil.getTime(), 1_009_800);
});

test("over is over, and the other thread learns why", () => {
  const mine = new LeaseState();
  const theirs = new LeaseState(mine.memory);
  theirs.renewed(at(0, 0), 60_000);
  assert.ok(mine.leftMs(at(0, 0)) > 0);
  theirs.end("ended by ops: größer");
  theirs.renewed(at(0, 0), 60_000);
  mine.end("another reason");
  assert.deepEqual([mine.leftMs(at(0, 0)), mine.why], [0, "ended by ops: größer"]);
});

test("a thread whose clock began later writes what the first can read", () => {
  const first = new LeaseState();
  const second = new LeaseState(first.memory, -5000);
  second.renewed(at(1000, 1_000_000), 10_000);
  assert.equal(first.leftMs(at(6000, 1_000_000)), 9800);
  assert.equal(second.leftMs(at(1000, 1_000_000)), 9800);
});
