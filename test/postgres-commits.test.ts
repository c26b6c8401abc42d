// What a commit on PostgreSQL must see and must not do, and how its events get to others.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { Client } from "pg";
import { lockKey } from "../src/core/keys.js";
import type { PostgresData } from "../src/engines/postgres/data.js";
import { openData, openPostgres } from "../src/engines/postgres/open.js";
import type { Commit } from "../src/store/shared-data.js";
import type { Change } from "../src/store/store.js";
import { Postgres, password } from "./postgres-lab.js";
import { bump, follow, held, space, take, tokenOf, told, until } from "./store-lab.js";

let server: Postgres;
let url: string;
let schemas = 0;

before(async () => {
  server = await Postgres.start();
  url = await server.database();
});
after(() => server.stop());

const fresh = (): string => `${url}?schema=c${++schemas}`;
const schemaOf = (place: string): string => new URL(place).searchParams.get("schema") ?? "";

/** A connection of the test's own, to hold locks with. */
async function session(): Promise<Client> {
  const client = new Client({ connectionString: url, password });
  await client.connect();
  return client;
}

const putting = (name: string, token: number, changes: Partial<Commit>): Commit => ({
  revision: 0,
  clock: 0,
  versions: new Map(),
  guarded: [],
  writes: [
    {
      key: lockKey(space, name),
      record: held(name, token),
      drop: [],
      add: [{ index: "held", sort: `${space}/${name}` }],
    },
  ],
  events: [],
  ...changes,
});

/** Resolves when somebody waits for the lock that puts commits in order. */
const isQueued = async (schema: string, many = 1): Promise<void> => {
  for (;;) {
    const rows = await server.sql(
      "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND classid::bigint = (hashtext($1)::bigint & 4294967295)",
      [schema],
    );
    if (rows.length >= many) return;
    await delay(5);
  }
};

describe("a commit that waited for another", () => {
  const cases: [string, (data: PostgresData) => Promise<Partial<Commit>>][] = [
    ["a record that it relied on", async () => ({ versions: new Map([[lockKey(space, "a"), 0]]) })],
    [
      "a range that it relied on",
      async () => ({
        guarded: [{ index: "held" as const, from: `${space}/`, to: `${space}/\x7f`, rows: [] }],
      }),
    ],
  ];
  for (const [what, relied] of cases)
    test(`sees that the other changed ${what}`, async () => {
      const place = fresh();
      const schema = schemaOf(place);
      const [one, two] = [await openData(place), await openData(place)];
      const gate = await session();
      await one.read([]);
      await two.read([]);
      await gate.query("BEGIN");
      await gate.query("SELECT pg_advisory_xact_lock(hashtext($1), 1)", [schema]);
      // Both began, and took their first snapshot, before either has written anything.
      const first = one.commit(putting("a", 1, {}));
      await isQueued(schema, 1);
      const second = two.commit(putting("b", 1, await relied(two)));
      await isQueued(schema, 2);
      await gate.query("COMMIT");
      assert.deepEqual(await Promise.all([first, second]), ["done", "changed"]);
      const { records } = await two.read([lockKey(space, "b")]);
      assert.equal(records.get(lockKey(space, "b"))?.version, 0, "nothing of it was written");
      for (const closing of [one, two]) await closing.close();
      await gate.end();
    });

  test("gives up for certain before its deadline", async () => {
    const place = fresh();
    const store = await openPostgres(place);
    const gate = await session();
    await gate.query("BEGIN");
    await gate.query("SELECT pg_advisory_xact_lock(hashtext($1), 1)", [schemaOf(place)]);
    const began = performance.now();
    await assert.rejects(bump(store, "a"), /was busy with other commits for too long/);
    assert.ok(performance.now() - began < 5000);
    await gate.query("COMMIT");
    assert.equal(await bump(store, "a"), 1);
    await store.close();
    await gate.end();
  });
});

test("a lost race writes nothing at all, so that it costs no sync", async () => {
  const place = fresh();
  const data = await openData(place);
  const lsn = async (): Promise<unknown> =>
    (await server.sql("SELECT pg_current_wal_insert_lsn()::text AS at"))[0]?.at;
  await server.sql("CHECKPOINT");
  const before = await lsn();
  const end = await data.commit(putting("a", 1, { versions: new Map([[lockKey(space, "a"), 7]]) }));
  assert.equal(end, "changed");
  assert.equal(await lsn(), before);
  await data.close();
});

describe("the feed", () => {
  test("has no gaps and one order, whoever commits", async () => {
    const place = fresh();
    const [one, two] = [await openPostgres(place), await openPostgres(place)];
    const stores = [one, two];
    const over = new AbortController();
    const followers = stores.map((store) => follow(store, undefined, over.signal));
    const count = 300;
    const done = Promise.all(Array.from({ length: count }, (_, i) => bump(i % 2 ? one : two, `n-${i % 7}`)));
    const seen = await Promise.all(followers.map((changes) => take(changes, count)));
    await done;
    const numbers = (seen[0] ?? []).map(({ cursor }) => Number(cursor.split("-")[1]));
    assert.deepEqual(
      numbers,
      numbers.map((_, i) => i + 1),
    );
    assert.deepEqual(seen[0], seen[1]);
    over.abort();
    for (const store of stores) await store.close();
  });

  test("wakes a follower on another server soon, by few calls", async () => {
    const place = fresh();
    const [one, two] = [await openPostgres(place), await openPostgres(place)];
    await until(async () => (await two.gauges()).listening === 1, 5000);
    const over = new AbortController();
    const changes = follow(two, undefined, over.signal);
    const waits: number[] = [];
    for (let i = 0; i < 20; i++) {
      const next = changes.next();
      await delay(30);
      const began = performance.now();
      await bump(one, "a");
      await next;
      waits.push(performance.now() - began);
    }
    const [median = 0] = waits.toSorted((a, b) => a - b).slice(10);
    assert.ok(median < 150, `woken after ${waits.map(Math.round)} ms; polling would take up to 1000`);
    const began = performance.now();
    const before = (await one.gauges()).notifies_total ?? 0;
    for (let i = 0; i < 300; i++) await bump(one, "b");
    const calls = ((await one.gauges()).notifies_total ?? 0) - before;
    assert.ok(calls <= (performance.now() - began) / 25 + 2, `${calls} calls`);
    over.abort();
    await one.close();
    await two.close();
  });

  test("goes on after the connection that listens was cut, without a gap", async () => {
    const place = fresh();
    const [one, two] = [await openPostgres(place), await openPostgres(place)];
    await until(async () => (await two.gauges()).listening === 1, 5000);
    const over = new AbortController();
    const changes = follow(two, undefined, over.signal);
    await bump(one, "a");
    await take(changes, 1);
    const cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'";
    await server.sql(cut);
    for (let i = 2; i <= 20; i++) await bump(one, "a");
    const rest = (await take(changes, 19)).map((change) => told(change as Change));
    assert.equal(new Set(rest).size, 19);
    await until(async () => (await two.gauges()).listening === 1, 10_000);
    over.abort();
    await one.close();
    await two.close();
  });

  test("is trimmed from its old end, and says so", async () => {
    const place = fresh();
    const data = await openData(place);
    const store = await openPostgres(place);
    const start = await store.head();
    for (let i = 0; i < 30; i++) await bump(store, "a");
    const { rows } = await data.pool.query(`SELECT ${schemaOf(place)}.trim_feed(10, 3600000, 15)`);
    assert.equal(rows[0]?.[0], "15", "in small steps");
    await data.pool.query(`SELECT ${schemaOf(place)}.trim_feed(10, 3600000, 15)`);
    assert.equal(await data.events(19, 100), null);
    assert.deepEqual(
      (await data.events(20, 100))?.map(({ number }) => number),
      Array.from({ length: 10 }, (_, i) => i + 21),
    );
    assert.equal((await data.events(22, 3))?.length, 3);
    const behind = await openPostgres(place);
    const [first] = await take(follow(behind, start, AbortSignal.timeout(5000)), 1);
    assert.ok(first !== undefined && "reset" in first);
    for (const closing of [store, behind, data]) await closing.close();
  });
});

test("a commit that was told not to wait for its standby is not called done", async () => {
  const own = await Postgres.start();
  try {
    const place = await own.database();
    const store = await openPostgres(place);
    await own.sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    await own.sql("SELECT pg_reload_conf()");
    await until(
      async () =>
        (await own.sql("SHOW synchronous_standby_names"))[0]?.synchronous_standby_names === "nobody",
    );
    const pending = assert.rejects(bump(store, "a"), /did not say whether it took the change/);
    for (let cancelled = 0; cancelled === 0; await delay(10))
      cancelled = (
        await own.sql("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
      ).length;
    await pending;
    assert.equal(await tokenOf(store, "a"), 1, "it was done, here");
    await store.close();
  } finally {
    await own.stop();
  }
});
