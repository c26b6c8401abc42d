import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { Gathering } from "./gathering.js";

test("a batch waits for as many as were answered and as wait, for a part of its time", async () => {
  const gathering = new Gathering();
  const began = performance.now();
  await new Promise<void>((go) => {
    gathering.begin(30, 1000, 10, go);
    assert.ok(gathering.isFor(39));
    assert.ok(!gathering.isFor(40));
  });
  assert.ok(performance.now() - began < 200, "a few milliseconds at most");
  assert.ok(!gathering.isFor(1));
});

test("not at all for few, or where a batch is quick", async () => {
  const gathering = new Gathering();
  gathering.begin(30, 1000, 0, assert.fail);
  for (const [calls, tookMs] of [
    [3, 1000],
    [30, 4],
  ] as const) {
    gathering.begin(calls, tookMs, 0, assert.fail);
    assert.ok(!gathering.isFor(0));
  }
  // Neither goes off later.
  await delay(20);
});
