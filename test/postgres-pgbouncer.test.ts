// The contract of a store through a real PgBouncer in transaction mode, and how servers behind it hear of each other.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { openPostgres } from "../src/engines/postgres/open.js";
import { conformance } from "./conformance.js";
import { Bouncer } from "./postgres-bouncer.js";
import { Postgres } from "./postgres-lab.js";
import { Ledger } from "./postgres-ledger.js";
import { bump, follow, until } from "./store-lab.js";

let server: Postgres;
let bouncer: Bouncer;
let database: string;
let schemas = 0;

before(async () => {
  server = await Postgres.start();
  bouncer = await Bouncer.start(server);
  database = new URL(await server.database()).pathname.slice(1);
});
after(async () => {
  await bouncer.stop();
  await server.stop();
});

const fresh = (): string => `${server.url(database, bouncer.port)}?schema=b${++schemas}`;

conformance("PostgreSQL behind PgBouncer", async () => {
  const place = fresh();
  const [one, two] = [await openPostgres(place), await openPostgres(place)];
  return {
    one,
    two,
    close: async () => {
      await one.close();
      await two.close();
    },
  };
});

async function waitsFor(place: string): Promise<{ median: number; listening: number }> {
  const [one, two] = [await openPostgres(place), await openPostgres(place)];
  await delay(1000);
  const over = new AbortController();
  const changes = follow(two, undefined, over.signal);
  const waits: number[] = [];
  for (let i = 0; i < 11; i++) {
    const next = changes.next();
    await bump(one, "a");
    const began = performance.now();
    await next;
    waits.push(performance.now() - began);
  }
  const listening = (await two.gauges()).listening ?? 0;
  over.abort();
  await one.close();
  await two.close();
  return { median: waits.toSorted((a, b) => a - b)[5] ?? 0, listening };
}

test("without a direct URL nobody listens, and events come within a look", async () => {
  const { median, listening } = await waitsFor(fresh());
  assert.equal(listening, 0);
  assert.ok(median < 450, `after ${median} ms`);
  const left = await server.sql("SELECT 1 FROM pg_stat_activity WHERE query LIKE 'LISTEN%'");
  assert.equal(left.length, 0, "no connection that others use was left listening");
});

test("with ?listen= it hears by that one", async () => {
  const direct = encodeURIComponent(server.url(database));
  const { median, listening } = await waitsFor(`${fresh()}&listen=${direct}`);
  assert.equal(listening, 1);
  assert.ok(median < 150, `after ${median} ms`);
});

test("connections that are cut behind the pooler lose nothing", async (t) => {
  const place = fresh();
  const stores = [await openPostgres(place), await openPostgres(place)];
  const ledger = new Ledger();
  ledger.start(stores, 8);
  await ledger.untilDone(10_000);
  await server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", [database]);
  await ledger.untilDone(10_000);
  await ledger.stop();
  t.diagnostic(JSON.stringify(ledger.counts));
  await until(
    async () =>
      stores[0]?.ping().then(
        () => true,
        () => false,
      ) ?? false,
    10_000,
  );
  await ledger.check(stores[0] ?? assert.fail());
  for (const store of stores) await store.close();
});
