import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { openSqlite } from "../../../test/sqlite-lab.js";
import {
  bump,
  everything,
  follow,
  get,
  held,
  putLock,
  scratch,
  seeded,
  space,
  take,
  tokenOf,
  told,
} from "../../../test/store-lab.js";
import { lockKey } from "../../core/keys.js";
import { StoreError, type StoreErrorKind } from "../../store/store.js";
import { openDatabase } from "./binding.js";
import { checksum, logPlace } from "./checksum.js";
import { getMeta, makeDurable, schemaVersion } from "./schema.js";
import type { SqliteStore } from "./store.js";

const hash = (path: string): string => createHash("sha256").update(readFileSync(path)).digest("hex");

/** Runs SQL on a file that no store has open. */
function edit(path: string, sql: string): void {
  const database = openDatabase(path);
  database.exec(sql);
  database.close();
}

const pragma = (path: string, name: string): unknown => {
  const database = openDatabase(path, { readOnly: true });
  const [value] = Object.values(database.prepare(`PRAGMA ${name}`).get() ?? {});
  database.close();
  return value;
};

/** A closed data file with a few records. */
async function dataFile(dir: string, name = "data.db"): Promise<string> {
  const path = join(dir, name);
  const store = await openSqlite({ path });
  for (let i = 0; i < 5; i++) await bump(store, `job-${i}`);
  await store.close();
  return path;
}

async function refused(path: string, kind: StoreErrorKind, message: RegExp): Promise<void> {
  await assert.rejects(openSqlite({ path }), (error) => {
    assert.ok(error instanceof StoreError, String(error));
    assert.equal(error.kind, kind, error.message);
    assert.match(error.message, message);
    assert.ok(error.message.includes(path), `${error.message} names the file`);
    return true;
  });
}

test("a data file is a write-ahead database that can shrink, marked as ours, for nobody else to read", async (t) => {
  const path = join(scratch(t), "data.db");
  const store = await openSqlite({ path });
  await bump(store, "a");
  assert.equal(pragma(path, "journal_mode"), "wal");
  assert.equal(pragma(path, "auto_vacuum"), 2);
  assert.equal(pragma(path, "application_id"), 0x484f4c44);
  assert.equal(pragma(path, "user_version"), schemaVersion);
  for (const file of [path, `${path}-wal`, `${path}-shm`])
    assert.equal(statSync(file).mode & 0o777, 0o600, file);
  await store.close();
});

test("every connection that writes syncs every commit, or there is none", (t) => {
  const path = join(scratch(t), "data.db");
  const database = openDatabase(path);
  makeDurable(database, path);
  const value = (name: string): unknown => Object.values(database.prepare(`PRAGMA ${name}`).get() ?? {})[0];
  assert.equal(value("journal_mode"), "wal");
  assert.equal(value("synchronous"), 2);
  assert.equal(value("wal_autocheckpoint"), 0);
  database.close();
  // A database in memory cannot have a write-ahead log, as a file on some network file systems cannot.
  const unsafe = openDatabase(":memory:");
  assert.throws(
    () => makeDurable(unsafe, "/net/data.db"),
    (error) =>
      error instanceof StoreError &&
      error.kind === "unsupported" &&
      /data\.db.*local disk/s.test(error.message),
  );
  unsafe.close();
});

test("a file of a newer version is refused and not touched", async (t) => {
  const path = await dataFile(scratch(t));
  edit(path, `PRAGMA user_version = ${schemaVersion + 1}`);
  const before = hash(path);
  for (let i = 0; i < 2; i++) {
    await refused(path, "unsupported", /newer Holdfast.*upgrade/s);
    assert.equal(hash(path), before);
  }
  edit(path, `PRAGMA user_version = ${schemaVersion}`);
  const store = await openSqlite({ path });
  assert.equal(await tokenOf(store, "job-3"), 1);
  await store.close();
});

test("so is one that a crash left with its log, and the log is not touched either", async (t) => {
  const dir = scratch(t);
  const path = await dataFile(dir);
  const copy = join(dir, "copy.db");
  const database = openDatabase(path);
  makeDurable(database, path);
  database.exec(`PRAGMA user_version = ${schemaVersion + 1}`);
  execFileSync("sh", ["-c", 'cp "$1" "$2" && cp "$1-wal" "$2-wal"', "cp", path, copy]);
  database.close();
  const before = [hash(copy), hash(`${copy}-wal`)];
  await refused(copy, "unsupported", /newer Holdfast/);
  assert.deepEqual([hash(copy), hash(`${copy}-wal`)], before);
});

test("another program's database is refused and not touched", async (t) => {
  const path = join(scratch(t), "other.db");
  edit(path, "CREATE TABLE meta (key TEXT, value TEXT); INSERT INTO meta VALUES ('stamp', '1')");
  const before = hash(path);
  await refused(path, "corrupt", /not one of Holdfast/);
  assert.equal(hash(path), before);
});

test("what is no database is refused and not touched", async (t) => {
  const dir = scratch(t);
  const path = join(dir, "notes.txt");
  for (const content of ["Dear diary,\n".repeat(2000), "x", "\0".repeat(8192)]) {
    writeFileSync(path, content);
    await refused(path, "corrupt", /is not a Holdfast data file/);
    assert.equal(readFileSync(path, "utf8"), content);
    assert.deepEqual(readdirSync(dir), ["notes.txt"], "nothing is made beside it");
  }
  writeFileSync(path, "SQLite format 3\0");
  await refused(path, "corrupt", /damaged/);
  assert.equal(readFileSync(path, "utf8"), "SQLite format 3\0");
  const folder = join(dir, "folder");
  mkdirSync(folder);
  await refused(folder, "unavailable", /cannot be/);
});

test("an empty file is a new one, and a refusal leaves the name free for the next", async (t) => {
  const path = join(scratch(t), "data.db");
  writeFileSync(path, "nonsense".repeat(1000));
  await refused(path, "corrupt", /is not a Holdfast data file/);
  writeFileSync(path, "");
  const store = await openSqlite({ path });
  assert.equal(await bump(store, "a"), 1);
  await store.close();
});

test("a file that was cut off is refused, wherever it was cut", async (t) => {
  const dir = scratch(t);
  const path = await dataFile(dir);
  const cut = join(dir, "cut.db");
  const { size } = statSync(path);
  const random = seeded(7);
  const lengths = [
    size - 1,
    size - 4096,
    4096,
    4097,
    100,
    99,
    1,
    ...Array.from({ length: 8 }, () => 1 + random(size - 1)),
  ];
  for (const length of lengths) {
    copyFileSync(path, cut);
    truncateSync(cut, length);
    await refused(cut, "corrupt", /damaged/).catch((error) => assert.fail(`${length} of ${size}: ${error}`));
    assert.equal(statSync(cut).size, length);
  }
});

/** Everything that a caller can learn from a store. */
async function knowledge(store: SqliteStore, names: readonly string[], epoch: string): Promise<string> {
  const over = new AbortController();
  const records = [...(await everything(store))].map(([entry, record]) => [entry, record] as const);
  const locks = [];
  for (const name of names) locks.push(await get(store, lockKey(space, name)));
  const last = Number((await store.head()).split("-")[1]);
  const events = await take(follow(store, `${epoch}-0`, over.signal), last);
  over.abort();
  return JSON.stringify([records, locks, last, events.map(told), await store.head()]);
}

test("a byte that changed in the file is noticed, or changes nothing", async (t) => {
  const dir = scratch(t);
  const clocks = { monotonic: () => 0, wall: () => 1_700_000_000_000 };
  const [source, path, damaged] = ["source.db", "data.db", "damaged.db"].map((name) => join(dir, name)) as [
    string,
    string,
    string,
  ];
  let store = await openSqlite({ path: source, clocks });
  const names = Array.from({ length: 30 }, (_, i) => `job-${i}`);
  for (const name of names) await bump(store, name);
  await store.close();
  store = await openSqlite({ path: source, clocks });
  await Promise.all(names.slice(10, 25).map((name) => bump(store, name)));
  await putLock(store, held("late", 9));
  // As a crash leaves it, then folded into one file: half in the tree, half in the log.
  execFileSync("sh", ["-c", 'cp "$1" "$2" && cp "$1-wal" "$2-wal"', "cp", source, path]);
  await store.close();
  edit(path, "PRAGMA wal_checkpoint(TRUNCATE)");
  const bytes = readFileSync(path);
  store = await openSqlite({ path, clocks });
  const epoch = (await store.head()).split("-")[0] ?? "";
  const before = await knowledge(store, [...names, "late"], epoch);
  const engineAt = store.now();
  await store.close();

  const seed = Date.now() % 1_000_000;
  const random = seeded(seed);
  let noticed = 0;
  for (let round = 0; round < 40; round++) {
    // Half of such a file is empty space, where nothing can go wrong.
    let at = round < 8 ? random(100) : random(bytes.length);
    while (round >= 8 && bytes[at] === 0) at = random(bytes.length);
    const bit = 1 << random(8);
    const flipped = Buffer.from(bytes);
    flipped[at] = (flipped[at] ?? 0) ^ bit;
    writeFileSync(damaged, flipped);
    const what = `seed ${seed}, byte ${at} of ${bytes.length}, bit ${bit}`;
    try {
      store = await openSqlite({ path: damaged, clocks });
      try {
        assert.equal(await knowledge(store, [...names, "late"], epoch), before, what);
        assert.equal(store.now(), engineAt, what);
      } finally {
        await store.close();
      }
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      assert.ok(["corrupt", "unsupported", "unavailable"].includes(error.kind), `${what}: ${error.message}`);
      noticed++;
    }
    for (const end of ["", "-wal", "-shm"]) rmSync(`${damaged}${end}`, { force: true });
  }
  assert.ok(noticed > 10, `${noticed} of 40 noticed`);
});

test("a batch of the log that has another number, or is gone, is missed", async (t) => {
  const dir = scratch(t);
  const path = await dataFile(dir);
  // As a crash leaves it, before any of this is in the tree.
  const database = openDatabase(path);
  const applied = Number(getMeta(database, "applied"));
  const add = database.prepare(
    "INSERT INTO log (seq, engine_at, wall_at, writes, sum) VALUES (?, 0, 0, ?, ?)",
  );
  const writes = "r/lock/default/job-1\n\n";
  for (const seq of [applied + 1, applied + 2, applied + 3])
    add.run(seq, writes, checksum(logPlace(seq, 0, 0), writes));
  database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  database.close();
  const damages = [
    "UPDATE log SET seq = -1099511627776 WHERE seq = (SELECT min(seq) FROM log)",
    "UPDATE log SET seq = 0 WHERE seq = (SELECT min(seq) FROM log)",
    "DELETE FROM log WHERE seq = (SELECT min(seq) FROM log)",
    "DELETE FROM log WHERE seq = (SELECT min(seq) + 1 FROM log)",
  ];
  for (const damage of damages) {
    const damaged = join(dir, "damaged.db");
    copyFileSync(path, damaged);
    edit(damaged, damage);
    await refused(damaged, "corrupt", /damaged/).catch((error) => assert.fail(`${damage}: ${error}`));
    rmSync(damaged);
  }
  const store = await openSqlite({ path });
  assert.equal(await tokenOf(store, "job-1"), 0);
  await store.close();
});

test("a row that changes behind a running store is not believed, and the store goes on", async (t) => {
  const path = await dataFile(scratch(t));
  const store = await openSqlite({ path });
  edit(
    path,
    `UPDATE tree SET value = replace(value, '"job-1",1,', '"job-1",7,') WHERE key = 'r/lock/default/job-1'`,
  );
  await bump(store, "job-0");
  const corrupt = (error: unknown): boolean => error instanceof StoreError && error.kind === "corrupt";
  await assert.rejects(bump(store, "job-1"), corrupt);
  await assert.rejects(tokenOf(store, "job-1"), corrupt);
  assert.equal(await bump(store, "job-2"), 2);
  edit(path, "UPDATE tree SET value = 'lock/default/job-2' WHERE key = 'i/held/default/job-3'");
  await bump(store, "job-0");
  await assert.rejects(everything(store), corrupt);
  assert.equal(await bump(store, "job-4"), 2);
  await store.close();
});
