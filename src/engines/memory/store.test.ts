import assert from "node:assert/strict";
import { test } from "node:test";
import { conformance, isStoreError } from "../../../test/conformance.js";
import { bump, follow, get, put, take, tell, tokenOf, told } from "../../../test/store-lab.js";
import { lockKey } from "../../core/keys.js";
import { MemoryData, MemoryStore } from "./store.js";

conformance("memory", async () => {
  const data = new MemoryData();
  const one = new MemoryStore(data);
  const two = new MemoryStore(data);
  return {
    one,
    two,
    close: async () => {
      await one.close();
      await two.close();
    },
  };
});

test("closing one handle leaves the other its data and its followers", async () => {
  const data = new MemoryData();
  const [one, two] = [new MemoryStore(data), new MemoryStore(data)];
  const over = new AbortController();
  const changes = follow(two, undefined, over.signal);
  await bump(one, "a");
  await one.close();
  assert.equal(await tokenOf(two, "a"), 1);
  await bump(two, "a");
  assert.deepEqual((await take(changes, 2)).map(told), ["a=1", "a=2"]);
  over.abort();
});

test("events beyond what is kept are gone, and a follower that needs them is told", async () => {
  const store = new MemoryStore(new MemoryData(undefined, 10));
  const start = await store.head();
  for (let i = 1; i <= 40; i++) await tell(store, `word-${i}`);
  const over = new AbortController();
  const [first] = await take(follow(store, start, over.signal), 1);
  assert.deepEqual(first, { cursor: await store.head(), reset: true });
  const recent = (await store.head()).replace(/\d+$/, "32");
  assert.equal(
    (await take(follow(store, recent, over.signal), 8)).map(told).join(),
    Array.from({ length: 8 }, (_, i) => `word-${i + 33}`).join(),
  );
  over.abort();
});

test("deleted records leave no trace in memory", async () => {
  const store = new MemoryStore();
  for (let i = 0; i < 100; i++) {
    await bump(store, `n-${i}`);
    await put(store, lockKey("default", `n-${i}`), null);
  }
  assert.equal(await get(store, lockKey("default", "n-1")), null);
  assert.deepEqual(await store.gauges(), { records: 0 });
});

test("it says that it cannot be backed up", async () => {
  await assert.rejects(new MemoryStore().backup(), isStoreError("unsupported"));
});
