// What a store needs is bounded by what it holds, not by what it ever held.
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { tokenKey } from "../src/core/keys.js";
import type { SqliteStore } from "../src/engines/sqlite/store.js";
import { openSqlite } from "./sqlite-lab.js";
import { bump, drafting, marker, scratch, tokenOf, until } from "./store-lab.js";

const megabyte = 2 ** 20;
const perStep = 250;

/** Writes or deletes records `from` to `from + perStep` in one step. */
function step(store: SqliteStore, from: number, gone: boolean): Promise<void> {
  const ids = Array.from({ length: perStep }, (_, i) => `id-${(from + i) * 7919}`);
  return store.transact(
    [],
    drafting((draft) => {
      for (const id of ids) {
        draft.get(tokenKey(id));
        draft.put(tokenKey(id), gone ? null : marker(id, id));
      }
    }),
  );
}

async function all(
  store: SqliteStore,
  count: number,
  gone: boolean,
  after: () => Promise<void>,
): Promise<void> {
  for (let from = 0; from < count; from += 4 * perStep) {
    await Promise.all([0, 1, 2, 3].map((i) => step(store, from + i * perStep, gone)));
    await after();
  }
}

test("200,000 records written and deleted: file, log and memory return near the start", async (t) => {
  const count = 200_000;
  const store = await openSqlite({
    path: join(scratch(t), "data.db"),
    cacheRecordsMax: 1_000,
    backlogBytesMax: 4 * megabyte,
  });
  await bump(store, "job");
  const most = { file: 0, wal: 0, backlog: 0, records: 0 };
  const look = async (): Promise<void> => {
    const { file_bytes = 0, wal_bytes = 0, backlog_bytes = 0, memory_records = 0 } = await store.gauges();
    most.file = Math.max(most.file, file_bytes);
    most.wal = Math.max(most.wal, wal_bytes);
    most.backlog = Math.max(most.backlog, backlog_bytes);
    most.records = Math.max(most.records, memory_records);
  };
  await all(store, count, false, look);
  await look();
  await all(store, count, true, look);
  await until(async () => {
    await look();
    const { memory_entries = 1, backlog_bytes = 1, file_bytes = 1 } = await store.gauges();
    return memory_entries === 0 && backlog_bytes === 0 && file_bytes < 12 * megabyte;
  }, 60_000);
  assert.ok(most.file > 40 * megabyte, "the file had grown");
  assert.ok(most.wal < 128 * megabyte, `the write-ahead log stayed bounded: ${most.wal}`);
  assert.ok(most.backlog < 32 * megabyte, `the log stayed bounded: ${most.backlog}`);
  assert.ok(((await store.gauges()).memory_records ?? 0) <= 2_000);
  assert.equal(await tokenOf(store, "job"), 1);
  await store.close();
});
