import assert from "node:assert/strict";
import { test } from "node:test";
import { boundedSteps } from "../../test/bounded-steps.js";
import { SharedMemory, SharedMemoryData } from "../../test/shared-memory.js";
import { SharedStore } from "../store/shared-store.js";
import { StepTooLargeError, StoreError } from "../store/store.js";
import { bySteps } from "./bulk.js";

boundedSteps("a store that compares 60 records and changes 120 at once", async () => {
  const bounds = { changesMax: 120, comparesMax: 60 };
  const store = new SharedStore(new SharedMemoryData(new SharedMemory(), bounds));
  await store.open();
  return store;
});

const numbers = Array.from({ length: 10 }, (_, i) => i);

test("calls that are too many for a step are split until they fit, and answered in order", async () => {
  const sizes: number[] = [];
  const replies = await bySteps(numbers, 6, async (some) => {
    if (some.length > 2) throw new StepTooLargeError("too large for a test");
    sizes.push(some.length);
    return some.map((n) => n * 2);
  });
  assert.deepEqual(
    replies,
    numbers.map((n) => n * 2),
  );
  assert.ok(sizes.every((size) => size <= 2));
});

test("one that never fits is refused; a failure after some were done is no certain one", async () => {
  const tooLarge = new StepTooLargeError("too large for a test");
  await assert.rejects(
    bySteps([1], 6, () => Promise.reject(tooLarge)),
    (error) => error === tooLarge,
  );
  const half = bySteps(numbers, 5, async (some) => {
    if (some[0] === 5) throw new StoreError("unavailable", "gone in a test");
    return some;
  });
  await assert.rejects(half, (error) => error instanceof StoreError && error.kind === "unknown");
  const none = bySteps(numbers, 5, () => Promise.reject(new StoreError("unavailable", "gone in a test")));
  await assert.rejects(none, (error) => error instanceof StoreError && error.kind === "unavailable");
});
