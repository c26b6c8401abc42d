// Wherever a write stands, in memory, in the log or in the tree, a store shows the same: that of the memory engine.
import { join } from "node:path";
import { test } from "node:test";
import { MemoryStore } from "../src/engines/memory/store.js";
import type { SqliteOptions } from "../src/engines/sqlite/open.js";
import { assertSame, narrow, randomWrites } from "./random-writes.js";
import { openSqlite } from "./sqlite-lab.js";
import { scratch, until } from "./store-lab.js";

const lives: [what: string, options: Partial<SqliteOptions>][] = [
  ["everything stays in the log until it is idle", {}],
  ["slices go into the tree all the time", { backlogBytesMax: 0, cacheRecordsMax: 0 }],
  ["a small log and a small cache", { backlogBytesMax: 5_000, cacheRecordsMax: 10 }],
];

for (const [what, options] of lives)
  test(`a random life, ${what}`, async (t) => {
    const seed = Date.now() % 1_000_000;
    const path = join(scratch(t), "data.db");
    const model = new MemoryStore();
    let store = await openSqlite({ path, ...options });
    const next = randomWrites(seed, narrow);
    const nextInModel = randomWrites(seed, narrow);
    for (let era = 0; era < 3; era++) {
      for (let round = 0; round < 10; round++) {
        // Sent together, in order: they share commits, and the model takes them in the same order.
        await Promise.all(Array.from({ length: 20 }, () => next(store)));
        for (let i = 0; i < 20; i++) await nextInModel(model);
        if (round % 5 === 4)
          await assertSame(store, model, { seed, breadth: narrow }, `era ${era}, round ${round}`);
      }
      await until(async () => (await store.gauges()).memory_entries === 0);
      await assertSame(store, model, { seed, breadth: narrow }, `era ${era}, all in the tree`);
      await Promise.all(Array.from({ length: 20 }, () => next(store)));
      for (let i = 0; i < 20; i++) await nextInModel(model);
      await store.close();
      store = await openSqlite({ path, ...options });
      await assertSame(store, model, { seed, breadth: narrow }, `era ${era}, opened again`);
    }
    await store.close();
  });
