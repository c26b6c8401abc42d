import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { conformance, isStoreError } from "../../test/conformance.js";
import { SharedMemory, SharedMemoryData } from "../../test/shared-memory.js";
import {
  bump,
  drafting,
  held,
  put,
  putLock,
  space,
  TurnedClocks,
  tokenOf,
  until,
} from "../../test/store-lab.js";
import { lockKey } from "../core/keys.js";
import { policyDefault } from "../core/limits.js";
import { decideClean, decideSweep } from "../core/sweep.js";
import { clockLagMs } from "./shared-clock.js";
import { SharedStore } from "./shared-store.js";

async function open(
  memory = new SharedMemory(),
  facts = {},
): Promise<{ store: SharedStore; data: SharedMemoryData }> {
  const data = new SharedMemoryData(memory, facts);
  const store = new SharedStore(data);
  await store.open();
  data.commits.length = 0; // what the opening itself wrote
  return { store, data };
}

conformance("a shared store", async () => {
  const memory = new SharedMemory();
  const [{ store: one }, { store: two }] = [await open(memory), await open(memory, { lanesMax: 1 })];
  return {
    one,
    two,
    close: async () => {
      await one.close();
      await two.close();
    },
  };
});

test("calls that come while a batch is on its way share the next one", async () => {
  const { store, data } = await open(undefined, { lanesMax: 1 });
  await Promise.all(Array.from({ length: 50 }, (_, i) => bump(store, `n-${i}`)));
  assert.equal(data.commits.length, 1);
  await store.close();
});

test("what another changed in between is decided anew", async () => {
  const memory = new SharedMemory();
  const [one, two] = [await open(memory), await open(memory)];
  one.data.beforeCommit = async () => {
    one.data.beforeCommit = () => undefined;
    assert.equal(await bump(two.store, "a"), 1);
  };
  assert.equal(await bump(one.store, "a"), 2);
  assert.equal(one.data.commits.length, 2);
  await one.store.close();
  await two.store.close();
});

test("a reading that comes late is not taken for the present: what begins then does not begin in the past", async () => {
  const memory = new SharedMemory();
  const [slow, other] = [await open(memory), await open(memory)];
  const read = slow.data.read.bind(slow.data);
  let pass = (): void => undefined;
  const passed = new Promise<void>((resolve) => {
    pass = resolve;
  });
  slow.data.read = async (asks) => {
    const reading = await read(asks);
    if (asks.includes(lockKey(space, "late"))) await passed;
    return reading;
  };
  const clockAt = memory.clock;
  const decided = slow.store.transact([lockKey(space, "late")], (view) => ({
    reply: { now: view.now, clock: memory.clock },
    writes: [],
    events: [],
  }));
  // The other goes on, and moves the clock.
  await until(() => memory.clock > clockAt + 3 * clockLagMs);
  pass();
  const { now, clock } = await decided;
  assert.ok(now >= clock, `${now} is before ${clock}`);
  assert.ok(now < clock + 3 * clockLagMs, `${now} is long after ${clock}`);
  assert.ok(slow.store.now() >= now);
  await slow.store.close();
  await other.store.close();
});

test("a commit without an answer is unknown to all of its calls, and to no other", async () => {
  const { store, data } = await open(undefined, { lanesMax: 1 });
  data.fault = "unknown";
  const ends = await Promise.allSettled([bump(store, "a"), bump(store, "b"), tokenOf(store, "c")]);
  assert.ok(
    ends.slice(0, 2).every((end) => end.status === "rejected" && isStoreError("unknown")(end.reason)),
  );
  assert.equal(ends[2]?.status, "fulfilled", "who only read has its answer");
  assert.equal(await tokenOf(store, "a"), 1);
  data.fault = "unavailable";
  await assert.rejects(bump(store, "a"), isStoreError("unavailable"));
  assert.equal(await tokenOf(store, "a"), 1);
  await store.close();
});

test("who read what is not durable yet is answered with it, or not at all", async () => {
  const { store, data } = await open(undefined, { lanesMax: 1 });
  data.fault = "unavailable";
  const [write, read] = await Promise.allSettled([bump(store, "a"), tokenOf(store, "a")]);
  assert.equal(write.status, "rejected");
  assert.equal(read.status, "rejected");
  await store.close();
});

test("a batch takes no more than a commit can hold; a step that never fits is refused", async () => {
  const { store, data } = await open(undefined, { changesMax: 9, lanesMax: 1 });
  await Promise.all(Array.from({ length: 10 }, (_, i) => putLock(store, held(`n-${i}`, 1))));
  for (const { writes } of data.commits)
    assert.ok(writes.reduce((sum, { add, drop }) => sum + 1 + add.length + drop.length, 0) <= 9);
  assert.equal(await tokenOf(store, "n-9"), 1);
  const many = Array.from({ length: 6 }, (_, i) => lockKey(space, `m-${i}`));
  const step = store.transact(
    many,
    drafting((draft) => {
      for (const [i, key] of many.entries()) draft.put(key, held(`m-${i}`, 1));
    }),
  );
  await assert.rejects(step, isStoreError("unsupported"));
  await store.close();
});

test("a call whose turn does not come is refused for certain, though nothing answers", async () => {
  const data = new SharedMemoryData(new SharedMemory(), { lanesMax: 1 });
  const clocks = new TurnedClocks();
  const store = new SharedStore(data, undefined, clocks);
  await store.open();
  let letGo = (): void => undefined;
  const committing = new Promise<void>((begun) => {
    data.beforeCommit = () =>
      new Promise((resolve) => {
        letGo = resolve;
        begun();
      });
  });
  const first = bump(store, "a");
  await committing;
  const refused = assert.rejects(bump(store, "a"), isStoreError("unavailable"));
  clocks.pass(20_000);
  letGo();
  assert.equal(await first, 1);
  await refused;
  await store.close();
});

test("a step over what is due asks for the same range in every round, though the clock moves on", async () => {
  class SlowData extends SharedMemoryData {
    override async read(asks: Parameters<SharedMemoryData["read"]>[0]) {
      await delay(120); // longer than the clock stands still
      return super.read(asks);
    }
  }
  const data = new SlowData(new SharedMemory());
  const store = new SharedStore(data);
  await store.open();
  for (const name of ["a", "b"]) await putLock(store, held(name, 1, { dueAt: 5 }));
  const before = data.reads.length;
  const sweep = await store.transact([], (view) => decideSweep(view, policyDefault));
  assert.equal(sweep.settled, 2);
  const clean = await store.transact([], (view) => decideClean(view, policyDefault));
  assert.equal(clean.removed, 0);
  assert.ok(data.reads.length - before <= 6, `${data.reads.length - before} readings`);
  await store.close();
});

test("what is too many bytes for one commit goes in smaller ones; a step that always is, is refused", async () => {
  const { store, data } = await open(undefined, { lanesMax: 1 });
  data.writesMax = 3;
  await Promise.all(Array.from({ length: 10 }, (_, i) => bump(store, `n-${i}`)));
  assert.ok(data.commits.length >= 4);
  assert.equal(await tokenOf(store, "n-9"), 1);
  data.writesMax = 0;
  await assert.rejects(bump(store, "a"), isStoreError("unsupported"));
  await store.close();
});

test("a record counts once in a commit, however many of a batch change it or rely on it", async () => {
  const { store, data } = await open(undefined, { changesMax: 4, comparesMax: 2, lanesMax: 1 });
  await Promise.all(Array.from({ length: 20 }, () => bump(store, "a")));
  assert.equal(data.commits.length, 1);
  assert.equal(await tokenOf(store, "a"), 20);
  await store.close();
});

test("many that take from the front of one index at once each get another row", async () => {
  const { store } = await open(undefined, { lanesMax: 1 });
  const names = Array.from({ length: 40 }, (_, i) => `n-${String(i).padStart(2, "0")}`);
  for (const name of names) await putLock(store, held(name, 1));
  const range = { index: "held", from: `${space}/n-`, to: `${space}/n-\x7f`, limit: 3 } as const;
  const takeFirst = (): Promise<string> =>
    store.transact(
      [],
      drafting((draft) => {
        const rows = draft.range(range);
        draft.require(rows.map(({ key }) => key));
        const [row] = rows;
        if (row === undefined) return "none";
        draft.put(row.key, null);
        return row.key.slice(row.key.lastIndexOf("/") + 1);
      }),
    );
  const taken = await Promise.all(names.map(takeFirst));
  assert.deepEqual(taken.toSorted(), names);
  assert.equal(await takeFirst(), "none");
  await store.close();
});

test("the shared clock never runs faster than time, whoever moves it, and a decision sees its interval", async () => {
  const memory = new SharedMemory();
  // Before anybody has seen it: a move covers the time since then.
  const begun = { value: memory.clock, at: performance.now() };
  const stores = [await open(memory), await open(memory), await open(memory)];
  while (memory.ticks.length < 12) await bump(stores[0]?.store ?? assert.fail(), "a");
  const all = [begun, ...memory.ticks];
  for (const [i, later] of all.entries())
    for (const earlier of all.slice(0, i))
      assert.ok(later.value - earlier.value <= later.at - earlier.at + 1, "it ran ahead of time");
  assert.ok(memory.clock > begun.value, "it moves");
  const seen = await (stores[1] ?? assert.fail()).store.transact([], (view) => ({
    reply: view.now - view.earliest,
    writes: [],
    events: [],
  }));
  // By as much more as has passed since the clock was seen to move.
  assert.ok(seen >= clockLagMs && seen <= 2 * clockLagMs, `${seen} ms`);
  for (const { store } of stores) await store.close();
});

test("one that is closed takes nothing new and finishes what it has", async () => {
  const { store } = await open();
  const pending = put(store, lockKey(space, "a"), held("a", 1));
  await store.close();
  await pending;
  await assert.rejects(bump(store, "a"), isStoreError("closed"));
});
