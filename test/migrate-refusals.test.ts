// What `holdfast migrate` refuses, before it has changed anything: names of stores that are none, places that are not empty or in use, data
// that has gone elsewhere. And what stays true when several of it run at once, or one is killed at any moment.
import assert from "node:assert/strict";
import { copyFileSync, existsSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay, setImmediate } from "node:timers/promises";
import { inspect } from "node:util";
import { Client } from "pg";
import { openStore, openTarget } from "../src/engines/open.js";
import { type EtcdLab, startEtcd } from "./etcd-lab.js";
import { acquire, everything, killedAfter, killedAt, migrate, steps, worker } from "./migrate-lab.js";
import { Postgres, password } from "./postgres-lab.js";
import { adminToken, call, type Server, startServer, temporaryDir } from "./server.js";
import { bump } from "./store-lab.js";
import { type Ended, holdfast } from "./system-program.js";

let postgres: Postgres;
let etcd: EtcdLab;
/** A stopped server's data. */
let seeded: string;

before(async () => {
  [postgres, etcd] = await Promise.all([Postgres.start(), startEtcd()]);
  const server = await startServer();
  for (const name of ["one", "two", "three"]) await acquire(server, name, { ttl_seconds: 3600 });
  await server.stop();
  seeded = join(server.dataDir, "holdfast.db");
});
after(async () => {
  await Promise.all([postgres.stop(), etcd.stop()]);
});

const start = (store: string): Promise<Server> => startServer({ args: ["--store", store] });
const newFile = (): string => `sqlite:${join(temporaryDir("holdfast-migrate-"), "holdfast.db")}`;

/** A copy of the data: what is sealed is sealed for ever. */
function copied(): string {
  const store = newFile();
  copyFileSync(seeded, store.slice("sqlite:".length));
  return store;
}

const prefixOf = (store: string): string => new URL(store).searchParams.get("prefix") ?? assert.fail();

function refused({ code, text }: Ended, wanted: number, why: RegExp): void {
  assert.equal(code, wanted, text);
  assert.match(text, why);
  assert.doesNotMatch(text, new RegExp(password));
}

/** It was not touched: a server works on it. */
async function inUse(store: string): Promise<void> {
  const server = await start(store);
  assert.equal((await call(server, "GET", "/locks/one", { token: worker })).status, 200);
  await server.stop();
}

describe("names", () => {
  const file = "sqlite:/tmp/nowhere/at/all.db";
  const rows: [from: string, to: string, code: number, why: RegExp][] = [
    ["memory:", file, 2, /--from: memory: keeps nothing/],
    [file, "memory:", 2, /--to: memory: keeps nothing/],
    ["git:/srv/repo.git", file, 2, /locks in a git repository are not carried/],
    [file, "https://example.org/repo.git", 2, /locks in a git repository are not carried/],
    ["mysql://me:secret-word@db/x", file, 2, /--from mysql:\/\/me:…@db\/x is no store: use sqlite:FILE/],
    [file, "sqlite:/tmp/nowhere/at/../at/all.db", 2, /name the same store/],
    [file, "etcd://127.0.0.1:1", 3, /there is no data of Holdfast in \/tmp\/nowhere\/at\/all.db/],
    ["postgres://me:secret-word@127.0.0.1:1/x", file, 5, /cannot be reached/],
    ["postgres://me:secret-word@127.0.0.1/x?sslmod=1", file, 2, /--from: sslmod is no setting/],
    ["etcd://127.0.0.1:1/?prefx=1", file, 2, /--from: etcd: "prefx" is no setting/],
  ];
  for (const [from, to, code, why] of rows)
    test(`${from} to ${to}`, async () => {
      const ended = await migrate(from, to);
      refused(ended, code, why);
      assert.doesNotMatch(ended.text, /secret-word/);
      assert.ok(!existsSync("/tmp/nowhere"));
    });

  test("a flag that is missing", async () => {
    refused(await holdfast(["migrate", "--from", "sqlite:x"]), 2, /'--to <url>' not specified/);
  });
});

test("a target is told of by its own flag", async () => {
  const from = copied();
  for (const [to, code, why] of [
    ["postgres://me:secret-word@127.0.0.1/x?scema=y", 2, /--to: scema is no setting/],
    ["postgres://me:secret-word@127.0.0.1:1/x", 5, /127\.0\.0\.1:1\/x cannot be reached: is it running/],
  ] as const) {
    const ended = await migrate(from, to);
    refused(ended, code, why);
    assert.doesNotMatch(ended.text, /--store|secret-word/);
  }
  await inUse(from);
});

test("data of a newer version is no missing data", async () => {
  const database = await postgres.database();
  assert.equal((await migrate(copied(), database)).code, 0);
  const name = new URL(database).pathname.slice(1);
  await postgres.sql("UPDATE holdfast.schema_version SET version = 99", [], name);
  const prefix = etcd.url();
  assert.equal((await migrate(copied(), prefix)).code, 0);
  etcd.ctl("put", `${prefixOf(prefix)}m`, '{"format":99}');
  refused(await migrate(database, newFile()), 5, /made by a newer Holdfast/);
  refused(await migrate(prefix, newFile()), 5, /the data in etcd 127.* has format 99.*: use a newer one/);
});

test("what it says at the end is in words, and for the store that it is", async () => {
  const told = async (to: string): Promise<string> => {
    const ended = await holdfast(["migrate", "--from", copied(), "--to", to]);
    assert.equal(ended.code, 0, ended.text);
    assert.match(ended.stdout, /^ {2}names, held or remembered: +3$/m);
    assert.doesNotMatch(ended.stdout, /anchors|token-name|floor|^ +\d+ {2}lock$/m);
    return ended.stdout;
  };
  assert.doesNotMatch(await told(newFile()), /on each server/);
  assert.match(await told(etcd.url()), /on each server/);
});

test("a source without data is left without", async () => {
  const [database, prefix] = [await postgres.database(), etcd.url()];
  for (const from of [database, prefix])
    refused(await migrate(from, newFile()), 3, /there is no data of Holdfast/);
  const name = new URL(database).pathname.slice(1);
  const [found] = await postgres.sql("SELECT to_regnamespace('holdfast')::text AS schema", [], name);
  assert.equal(found?.["schema"], null);
  assert.equal(etcd.ctl("get", "--prefix", "--keys-only", prefixOf(prefix)).trim(), "");
});

test("a target that is not empty", async () => {
  for (const to of [newFile(), await postgres.database(), etcd.url()]) {
    const server = await start(to);
    await acquire(server, "there", { ttl_seconds: 60 });
    await server.stop();
    const from = copied();
    refused(await migrate(from, to), 4, /is not empty: name an empty place\. Nothing was changed/);
    await inUse(from);
  }
});

test("a file that a server has, and a backup", async () => {
  const from = copied();
  const server = await start(from);
  const inUseNow = await migrate(from, newFile());
  refused(
    inUseNow,
    5,
    /is in use by another Holdfast process .*: stop that process first, or name another file/,
  );
  assert.doesNotMatch(inUseNow.text, /--data/);
  refused(await migrate(copied(), from), 5, /is in use by another Holdfast process/);
  const backup = join(temporaryDir("holdfast-migrate-"), "backup.db");
  const env = { HOLDFAST_TOKEN: adminToken };
  assert.equal((await holdfast(["backup", backup, "--server", server.url], { env })).code, 0);
  await server.stop();
  refused(await migrate(`sqlite:${backup}`, newFile()), 5, /is a backup that was not restored/);
});

test("a database with a server on it, and one whose server was killed", async () => {
  for (const to of [await postgres.database(), etcd.url()]) {
    const from = copied();
    const server = await start(to);
    refused(await migrate(from, to), 4, /a server is running on .*: stop it first/);
    server.kill("SIGKILL");
    await server.exited;
    const { code, text } = await migrate(from, to);
    assert.equal(code, 0, text);
    await inUse(to);
  }
});

test("a database in which a server commits at the very moment keeps what it was told, and is not taken", async () => {
  const place = await postgres.database();
  const target = await openTarget(place);
  const server = new Client({ connectionString: place });
  await server.connect();
  // As a commit does it, after the migration has looked and before it closes the place.
  await server.query("BEGIN");
  await server.query("SELECT pg_advisory_xact_lock(hashtext('holdfast'), 1)");
  await server.query("INSERT INTO holdfast.records (key, record, rev) VALUES ('floor/x', '{}', 2)");
  const begun = target.begin("to be refused");
  let isOver = false;
  begun
    .catch(() => undefined)
    .finally(() => {
      isOver = true;
    });
  const waits =
    "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
  for (const end = performance.now() + 10_000; (await server.query(waits)).rowCount === 0; await delay(10)) {
    assert.ok(!isOver, "it began, or was refused, without waiting for the commit");
    assert.ok(performance.now() < end, "it does not wait for the commit, and does not end");
  }
  await server.query("COMMIT");
  await assert.rejects(begun, /another migration into .*, or it was changed/);
  const { rows } = await server.query(
    "SELECT moved, (SELECT count(*) FROM holdfast.records) FROM holdfast.state",
  );
  assert.deepEqual(rows, [{ moved: null, count: "1" }]);
  await server.end();
  await target.close();
});

test("a server that starts on etcd after a migration has looked keeps what it grants, or grants nothing", async () => {
  const [taken, closed] = [etcd.url(), etcd.url()];
  const [refusing, closing] = [await openTarget(taken), await openTarget(closed)];
  for (const target of [refusing, closing])
    assert.deepEqual(await target.look(), { closed: null, origin: null, occupant: null, isServed: false });
  const [first, second] = [await start(taken), await start(closed)];
  const { fencing_token: token } = await acquire(first, "one", { ttl_seconds: 3600 });
  await assert.rejects(refusing.begin("to be refused"), /another migration into .*, or it was changed/);
  const { status, body } = await call(first, "GET", "/locks/one", { token: worker });
  assert.deepEqual([status, body["fencing_token"]], [200, token]);
  assert.equal((await acquire(first, "two", { ttl_seconds: 60 })).name, "two", "it goes on as before");
  // What servers write by themselves is in nobody's way, and does not stay.
  await closing.begin("migration 00000000 of nothing");
  const refused = await call(second, "POST", "/locks/one/acquire", {
    token: worker,
    body: { ttl_seconds: 60 },
  });
  assert.equal(refused.status, 503, JSON.stringify(refused.body));
  for (const part of ["r/", "i/"])
    assert.equal(etcd.ctl("get", "--prefix", "--keys-only", prefixOf(closed) + part).trim(), "");
  await first.stop();
  second.kill("SIGKILL");
  await second.exited;
  for (const target of [refusing, closing]) await target.close();
});

test("of a commit on etcd and a migration that begins in the same moment one is told that it was done", async (t) => {
  const word = "migration 00000000 of nothing";
  const told = { begun: 0, committed: 0 };
  for (let i = 0; i < 24; i++) {
    const place = etcd.url();
    const [target, store] = [await openTarget(place), await openStore(place)];
    const begin = async (): Promise<void> => {
      // Sometimes the one is first, sometimes the other.
      for (let turns = i % 8; turns > 0; turns--) await setImmediate();
      await target.begin(word);
    };
    const [begun, committed] = await Promise.allSettled([begin(), bump(store, "a")]);
    assert.notEqual(begun.status, committed.status, inspect([begun, committed]));
    const hasCommitted = committed.status === "fulfilled";
    told[hasCommitted ? "committed" : "begun"]++;
    const { moved } = JSON.parse(etcd.ctl("get", "--print-value-only", `${prefixOf(place)}m`));
    const locks = etcd.ctl("get", "--prefix", "--keys-only", `${prefixOf(place)}r/lock/`).trim();
    assert.deepEqual([moved, locks !== ""], hasCommitted ? [null, true] : [word, false]);
    await store.close();
    await target.close();
  }
  t.diagnostic(JSON.stringify(told));
});

test("a place where another migration is under way, and data that has gone elsewhere", async () => {
  for (const to of [newFile(), await postgres.database(), etcd.url()]) {
    const from = copied();
    const { isReached } = await killedAt(from, to, steps[2]);
    assert.ok(isReached);
    const started = await holdfast(["serve", "--store", to, "--port", "0"], {
      cwd: temporaryDir("holdfast-migrate-"),
    });
    refused(
      started,
      5,
      /is not complete: a migration into it has not ended; run the same holdfast migrate again/,
    );
    refused(await migrate(to, newFile()), 5, /is not complete/);
    const stranger = newFile();
    copyFileSync(await strangerData(), stranger.slice("sqlite:".length));
    refused(await migrate(stranger, to), 4, /holds part of other data, from a migration that has not ended/);
    assert.equal((await migrate(from, to)).code, 0);
    refused(await migrate(from, newFile()), 4, /was moved to .* before, and .* is not where that was begun/);
    const back = await migrate(to, from);
    refused(back, 5, /was moved to .*: point servers there/);
    await inUse(to);
  }
});

/** Data of its own, not a copy of what all others begin with. */
async function strangerData(): Promise<string> {
  const server = await startServer();
  await server.stop();
  return join(server.dataDir, "holdfast.db");
}

test("what else opens a sealed file", async () => {
  const from = copied();
  assert.equal((await migrate(from, newFile())).code, 0);
  const dir = from.slice("sqlite:".length, -"/holdfast.db".length);
  for (const words of [
    ["token", "list"],
    ["backup", join(dir, "copy.db")],
  ])
    refused(await holdfast([...words, "--data", dir]), 5, /was moved to .*: point servers there/);
});

test("of two migrations to two places one moves the data", async () => {
  const from = await postgres.database();
  assert.equal((await migrate(copied(), from)).code, 0);
  const places = [await postgres.database(), etcd.url()];
  const ended = await Promise.all(places.map((to) => migrate(from, to)));
  assert.deepEqual(ended.map(({ code }) => code).sort(), [0, 4], ended.map(({ text }) => text).join("\n"));
  for (const [i, to] of places.entries())
    if (ended[i]?.code === 0) await inUse(to);
    else assert.deepEqual(await everything(to), [], "nothing was put there");
});

test("the same migration twice at once, and killed at any moment, ends in the same place", async (t) => {
  const seedNumber = Number(process.env["MIGRATE_SEED"] ?? Math.floor(Math.random() * 2 ** 31));
  t.diagnostic(`MIGRATE_SEED=${seedNumber}`);
  let state = seedNumber;
  const random = (): number => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
    return state / 0x7fffffff;
  };
  const from = await postgres.database();
  assert.equal((await migrate(copied(), from)).code, 0);
  const to = etcd.url();
  for (let i = 0; i < 10; i++) await killedAfter(from, to, 100 + random() * 500);
  const ended = await Promise.all([migrate(from, to), migrate(from, to)]);
  for (const { code, text } of ended)
    assert.ok(code === 0 || /another migration into .* has ended/.test(text), text);
  assert.ok(ended.some(({ code }) => code === 0));
  assert.deepEqual(await everything(to), await everything(from));
  await inUse(to);
});
