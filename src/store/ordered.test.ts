import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { free, marker } from "../../test/store-lab.js";
import type { Range, Write } from "../core/decision.js";
import { Ordered } from "./ordered.js";

const sorts = ["a", "a/b", "aa", "b", "b!", "c"];
const range = (from: string, to: string, limit = 100): Range => ({ index: "token", from, to, limit });
const entry = (sort: string) => ({ index: "token" as const, sort });
const add = (sort: string, key = `key-${sort}`): Write => ({
  key,
  record: marker(key, sort),
  drop: [],
  add: [entry(sort)],
});
const drop = (sort: string, key = `key-${sort}`): Write => ({
  key,
  record: null,
  drop: [entry(sort)],
  add: [],
});

test("ranges agree with a sorted map, whatever was written, dropped and forgotten", () => {
  const step = fc.record({ sort: fc.constantFrom(...sorts), gone: fc.boolean() });
  const ask = fc.record({
    from: fc.constantFrom("", ...sorts),
    to: fc.constantFrom(...sorts, "\x7f"),
    limit: fc.integer({ min: 0, max: 7 }),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 30 }), fc.array(ask, { maxLength: 10 }), (steps, asks) => {
      const ordered = new Ordered();
      const model = new Set<string>();
      for (const { sort, gone } of steps) {
        const writes = [gone ? drop(sort) : add(sort)];
        ordered.apply(writes, 0);
        ordered.forgetGone(writes);
        if (gone) model.delete(sort);
        else model.add(sort);
      }
      for (const { from, to, limit } of asks)
        assert.deepEqual(
          ordered.range(range(from, to, limit)).map((row) => row.sort),
          [...model]
            .filter((sort) => sort >= from && sort < to)
            .toSorted()
            .slice(0, limit),
        );
      assert.equal(ordered.entryCount, model.size);
      assert.equal(ordered.records.size, model.size);
    }),
  );
});

test("what a log remembers makes the same layer as the writes themselves", () => {
  const [written, read] = [new Ordered(), new Ordered()];
  written.apply([add("a"), add("b"), drop("a")], 4);
  read.ingest({ key: "key-a", record: marker("key-a", "a") }, 4);
  read.ingest({ entry: "token/a", target: "key-a" }, 4);
  read.ingest({ key: "key-b", record: marker("key-b", "b") }, 4);
  read.ingest({ entry: "token/b", target: "key-b" }, 4);
  read.ingest({ key: "key-a", record: null }, 4);
  read.ingest({ entry: "token/a", target: null }, 4);
  assert.deepEqual([...read.entries(range("", "\x7f"))], [...written.entries(range("", "\x7f"))]);
  assert.deepEqual([...read.records], [...written.records]);
});

test("forgetting up to a batch keeps everything that a later batch wrote", () => {
  const ordered = new Ordered();
  ordered.apply([add("a"), add("b"), add("c")], 1);
  ordered.apply([add("b", "other"), drop("c")], 2);
  ordered.forgetEntries(1);
  const left = [...ordered.entries(range("", "\x7f"))].map(({ sort, slot }) => [sort, slot.value, slot.seq]);
  assert.deepEqual(left.slice(-2), [
    ["b", "other", 2],
    ["c", null, 2],
  ]);
  ordered.forgetEntries(2);
  assert.equal(ordered.entryCount, 0);
});

test("two generations over a layer below show what one map would", () => {
  const names = fc.constantFrom("a", "b", "c", "d", "e", "f", "g", "h");
  const step = fc.record({ name: names, gone: fc.boolean(), forget: fc.integer({ min: 0, max: 6 }) });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const ordered = new Ordered(3);
      const truth = new Map<string, string>();
      // What the layer below has after each batch.
      const below: Map<string, string>[] = [new Map()];
      let applied = 0;
      for (const [i, { name, gone, forget }] of steps.entries()) {
        const seq = i + 1;
        ordered.apply([gone ? drop(name) : add(name, `r${seq}`)], seq);
        if (gone) truth.delete(name);
        else truth.set(name, `r${seq}`);
        below.push(new Map(truth));
        applied = Math.max(applied, seq - forget);
        ordered.forgetEntries(applied);
        const seen = new Map(below[applied]);
        for (const { sort, slot } of ordered.entries(range("", "\x7f")))
          if (slot.value === null) seen.delete(sort);
          else seen.set(sort, slot.value);
        assert.deepEqual([...seen].sort(), [...truth].sort());
      }
    }),
  );
});

test("forgetting records drops the oldest that the layer below has, down to a number", () => {
  const ordered = new Ordered();
  const lock = (name: string, seq: number): void =>
    ordered.apply([{ key: name, record: free(name, seq), drop: [], add: [] }], seq);
  lock("a", 1);
  lock("b", 2);
  lock("c", 3);
  lock("a", 4);
  ordered.forgetRecords(3, 10);
  assert.deepEqual([...ordered.records.keys()], ["b", "c", "a"]);
  ordered.forgetRecords(3, 2);
  assert.deepEqual([...ordered.records.keys()], ["c", "a"]);
  ordered.forgetRecords(3, 0);
  assert.deepEqual([...ordered.records.keys()], ["a"]);
  ordered.clear();
  assert.equal(ordered.records.size + ordered.entryCount, 0);
});

test("a long life of writing and forgetting leaves nothing behind", () => {
  const ordered = new Ordered();
  for (let seq = 1; seq <= 20_000; seq++) {
    ordered.apply([add(`n${seq % 7}`), drop(`m${seq % 5}`)], seq);
    if (seq % 10 === 0) ordered.forgetEntries(seq - 5);
  }
  assert.ok(ordered.entryCount <= 12);
  ordered.forgetEntries(20_000);
  assert.equal(ordered.entryCount, 0);
});
