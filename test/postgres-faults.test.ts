// A database that crashes, cuts connections, hangs or is full while two servers work on it: every call ends in time, nothing that
// was answered is lost, nothing that was refused for certain is there, and work goes on by itself.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { openPostgres } from "../src/engines/postgres/open.js";
import type { SharedStore } from "../src/store/shared-store.js";
import { Postgres } from "./postgres-lab.js";
import { Ledger } from "./postgres-ledger.js";
import { adminToken, call, startServer } from "./server.js";
import { until } from "./store-lab.js";
import { logLines } from "./system-client.js";

let server: Postgres;

before(async () => {
  server = await Postgres.start();
});
after(() => server.stop());

async function twoOn(place: string): Promise<SharedStore[]> {
  return [await openPostgres(place), await openPostgres(place)];
}

async function closeAll(stores: readonly SharedStore[]): Promise<void> {
  for (const store of stores) await store.close();
}

test("crashes under load lose nothing, and work goes on within seconds", async (t) => {
  const stores = await twoOn(await server.database());
  const ledger = new Ledger();
  ledger.start(stores, 16);
  for (let i = 0; i < 20; i++) {
    await ledger.untilDone(20_000);
    await server.stop("SIGQUIT");
    await delay(100 * (i % 6));
    await server.launch();
    await ledger.untilDone(10_000);
  }
  await ledger.stop();
  t.diagnostic(JSON.stringify(ledger.counts));
  await ledger.check(stores[0] ?? assert.fail());
  assert.ok(ledger.counts.unavailable > 0);
  await closeAll(stores);
});

test("connections that are cut five times a second lose nothing", async (t) => {
  const place = await server.database();
  const stores = await twoOn(place);
  const ledger = new Ledger();
  ledger.start(stores, 16);
  const name = new URL(place).pathname.slice(1);
  for (let i = 0; i < 25; i++) {
    await delay(200);
    await server.sql(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND pid <> pg_backend_pid() ORDER BY random() LIMIT 2",
      [name],
    );
  }
  await ledger.untilDone(5000);
  await ledger.stop();
  t.diagnostic(JSON.stringify(ledger.counts));
  await ledger.check(stores[1] ?? assert.fail());
  assert.ok(ledger.counts.done > 100);
  const gauges = await (stores[0] ?? assert.fail()).gauges();
  assert.ok((gauges.pool_lost_total ?? 0) > 0);
  await closeAll(stores);
});

test("a database that hangs gets an answer from us in time, and is used again when it wakes", async (t) => {
  const deadlineMs = 1500;
  const stores = await twoOn(`${await server.database()}?deadline_ms=${deadlineMs}`);
  const ledger = new Ledger();
  ledger.start(stores, 8);
  await ledger.untilDone(10_000);
  ledger.slowestMs = 0;
  const stopped = server.signalAll("SIGSTOP");
  const { unavailable, unknown } = ledger.counts;
  await delay(2 * deadlineMs + 500);
  const failed = ledger.counts.unavailable + ledger.counts.unknown - unavailable - unknown;
  server.signalThese(stopped, "SIGCONT");
  await ledger.untilDone(10_000);
  await ledger.stop();
  t.diagnostic(`${failed} answers while it hung; slowest ${Math.round(ledger.slowestMs)} ms`);
  assert.ok(failed >= 8, `${failed} answers while it hung`);
  // A reading that is made anew, and its turn behind another batch.
  assert.ok(ledger.slowestMs < 4 * deadlineMs, `an answer took ${ledger.slowestMs} ms`);
  await ledger.check(stores[0] ?? assert.fail());
  await closeAll(stores);
});

test("over HTTP a database that is away or hangs is 503, and /ready says so", async () => {
  const place = `${await server.database()}?deadline_ms=1500`;
  await using holdfast = await startServer({ args: ["--store", place] });
  const acquire = () =>
    call<{ error?: { code?: string } }>(holdfast, "POST", "/locks/a/acquire", {
      token: adminToken,
      body: { ttl_seconds: 60, request_id: "same" },
    });
  const ready = async (): Promise<number> => (await call(holdfast, "GET", "/ready")).status;
  const back = async (): Promise<void> => {
    const until = performance.now() + 10_000;
    while ((await ready()) !== 200) {
      assert.ok(performance.now() < until, "not ready again within 10 s");
      await delay(50);
    }
  };
  assert.equal((await acquire()).status, 200);
  const stopped = server.signalAll("SIGSTOP");
  const began = performance.now();
  const [hung, state] = await Promise.all([acquire(), ready()]);
  assert.deepEqual([hung.status, state], [503, 503]);
  assert.ok(performance.now() - began < 6000);
  server.signalThese(stopped, "SIGCONT");
  await back();
  const said = () => logLines(holdfast).filter(({ msg }) => /fails|works again/.test(msg));
  await until(() => said().length === 2);
  await server.stop("SIGQUIT");
  const refused = await acquire();
  assert.deepEqual([refused.status, await ready()], [503, 503]);
  assert.match(JSON.stringify(refused.body), /cannot be reached|was stopped/);
  assert.doesNotMatch(JSON.stringify(refused.body), /store's URL/, "callers cannot correct a URL");
  for (const path of ["/ready", "/health"]) {
    const { body } = await call(holdfast, "GET", path);
    assert.equal(body["details"], "The store cannot be used now; the server's log says why.");
  }
  assert.match(holdfast.stderr(), /the store fails: the database postgres:/);
  await server.launch();
  await back();
  await until(() => said().length === 4);
  const [hangs, works, fails, worksAgain] = said().map(({ msg }) => msg);
  assert.match(hangs ?? "", /^the store fails: the database .* no answer within \d+ ms$/);
  assert.match(fails ?? "", /^the store fails: the database \S+ (?!.*no answer)/);
  assert.deepEqual([works, worksAgain], Array(2).fill("the store works again"));
  assert.doesNotMatch(holdfast.stderr(), /"stack"/);
  const again = await acquire();
  assert.equal(again.status, 200, JSON.stringify(again.body));
});
