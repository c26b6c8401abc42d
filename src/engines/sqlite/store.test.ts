import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { conformance, isStoreError, type OpenHandles } from "../../../test/conformance.js";
import { openSqlite } from "../../../test/sqlite-lab.js";
import { bump, held, put, putLock, scratch, space, tokenOf, until } from "../../../test/store-lab.js";
import { lockKey } from "../../core/keys.js";
import { openDatabase } from "./binding.js";
import { checksum, logPlace } from "./checksum.js";
import type { SqliteOptions } from "./open.js";
import type { SqliteStore } from "./store.js";

// One process has the file and opens it once: both handles are the same store.
const opening =
  (options: Partial<SqliteOptions>): OpenHandles =>
  async () => {
    const dir = mkdtempSync(join(tmpdir(), "holdfast-test-"));
    const store = await openSqlite({ ...options, path: join(dir, "data.db") });
    return {
      one: store,
      two: store,
      close: async () => {
        await store.close();
        rmSync(dir, { recursive: true, force: true });
      },
    };
  };

conformance("sqlite", opening({}));
conformance(
  "sqlite that keeps as little in memory as it can",
  opening({ backlogBytesMax: 0, cacheRecordsMax: 0 }),
);

async function opened(
  t: { after(fn: () => Promise<void>): void },
  options: Partial<SqliteOptions> = {},
): Promise<SqliteStore> {
  const dir = mkdtempSync(join(tmpdir(), "holdfast-test-"));
  const store = await openSqlite({ path: join(dir, "data.db"), ...options });
  t.after(async () => {
    await store.close();
    rmSync(dir, { recursive: true, force: true });
  });
  return store;
}

const gauge = async (store: SqliteStore, name: string): Promise<number> =>
  (await store.gauges())[name] ?? Number.NaN;

test("requests that come together share a commit", async (t) => {
  const store = await opened(t);
  await bump(store, "first");
  const before = await gauge(store, "commits_total");
  await Promise.all(Array.from({ length: 1000 }, (_, i) => bump(store, `n-${i}`)));
  assert.ok((await gauge(store, "commits_total")) - before <= 2);
});

test("requests that come during a commit share the next one", async (t) => {
  const store = await opened(t);
  const before = await gauge(store, "commits_total");
  let done = 0;
  // 32 callers, each with its next request as soon as the last is answered.
  const callers = Array.from({ length: 32 }, async (_, caller) => {
    for (let i = 0; i < 20; i++) {
      await bump(store, `n-${caller}`);
      done++;
    }
  });
  await Promise.all(callers);
  const commits = (await gauge(store, "commits_total")) - before;
  assert.equal(done, 640);
  assert.ok(commits <= 640 / 8, `${commits} commits for 640 requests of 32 callers`);
});

test("a read of what is on its way waits for it; a read of anything else does not", async (t) => {
  const store = await opened(t);
  await bump(store, "other");
  const order: string[] = [];
  const write = bump(store, "job").then(() => order.push("write"));
  const same = tokenOf(store, "job").then((token) => order.push(`job ${token}`));
  const other = tokenOf(store, "other").then((token) => order.push(`other ${token}`));
  await Promise.all([write, same, other]);
  assert.deepEqual(order, ["other 1", "write", "job 1"]);
});

test("memory is bounded: what the file has is forgotten", async (t) => {
  const store = await opened(t, { backlogBytesMax: 10_000, cacheRecordsMax: 50 });
  for (let round = 0; round < 10; round++)
    await Promise.all(Array.from({ length: 200 }, (_, i) => bump(store, `n-${round}-${i}`)));
  await until(async () => (await gauge(store, "memory_entries")) === 0);
  assert.ok((await gauge(store, "memory_records")) <= 100);
  assert.equal(await gauge(store, "backlog_bytes"), 0);
  for (let i = 0; i < 200; i++) assert.equal(await tokenOf(store, `n-3-${i}`), 1);
  assert.ok((await gauge(store, "memory_records")) <= 100);
});

test("a key that would break the log's lines is refused, and nothing of that step is written", async (t) => {
  const store = await opened(t);
  for (const name of ["a\nr/lock/default/b", "a\0b"])
    await assert.rejects(putLock(store, held(name, 1)), isStoreError("unsupported"));
  assert.equal(await tokenOf(store, "b"), 0);
  assert.equal(await bump(store, "a"), 1);
});

test("text that looks like the log's own marks is only text", async (t) => {
  const path = join(scratch(t), "data.db");
  let store = await openSqlite({ path });
  const odd = 'line\nbreak\r\n\u2028"i/held/default/x"\nr/lock\\n\0\u{1F600}';
  const base = held("job", 1);
  const record = { ...base, lease: base.lease && { ...base.lease, metadata: odd, progress: odd } };
  await putLock(store, record);
  await put(store, lockKey(space, "gone"), null);
  for (let restart = 0; restart < 2; restart++) {
    const read = await store.transact([], (view) => ({
      reply: view.get(lockKey(space, "job")),
      writes: [],
      events: [],
    }));
    assert.deepEqual(read, record);
    await store.close();
    store = await openSqlite({ path });
  }
  await store.close();
});

test("batches that the tree has, but that were not dropped from the log yet, are not read again", async (t) => {
  const path = join(scratch(t), "data.db");
  let store = await openSqlite({ path });
  await putLock(store, held("job", 1));
  await until(async () => (await gauge(store, "applied_seq")) === 1);
  assert.equal(await bump(store, "job"), 2);
  await store.close();
  // As if the first batch had stayed behind: its value of the name is older than the tree's.
  const database = openDatabase(path);
  const writes = "r/lock/default/job\n\n";
  database
    .prepare("INSERT INTO log (seq, engine_at, wall_at, writes, sum) VALUES (1, 0, 0, ?, ?)")
    .run(writes, checksum(logPlace(1, 0, 0), writes));
  database.close();
  store = await openSqlite({ path });
  assert.equal(await tokenOf(store, "job"), 2);
  assert.equal(await bump(store, "job"), 3);
  await store.close();
  const closed = openDatabase(path);
  assert.deepEqual(closed.prepare("SELECT seq FROM log").all(), []);
  closed.close();
});

test("closing finishes what was asked before", async (t) => {
  const path = join(scratch(t), "data.db");
  const store = await openSqlite({ path });
  const asked = Array.from({ length: 50 }, (_, i) => bump(store, `n-${i}`));
  const closed = store.close();
  await assert.rejects(bump(store, "late"), isStoreError("closed"));
  await assert.rejects(store.backup(join(path, "..", "backup.db")), isStoreError("closed"));
  assert.deepEqual(new Set(await Promise.all(asked)), new Set([1]));
  await closed;
  const again = await openSqlite({ path });
  for (let i = 0; i < 50; i++) assert.equal(await tokenOf(again, `n-${i}`), 1);
  assert.equal(await tokenOf(again, "late"), 0);
  await again.close();
});

test("a second store of the same process on the same file is refused, and the first goes on", async (t) => {
  const path = join(scratch(t), "data.db");
  const store = await openSqlite({ path });
  await assert.rejects(
    openSqlite({ path }),
    (error) => isStoreError("unavailable")(error) && String(error).includes(path),
  );
  assert.equal(await bump(store, "a"), 1);
  await store.close();
  const again = await openSqlite({ path });
  assert.equal(await bump(again, "a"), 2);
  await again.close();
});
