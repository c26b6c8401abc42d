// A disk that fails: every request gets a definite answer by the rule of StoreErrorKind, memory equals the file
// before the next decision, and the store works again without a restart when the disk does.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import {
  closeSync,
  copyFileSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import type { Worker } from "node:worker_threads";
import { openDatabase } from "../src/engines/sqlite/binding.js";
import { checksum, feedPlace } from "../src/engines/sqlite/checksum.js";
import { StoreError } from "../src/store/store.js";
import { openSqlite } from "./sqlite-lab.js";
import { SqliteChild } from "./sqlite-process.js";
import { bump, held, putLock, scratch, tokenOf, until } from "./store-lab.js";

const names = 10;

/** Makes system calls of a running process fail; resolves when they do. Returns how to stop it. */
async function inject(pid: number, fault: string): Promise<() => Promise<void>> {
  const tracer = spawn("strace", ["-f", "-p", String(pid), "-o", "/dev/null", "-e", `inject=${fault}`]);
  let said = "";
  const over = new Promise<void>((resolve) => tracer.once("close", () => resolve()));
  await new Promise<void>((resolve, reject) => {
    tracer.once("close", () => reject(new Error(`strace ended: ${said}`)));
    tracer.stderr.setEncoding("utf8").on("data", (text: string) => {
      said += text;
      if (/attached/.test(said)) resolve();
    });
  });
  return async () => {
    tracer.kill("SIGTERM");
    await over;
  };
}

interface Failure {
  readonly flying: readonly unknown[];
  readonly behind: readonly unknown[];
  readonly reads: readonly unknown[];
  readonly broken: unknown;
}

/** Which of the two syncs the library uses depends on how it was built. `when` counts per thread, and only the writer's syncs and writes: attached while it is idle, its next are 1, 2, … */
const faults: [what: string, inject: string, kinds: readonly string[]][] = [
  ["the sync of a commit fails", "fsync,fdatasync:error=EIO:when=1", ["unknown"]],
  [
    "the sync fails, and so does the first attempt to open the file again",
    "fsync,fdatasync:error=EIO:when=1..2",
    ["unknown"],
  ],
  ["the disk is full for one write", "pwrite64:error=ENOSPC:when=1", ["unavailable"]],
  ["the disk is full for a later write", "pwrite64:error=ENOSPC:when=4", ["unavailable"]],
  ["one write fails", "pwrite64:error=EIO:when=1", ["unavailable", "unknown"]],
  ["the last write of a commit fails", "pwrite64:error=EIO:when=4", ["unavailable", "unknown"]],
];

for (const [what, fault, kinds] of faults)
  test(`${what}: definite answers, and memory equals the file afterwards`, async (t) => {
    const path = join(scratch(t), "data.db");
    const child = new SqliteChild(path, ["batches"]);
    await child.said(1);
    await child.ask(`write ${names}`);
    const before = (await child.ask(`read ${names}`)) as number[];
    assert.deepEqual(before, new Array(2 * names).fill(1));
    await child.ask("idle");
    const stop = await inject(child.pid, fault);
    const failure = (await child.ask(`fail ${names}`)) as Failure;
    await stop();
    const [kind] = failure.flying;
    assert.ok(kinds.includes(String(kind)), `${JSON.stringify(failure)} after ${fault}`);
    assert.deepEqual(failure.flying, new Array(names).fill(kind), "all requests of a batch share its fate");
    assert.deepEqual(
      failure.behind,
      new Array(names).fill("unavailable"),
      "what was built on it is certainly not done",
    );
    for (const read of failure.reads)
      assert.equal(typeof read, "string", "no read tells what is not durable");
    assert.equal(failure.broken, "unavailable");

    const after = (await child.ask(`read ${names}`)) as number[];
    const flying = after.slice(0, names);
    if (kind === "unavailable") assert.deepEqual(after, before);
    else
      assert.ok(
        flying.every((token) => token === flying[0] && (token === 1 || token === 2)),
        `all or nothing: ${flying}`,
      );
    assert.deepEqual(after.slice(names), before.slice(names));
    assert.deepEqual(
      await child.ask(`write ${names}`),
      after.map((token) => token + 1),
      "it works again, from what is in the file",
    );
    await child.kill();
    const store = await openSqlite({ path });
    for (let i = 0; i < names; i++) {
      assert.equal(await tokenOf(store, `f-${i}`), (after[i] ?? 0) + 1);
      assert.equal(await tokenOf(store, `g-${i}`), (after[names + i] ?? 0) + 1);
    }
    assert.equal(await tokenOf(store, "while-broken"), 0);
    await store.close();
  });

test("after a failure another file in the place of ours, or none, is not served", async (t) => {
  const dir = scratch(t);
  const path = join(dir, "data.db");
  const child = new SqliteChild(path, ["batches"]);
  await child.said(1);
  await child.ask(`write ${names}`);
  await child.ask("idle");
  const stop = await inject(child.pid, "fsync,fdatasync:error=EIO:when=1");
  // Answered only when it works again.
  const failing = child.ask(`fail ${names}`);
  const away = mkdtempSync(join(dir, "away-"));
  const ends = ["", "-wal", "-shm"];
  for (const end of ends) renameSync(path + end, join(away, `data.db${end}`));
  let said = 0;
  const hear = async (): Promise<void> => {
    said = child.lines.length;
    await delay(1_000);
  };
  await hear();
  assert.equal(existsSync(path), false, "no new file is made");
  const other = await openSqlite({ path: join(dir, "other.db") });
  await bump(other, "f-0");
  await other.close();
  copyFileSync(join(dir, "other.db"), path);
  await hear();
  assert.equal(child.lines.length, said, "it does not work with another's file");
  for (const end of ends) rmSync(path + end, { force: true });
  for (const end of ends) renameSync(join(away, `data.db${end}`), path + end);
  await failing;
  await stop();
  const tokens = (await child.ask(`read ${names}`)) as number[];
  assert.ok(
    tokens.every((token) => token >= 1),
    `${tokens}`,
  );
  await child.kill();
});

test("after a failure an older copy in the place of ours is not served, however often it is tried", async (t) => {
  const dir = scratch(t);
  const path = join(dir, "data.db");
  const child = new SqliteChild(path, ["batches"]);
  await child.said(1);
  await child.ask(`write ${names}`);
  await child.ask("idle");
  const copy = join(dir, "copy.db");
  const ends = ["", "-wal"];
  for (const end of ends) copyFileSync(path + end, copy + end);
  const acknowledged = (await child.ask(`write ${names}`)) as number[];
  await child.ask("idle");
  const stop = await inject(child.pid, "fsync,fdatasync:error=EIO:when=1");
  // Answered only when it works again.
  const failing = child.ask(`fail ${names}`);
  const away = mkdtempSync(join(dir, "away-"));
  for (const end of [...ends, "-shm"]) renameSync(path + end, join(away, `data.db${end}`));
  for (const end of ends) renameSync(copy + end, path + end);
  const said = child.lines.length;
  // Time for three attempts: each compares with what was acknowledged, not with what the last one found.
  await delay(1_500);
  assert.equal(child.lines.length, said, "it does not work with an older file");
  for (const end of [...ends, "-shm"]) rmSync(path + end, { force: true });
  for (const end of [...ends, "-shm"]) renameSync(join(away, `data.db${end}`), path + end);
  await failing;
  await stop();
  const tokens = (await child.ask(`read ${names}`)) as number[];
  for (const [i, token] of tokens.entries()) assert.ok(token >= (acknowledged[i] ?? 0), `${i}: ${tokens}`);
  await child.kill();
});

test("a disk that fails now and then, also while the log moves into the tree: no answer is false", async (t) => {
  const path = join(scratch(t), "data.db");
  const child = new SqliteChild(path, ["batches"], { backlogBytesMax: 0, cacheRecordsMax: 0 });
  await child.said(1);
  const sure = new Array<number>(2 * names).fill(0);
  const most = [...sure];
  const seen = new Set<string>();
  const stop = await inject(child.pid, "fsync,fdatasync:error=EIO:when=3+4");
  const well = () =>
    until(async () =>
      ((await child.ask(`read ${names}`)) as unknown[]).every((token) => typeof token === "number"),
    );
  for (let round = 0; round < 20; round++) {
    for (const [i, outcome] of ((await child.ask(`write ${names}`)) as unknown[]).entries()) {
      seen.add(typeof outcome === "number" ? "done" : String(outcome));
      if (typeof outcome === "number") {
        assert.ok(outcome > (sure[i] ?? 0) && outcome <= (most[i] ?? 0) + 1, `${i}: ${outcome}`);
        sure[i] = outcome;
        most[i] = outcome;
      } else if (outcome === "unknown") most[i] = (most[i] ?? 0) + 1;
    }
    await well();
  }
  await stop();
  assert.ok(seen.has("done") && seen.size > 1, [...seen].join());
  assert.deepEqual(
    [...seen].filter((word) => !["done", "unknown", "unavailable"].includes(word)),
    [],
  );
  await well();
  const last = (await child.ask(`read ${names}`)) as number[];
  for (const [i, token] of last.entries())
    assert.ok(token >= (sure[i] ?? 0) && token <= (most[i] ?? 0), `${i}: ${token}`);
  await child.kill();
  const store = await openSqlite({ path });
  for (let i = 0; i < names; i++) {
    assert.equal(await tokenOf(store, `f-${i}`), last[i]);
    assert.equal(await tokenOf(store, `g-${i}`), last[names + i]);
  }
  await store.close();
});

/** A file system of a few megabytes, for this test alone. */
function smallDisk(t: TestContext, size: string): string {
  const dir = mkdtempSync(join(tmpdir(), "holdfast-disk-"));
  execFileSync("mount", ["-t", "tmpfs", "-o", `size=${size}`, "tmpfs", dir]);
  t.after(() => {
    execFileSync("umount", ["-l", dir]);
    rmSync(dir, { recursive: true });
  });
  return dir;
}

const big = "x".repeat(900);

test("a full disk: definite answers, nothing acknowledged is lost, and it goes on when there is room", async (t) => {
  const dir = smallDisk(t, "16m");
  const path = join(dir, "data.db");
  const ballast = join(dir, "ballast");
  // Going on takes room: for what is in the log, and again for moving it into the tree.
  writeFileSync(ballast, Buffer.alloc(13 * 2 ** 20));
  let works: () => void = () => undefined;
  const troubles: string[] = [];
  const store = await openSqlite({
    path,
    onTrouble: (what) => {
      if (what === null) works();
      else troubles.push(what);
    },
  });
  const stored = new Set<string>();
  const refused = new Set<string>();
  const write = async (name: string): Promise<void> => {
    const base = held(name, 1);
    try {
      await putLock(store, { ...base, lease: base.lease && { ...base.lease, metadata: big } });
      stored.add(name);
    } catch (error) {
      assert.ok(error instanceof StoreError, String(error));
      assert.equal(error.kind, "unavailable", `certainly not written: ${error.message}`);
      refused.add(name);
    }
  };
  for (let round = 0; refused.size === 0; round++) {
    assert.ok(round < 1000, "the disk never filled up");
    await Promise.all(Array.from({ length: 10 }, (_, i) => write(`n-${round}-${i}`)));
  }
  assert.ok(stored.size > 100 && troubles.length > 0);
  assert.match(troubles[0] ?? "", /full/);
  await write("while-full");
  assert.ok(refused.has("while-full"));

  const recovered = new Promise<void>((resolve) => {
    works = resolve;
  });
  rmSync(ballast);
  await recovered;
  const check = async (): Promise<void> => {
    for (const name of stored) assert.equal(await tokenOf(store, name), 1, name);
    for (const name of refused) assert.equal(await tokenOf(store, name), 0, name);
  };
  await check();
  assert.equal(await bump(store, "again"), 1);
  await store.close();
  const again = await openSqlite({ path });
  for (const name of stored) assert.equal(await tokenOf(again, name), 1, name);
  await again.close();
});

test("closing on a full disk ends, and loses nothing", async (t) => {
  const dir = smallDisk(t, "8m");
  const path = join(dir, "data.db");
  const ballast = join(dir, "ballast");
  writeFileSync(ballast, Buffer.alloc(7 * 2 ** 20));
  const store = await openSqlite({ path });
  const stored: string[] = [];
  for (let i = 0; ; i++)
    try {
      await bump(store, `n-${i}`);
      stored.push(`n-${i}`);
    } catch {
      break;
    }
  await store.close();
  await assert.rejects(
    openSqlite({ path }),
    (error) => error instanceof StoreError && error.kind === "unavailable",
  );
  rmSync(ballast);
  const again = await openSqlite({ path });
  assert.ok(stored.length > 20);
  for (const name of stored) assert.equal(await tokenOf(again, name), 1, name);
  await again.close();
});

test("no room for a backup: it is refused, leaves nothing, and the store goes on", async (t) => {
  const dir = scratch(t);
  const store = await openSqlite({ path: join(dir, "data.db") });
  await Promise.all(Array.from({ length: 500 }, (_, i) => bump(store, `n-${i}`)));
  const small = smallDisk(t, "64k");
  await assert.rejects(
    store.backup(join(small, "backup.db")),
    (error) => error instanceof StoreError && error.kind === "unavailable" && /full/.test(error.message),
  );
  assert.deepEqual(readdirSync(small), []);
  assert.equal(await bump(store, "n-1"), 2);
  await store.close();
});

test("no room for a new file: a clear refusal", async (t) => {
  const small = smallDisk(t, "16k");
  writeFileSync(join(small, "ballast"), Buffer.alloc(12 * 1024));
  await assert.rejects(
    openSqlite({ path: join(small, "data.db") }),
    (error) => error instanceof StoreError && error.kind === "unavailable",
  );
});

const ending = (promise: Promise<void>): Promise<string> =>
  Promise.race([promise.then(() => "ended"), delay(5_000, "hangs", { ref: false })]);

test("damage that is met while old events are dropped: told once as what it is, and they go when it is mended", async (t) => {
  const path = join(scratch(t), "data.db");
  let store = await openSqlite({ path });
  await bump(store, "job");
  await store.close();
  // Too large to be checked from end to end at each start.
  const database = openDatabase(path);
  const events = "x".repeat(50_000);
  const insert = database.prepare("INSERT INTO feed (first, count, at, events, sum) VALUES (?, 1, 0, ?, ?)");
  database.exec("BEGIN");
  for (let i = 2; i < 400; i++) insert.run(i, events, checksum(feedPlace(i, 1, 0), events));
  database.exec("COMMIT");
  // What is still in the log would hide what is done to the file.
  database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  database.close();
  const whole = statSync(path).size;
  assert.ok(whole > 16 * 2 ** 20, `${whole}`);
  const file = openSync(path, "r+");
  // Closed after the store: closing a file ends all locks that the process has on it.
  t.after(() => closeSync(file));
  const from = 2 ** 20;
  const middle = Buffer.alloc(whole - 2 * from);
  readSync(file, middle, 0, middle.length, from);
  writeSync(file, Buffer.alloc(middle.length), 0, middle.length, from);
  const troubles: (string | null)[] = [];
  store = await openSqlite({
    path,
    feedEventsMax: 1,
    onTrouble: (what) => troubles.push(what),
  });
  const damage = /is damaged.*restore the last backup/s;
  const refusal = () => tokenOf(store, "job").then(String, String);
  await until(async () => damage.test(await refusal()), 5_000);
  // Longer than the next attempts to open it take.
  await delay(1_000);
  assert.match(await refusal(), damage);
  assert.equal(troubles.length, 1);
  writeSync(file, middle, 0, middle.length, from);
  await until(() => troubles.includes(null));
  assert.equal(troubles.length, 2);
  assert.match(troubles[0] ?? "", /malformed/);
  assert.equal(await bump(store, "job"), 2);
  const free = openDatabase(path, { readOnly: true });
  await until(() => free.prepare("SELECT count(*) AS rows FROM feed").get()?.rows === 1);
  free.close();
  assert.equal(await ending(store.close()), "ended");
});

/** Opens a store, and shows its threads: the one that writes, and the one that makes backups. */
async function withThreads(path: string, onTrouble: (what: string | null) => void) {
  const threads: Worker[] = [];
  const add = (worker: Worker): number => threads.push(worker);
  process.on("worker", add);
  const store = await openSqlite({ path, onTrouble });
  process.off("worker", add);
  // A message that means nothing is a bug, and ends the thread as any other would.
  return {
    store,
    breakWriter: () => threads[0]?.postMessage(null),
    breakKeeper: () => threads[1]?.postMessage(null),
  };
}

test("a writer thread that is gone: told with what to do, every request refused, and closing ends", async (t) => {
  const path = join(scratch(t), "data.db");
  const troubles: (string | null)[] = [];
  const { store, breakWriter } = await withThreads(path, (what) => troubles.push(what));
  assert.equal(await bump(store, "job"), 1);
  breakWriter();
  await assert.rejects(bump(store, "job"), /writer thread stopped.*restart/);
  // Longer than the first attempts to open the file again would take.
  await delay(1_000);
  await assert.rejects(
    tokenOf(store, "job"),
    (error) => error instanceof StoreError && error.kind === "unavailable" && /restart/.test(error.message),
  );
  assert.equal(troubles.length, 1);
  assert.match(troubles[0] ?? "", /writer thread stopped.*restart/);
  assert.equal(await ending(store.close()), "ended");
  const again = await openSqlite({ path });
  assert.ok((await bump(again, "job")) >= 2);
  await again.close();
});

test("a keeper thread that is gone: backups are refused, the log stays short, and closing ends", async (t) => {
  const dir = scratch(t);
  const path = join(dir, "data.db");
  const { store, breakKeeper } = await withThreads(path, () => undefined);
  await bump(store, "job");
  breakKeeper();
  const refused = (error: unknown) =>
    error instanceof StoreError &&
    error.kind === "unavailable" &&
    /keeper thread stopped/.test(error.message);
  for (const backup of ["under way", "later"])
    await assert.rejects(
      Promise.race([store.backup(join(dir, backup)), delay(5_000, null, { ref: false })]),
      refused,
      backup,
    );
  const metadata = "x".repeat(2 ** 20);
  // More than the log may hold before it is copied away: until then the file itself stays small.
  for (let i = 0; i < 24; i++) {
    const base = held(`n-${i}`, 1);
    await putLock(store, { ...base, lease: base.lease && { ...base.lease, metadata } });
  }
  await until(async () => ((await store.gauges()).file_bytes ?? 0) > 16 * 2 ** 20);
  assert.equal(await ending(store.close()), "ended");
});
