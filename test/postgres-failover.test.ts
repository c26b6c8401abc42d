// A standby takes over. With a synchronous one nothing that was answered is lost; with any other, what was lost never comes again
// as something else: tokens rise above it, and followers of the feed are told. An old primary that comes back is refused.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { decideAcquire } from "../src/core/acquire.js";
import { acquireKeys } from "../src/core/heirs.js";
import { copyJump, policyDefault } from "../src/core/limits.js";
import { openPostgres } from "../src/engines/postgres/open.js";
import type { Store } from "../src/store/store.js";
import { isStoreError } from "./conformance.js";
import { Postgres, postgresBin } from "./postgres-lab.js";
import { Ledger } from "./postgres-ledger.js";
import { bump, claim, follow, take, until } from "./store-lab.js";
import { TcpSwitch } from "./tcp-switch.js";

/** A grant as callers get one; returns its token. */
async function grant(store: Store, name: string, inSpace = "default"): Promise<number> {
  const wanted = claim(name, { space: inSpace });
  const { outcome } = await store.transact(acquireKeys(wanted), (view) =>
    decideAcquire(view, wanted, policyDefault),
  );
  return "granted" in outcome ? outcome.granted.lock.token : assert.fail(JSON.stringify(outcome));
}

async function settled<Result>(
  attempt: () => Promise<Result>,
  isFinal: (error: unknown) => boolean = () => false,
): Promise<Result> {
  for (const end = performance.now() + 20_000; ; await delay(20))
    try {
      return await attempt();
    } catch (error) {
      if (isFinal(error) || performance.now() > end) throw error;
    }
}

test("a synchronous standby that takes over under load has everything, and tokens rise", async (t) => {
  const primary = await Postgres.start();
  const standby = await Postgres.start({ follows: primary });
  const port = await TcpSwitch.start(primary.port);
  try {
    await primary.database();
    await primary.sql("ALTER SYSTEM SET synchronous_standby_names = 'standby'");
    await primary.sql("SELECT pg_reload_conf()");
    await until(
      async () =>
        (await primary.sql("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'")).length === 1,
    );
    const place = primary.url("test_1", port.port);
    const [one, two] = [await openPostgres(place), await openPostgres(place)];
    const stores = [one, two];
    const before = await grant(one, "deploy");
    const ledger = new Ledger();
    ledger.start(stores, 8);
    await ledger.untilDone(20_000);
    await primary.stop("SIGQUIT");
    await standby.sql("SELECT pg_promote()");
    port.turnTo(standby.port);
    const awayMs = await ledger.untilDone(20_000);
    t.diagnostic(`back after ${Math.round(awayMs)} ms; ${JSON.stringify(ledger.counts)}`);
    const token = await settled(() => grant(two, "other"));
    assert.ok(token > before + copyJump, `${token} after ${before}`);
    // Somebody starts the old one again, and a name still leads there.
    await primary.launch();
    await ledger.stop();
    await ledger.check(one);
    port.turnTo(primary.port);
    await assert.rejects(bump(one, "a"), /is an old primary: another has taken over/);
    await assert.rejects(one.ping(), /is an old primary/);
    port.turnTo(standby.port);
    await settled(() => bump(one, "a"));
    for (const store of stores) await store.close();
  } finally {
    port.close();
    await primary.stop();
    await standby.stop();
  }
});

test("what a failover lost never comes again: no token, no version, no place in the feed", async () => {
  const primary = await Postgres.start();
  const cable = await TcpSwitch.start(primary.port);
  const standby = await Postgres.start({ follows: primary, followsAt: cable.port });
  const port = await TcpSwitch.start(primary.port);
  try {
    await primary.database();
    const place = primary.url("test_1", port.port);
    const warnings: string[][] = [[], []];
    const opened = (i: number) => openPostgres(place, { onWarning: (what) => warnings[i]?.push(what) });
    const [one, two] = [await opened(0), await opened(1)];
    const first = await grant(one, "deploy");
    await grant(one, "in-another", "team-b");
    await until(
      async () =>
        (await primary.sql("SELECT 1 FROM pg_stat_replication WHERE replay_lsn = pg_current_wal_flush_lsn()"))
          .length === 1,
    );
    cable.turnTo(1);
    const over = new AbortController();
    const follower = follow(two, await two.head(), over.signal);
    const lost = [];
    for (let i = 0; i < 30; i++) lost.push(await grant(one, `lost-${i}`), await bump(one, "counter"));
    const high = Math.max(first, ...lost);
    const end = await two.head();
    while ((await take(follower, 1))[0]?.cursor !== end);
    const told = follower.next();
    await primary.stop("SIGQUIT");
    await standby.sql("SELECT pg_promote()");
    port.turnTo(standby.port);
    const again = await settled(() => grant(one, "lost-7"));
    assert.ok(again > high && again > copyJump, `${again} after ${high}`);
    assert.ok(
      (await settled(() => grant(two, "new", "never-seen"))) > high,
      "also in a space that nobody knew of",
    );
    assert.ok((await settled(() => grant(two, "new", "team-b"))) > high);
    const { value } = await told;
    assert.ok("reset" in value, "a follower is told that it may have missed something");
    await grant(one, "after");
    assert.ok("event" in ((await take(follower, 1))[0] ?? {}), "and goes on from there");
    const [resumed] = await take(follow(one, end, over.signal), 1);
    assert.ok(
      resumed !== undefined && "reset" in resumed,
      "and so is who resumes from a place that was lost",
    );
    assert.equal((await one.gauges()).failovers_total ?? 0, 1 - ((await two.gauges()).failovers_total ?? 0));
    for (const told of warnings) {
      assert.equal(told.length, 1, told.join());
      assert.match(
        told[0] ?? "",
        /is not the one that the data was written in .* Fencing tokens go on above/,
      );
    }
    over.abort();
    await one.close();
    await two.close();
  } finally {
    port.close();
    cable.close();
    await primary.stop();
    await standby.stop();
  }
});

test("of two standbys that take over one after the other from the same primary the second begins above all that the first gave", async () => {
  const primary = await Postgres.start();
  const standbys = [await Postgres.start({ follows: primary }), await Postgres.start({ follows: primary })];
  try {
    await primary.database();
    const store = await openPostgres(primary.url("test_1"));
    await grant(store, "a");
    await until(
      async () =>
        (await primary.sql("SELECT 1 FROM pg_stat_replication WHERE replay_lsn = pg_current_wal_flush_lsn()"))
          .length === 2,
    );
    await store.close();
    await primary.stop("SIGQUIT");
    const tokens: number[] = [];
    for (const standby of standbys) {
      await standby.sql("SELECT pg_promote()");
      // A server that knows nothing of the one before.
      const anew = await openPostgres(standby.url("test_1"));
      for (let i = 0; i < 20; i++) tokens.push(await grant(anew, `job-${i}`));
      await anew.close();
      await standby.stop("SIGQUIT");
    }
    const [first, second] = [tokens.slice(0, 20), tokens.slice(20)];
    assert.ok(Math.min(...second) > Math.max(...first), `${first} and then ${second}`);
  } finally {
    for (const server of [primary, ...standbys]) await server.stop();
  }
});

/** A dump of the database in plain SQL, and what loads one. */
const dump = (server: Postgres, database: string): string =>
  execFileSync(join(postgresBin(), "pg_dump"), ["--dbname", server.url(database)], { encoding: "utf8" });
const load = (server: Postgres, database: string, text: string): Buffer =>
  execFileSync(
    join(postgresBin(), "psql"),
    ["--quiet", "--set=ON_ERROR_STOP=1", "--dbname", server.url(database)],
    { input: text },
  );

test("data that was copied to another database, or loaded again where it was, is not used as if it were the same", async () => {
  const server = await Postgres.start();
  try {
    const place = await server.database();
    const store = await openPostgres(place);
    await bump(store, "a");
    const old = dump(server, "test_1");
    const before = await grant(store, "b");
    await store.close();
    await server.sql("CREATE DATABASE loaded OWNER holdfast");
    load(server, "loaded", old);
    await server.sql("CREATE DATABASE copied OWNER holdfast TEMPLATE test_1");
    await server.sql("DROP SCHEMA holdfast CASCADE", [], "test_1");
    load(server, "test_1", old);
    for (const database of ["loaded", "copied", "test_1"]) {
      const opening = openPostgres(server.url(database));
      await assert.rejects(opening, /was made in another place and copied here/, database);
      await server.sql(
        "UPDATE holdfast.state SET system = h.system, timeline = -1 FROM holdfast.here() h",
        [],
        database,
      );
      const warnings: string[] = [];
      const again = await openPostgres(server.url(database), { onWarning: (what) => warnings.push(what) });
      assert.ok((await grant(again, "b-again")) > before + copyJump, database);
      assert.equal(warnings.length, 1, warnings.join());
      await again.close();
    }
  } finally {
    await server.stop();
  }
});

test("where the settings no longer keep what is promised, a copy is refused for that, not looked at again and again", async () => {
  const server = await Postgres.start();
  try {
    const store = await openPostgres(await server.database());
    const before = await grant(store, "a");
    const setIsolation = async (change: string): Promise<void> => {
      await server.sql(`ALTER ROLE holdfast ${change}`);
      await server.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'holdfast' AND pid <> pg_backend_pid()",
      );
    };
    await server.sql("UPDATE holdfast.state SET timeline = -1", [], "test_1");
    await setIsolation("SET default_transaction_isolation = 'serializable'");
    const told = /settings of the database .* \(default_transaction_isolation\)/;
    // A connection that was ended may be told as that, before there is another one.
    const refused = settled(
      () => grant(store, "a"),
      (error) => error instanceof Error && told.test(error.message),
    );
    await assert.rejects(refused, told);
    await setIsolation("RESET default_transaction_isolation");
    assert.ok((await settled(() => grant(store, "b"))) > before + copyJump);
    await store.close();
  } finally {
    await server.stop();
  }
});

test("nor is it by a server that was running when it was loaded again", async () => {
  const server = await Postgres.start();
  try {
    const store = await openPostgres(await server.database());
    await bump(store, "a");
    const old = dump(server, "test_1");
    await bump(store, "a");
    load(server, "test_1", `BEGIN; DROP SCHEMA holdfast CASCADE; ${old} COMMIT;`);
    await assert.rejects(
      settled(
        () => bump(store, "a"),
        (error) => isStoreError("unsupported")(error),
      ),
      isStoreError("unsupported"),
    );
    await store.close();
  } finally {
    await server.stop();
  }
});

test("a copy of the files that takes the place of what a server has read is noticed, and tokens rise", async () => {
  const server = await Postgres.start();
  try {
    const store = await openPostgres(await server.database());
    await grant(store, "a");
    await server.sql("CREATE TABLE aside AS SELECT * FROM holdfast.state", [], "test_1");
    await server.sql("CREATE TABLE records_aside AS SELECT * FROM holdfast.records", [], "test_1");
    const before = await grant(store, "b");
    // As the files of before would: everything is as it was, in the same tables on the same timeline.
    await server.sql(
      `UPDATE holdfast.state s SET revision = a.revision, last_event = a.last_event, token_high = a.token_high FROM aside a;
       DELETE FROM holdfast.records; INSERT INTO holdfast.records SELECT * FROM records_aside`,
      [],
      "test_1",
    );
    assert.ok((await grant(store, "b")) > before + copyJump);
    await store.close();
  } finally {
    await server.stop();
  }
});

test("a newer copy of the data that takes over after an older one goes on above it", async () => {
  const server = await Postgres.start();
  try {
    const place = await server.database();
    const opened = async (name: string): Promise<number> => {
      const store = await openPostgres(place);
      const token = await grant(store, name);
      await store.close();
      return token;
    };
    await opened("a");
    await server.sql("CREATE TABLE newer AS SELECT * FROM holdfast.state", [], "test_1");
    // As another server's: what it has was written a day ago.
    await server.sql(
      "UPDATE holdfast.state SET timeline = -1; UPDATE holdfast.clock SET value = value - 86400000",
      [],
      "test_1",
    );
    const first = await opened("b");
    const [lost] = await server.sql("SELECT last_event FROM holdfast.state", [], "test_1");
    await server.sql(
      `UPDATE holdfast.state s SET revision = n.revision, last_event = n.last_event, token_high = n.token_high, timeline = -1
         FROM newer n;
       UPDATE holdfast.clock SET value = value + 86400000;
       DELETE FROM holdfast.records`,
      [],
      "test_1",
    );
    const second = await opened("b");
    assert.ok(second > first, `${second} after ${first}`);
    const [now] = await server.sql("SELECT last_event FROM holdfast.state", [], "test_1");
    assert.ok(Number(now?.last_event) > Number(lost?.last_event), "and so do the places in the feed");
  } finally {
    await server.stop();
  }
});
