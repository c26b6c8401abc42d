// Sessions: one keepalive for many leases, which are over in the moment their session is. Bound leases, the earlier
// of two ends, foreign and expired sessions, and what others are told.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { lapsedMs } from "./engines/store-of.js";
import { type Body, call, fresh, ok, refused, waitersOn } from "./http-api.js";
import { told, watch } from "./http-stream.js";
import { type Server, startServer } from "./server.js";

const one = "secret-a";
const two = "secret-b";
const viewer = "secret-v";
let server: Server;

before(async () => {
  server = await startServer();
});
after(() => server.stop());

const start = (body: object = {}, token = one): Promise<Body> => ok(server, "createSession", { token, body });
const acquire = (name: string, body: object, token = one): Promise<Body> =>
  ok(server, "acquireLock", { token, name, body });
const look = (name: string): Promise<Body> => ok(server, "getLock", { token: viewer, name });

describe("a session", () => {
  test("begins with 60 s, or what is asked", async () => {
    const plain = await call(server, "createSession", { token: one });
    assert.deepEqual([plain.status, plain.body.expires_in_ms], [201, 60_000]);
    assert.equal(plain.body.keepalive_interval_secs, 20);
    const { session_id } = await start({ ttl_seconds: 3600, metadata: "host=a" });
    const seen = await ok(server, "getSession", { token: one, name: session_id });
    assert.deepEqual(
      [seen.session_id, seen.principal, seen.lock_count, seen.active],
      [session_id, "runner-1", 0, true],
    );
  });

  for (const ttl_seconds of [0, 4, 3601, 5.5, "60", -1, null])
    test(`of ${JSON.stringify(ttl_seconds)} s is refused`, async () => {
      await refused(server, "createSession", { token: one, body: { ttl_seconds } }, 400, "invalid_ttl");
    });

  test("is unknown to others", async () => {
    const { session_id } = await start();
    for (const id of ["keepaliveSession", "getSession", "deleteSession"] as const) {
      await refused(server, id, { token: two, name: session_id }, 404, "not_found");
      await refused(server, id, { token: one, name: "ss_unknown" }, 404, "not_found");
      await refused(server, id, { token: one, name: `${session_id}\u0000` }, 404, "not_found");
    }
    const bound = { session_id };
    await refused(server, "acquireLock", { token: two, name: fresh("lock"), body: bound }, 404, "not_found");
    await refused(server, "claimJob", { token: two, name: fresh("lock"), body: bound }, 404, "not_found");
    const among = { candidates: [fresh("lock")], session_id: "ss_unknown" };
    await refused(server, "claimAnyJob", { token: one, body: among }, 404, "not_found");
    assert.equal((await ok(server, "getSession", { token: one, name: session_id })).active, true);
  });
});

describe("a bound lease", () => {
  test("lives as long as the session, and one keepalive prolongs them all", async () => {
    const { session_id, expires_at } = await start({ ttl_seconds: 5 });
    const names = [fresh("bound"), fresh("bound"), fresh("bound")];
    const leases = await Promise.all(names.map((name) => acquire(name, { session_id })));
    for (const lease of leases) assert.equal(lease.expires_at, expires_at);
    await delay(1000);
    const alive = await ok(server, "keepaliveSession", { token: one, name: session_id });
    assert.deepEqual([alive.session_id, alive.leases, alive.expires_in_ms], [session_id, 3, 5000]);
    for (const name of names) assert.equal((await look(name)).expires_at, alive.expires_at);
    const name = names[0] ?? "";
    const renewed = await ok(server, "renewLock", {
      token: one,
      name,
      body: { lease_id: leases[0]?.lease_id },
    });
    assert.equal(renewed.expires_at, alive.expires_at, "a renew answers the session's end");
    assert.equal((await ok(server, "getSession", { token: one, name: session_id })).lock_count, 3);
    await ok(server, "releaseLock", { token: one, name, body: { lease_id: leases[0]?.lease_id } });
    assert.equal((await ok(server, "keepaliveSession", { token: one, name: session_id })).leases, 2);
    const listed = await ok(server, "listLocks", { token: viewer, query: { prefix: names[1] ?? "" } });
    assert.ok(listed.locks[0] !== undefined && listed.locks[0].expires_in_ms > 4000);
  });

  test("with a TTL of its own ends at the earlier of the two", async () => {
    const { session_id, expires_at } = await start({ ttl_seconds: 30 });
    const short = await acquire(fresh("bound"), { session_id, ttl_seconds: 10 });
    assert.deepEqual([short.expires_in_ms, short.renew_after_ms], [10_000, 3333]);
    const long = await acquire(fresh("bound"), { session_id, ttl_seconds: 100 });
    assert.equal(long.expires_at, expires_at);
    const job = await ok(server, "claimJob", { token: one, name: fresh("bound"), body: { session_id } });
    assert.equal(job.expires_at, expires_at);
    const among = { candidates: [fresh("bound")], session_id, ttl_seconds: 7 };
    assert.equal((await ok(server, "claimAnyJob", { token: one, body: among })).expires_in_ms, 7000);
    assert.equal((await ok(server, "getSession", { token: one, name: session_id })).lock_count, 4);
  });

  test("shows a short hash of the session, never its id", async () => {
    const { session_id } = await start();
    const name = fresh("bound");
    await acquire(name, { session_id, ephemeral: true });
    const { text, body } = await call(server, "getLock", { token: viewer, name });
    assert.match(body.holder?.session ?? "", /^[0-9a-f]{8,16}$/);
    assert.ok(!text.includes(session_id));
    const held = await call(server, "acquireLock", { token: two, name, body: {} });
    assert.equal(held.body.holder?.session, body.holder?.session);
    assert.ok(!held.text.includes(session_id));
  });

  test("comes back to the same session, not to another of the same principal", async () => {
    const [mine, other] = [await start(), await start()];
    const name = fresh("bound");
    const lease = await acquire(name, { session_id: mine.session_id });
    const again = await acquire(name, { session_id: mine.session_id });
    assert.deepEqual([again.status, again.lease_id], ["acquired", lease.lease_id]);
    assert.equal((await acquire(name, { session_id: other.session_id })).status, "held");
    assert.equal((await acquire(name, {})).status, "held");
    assert.equal((await ok(server, "getSession", { token: one, name: mine.session_id })).lock_count, 1);
  });

  test("paths of one session do not stand in each other's way", async () => {
    const { session_id } = await start();
    const dir = fresh("path:session");
    await acquire(`${dir}/src`, { session_id });
    assert.equal((await acquire(`${dir}/src/a.ts`, { session_id })).status, "acquired");
    assert.equal((await acquire(dir, { session_id })).status, "acquired");
    assert.equal((await acquire(`${dir}/docs`, {})).status, "held");
  });
});

describe("the end of a session", { concurrency: true }, () => {
  test("delete frees its leases at once, each with one released event, and wakes waiters", async () => {
    const { session_id } = await start({ ttl_seconds: 60 });
    const stem = fresh("ending");
    const names = Array.from({ length: 150 }, (_, i) => `${stem}/${String(i).padStart(3, "0")}`);
    for (let i = 0; i < names.length; i += 50)
      await Promise.all(names.slice(i, i + 50).map((name) => acquire(name, { session_id })));
    const stream = await watch(server, `/watch?prefix=${stem}`, { token: viewer });
    assert.equal((await stream.synced()).length, 150);
    const waiting = acquire(names[7] ?? "", { wait_seconds: 20 }, two);
    await waitersOn(server, viewer, names[7] ?? "", 1);
    const { status, text } = await call(server, "deleteSession", { token: one, name: session_id });
    assert.deepEqual([status, text], [204, ""]);
    assert.equal((await ok(server, "listLocks", { token: viewer, query: { prefix: stem } })).total, 1);
    assert.equal((await waiting).status, "acquired");
    const events = told(await stream.take(151));
    stream.close();
    assert.deepEqual(
      events.filter((event) => event.startsWith("released")).toSorted(),
      names.map((name) => `released ${name} 1`),
    );
    assert.deepEqual(
      events.filter((event) => !event.startsWith("released")),
      [`acquired ${names[7]} 2`],
    );
    const view = await look(names[8] ?? "");
    assert.deepEqual(
      [view.status, view.previous.how, view.previous.principal],
      ["free", "session", "runner-1"],
    );
  });

  test("afterwards it is expired: 410 for all that would use it", async () => {
    const { session_id } = await start();
    const { lease_id } = await acquire(fresh("bound"), { session_id });
    await ok(server, "deleteSession", { token: one, name: session_id });
    await refused(server, "keepaliveSession", { token: one, name: session_id }, 410, "session_expired");
    await refused(
      server,
      "acquireLock",
      { token: one, name: fresh("bound"), body: { session_id } },
      410,
      "session_expired",
    );
    await refused(
      server,
      "claimJob",
      { token: one, name: fresh("bound"), body: { session_id } },
      410,
      "session_expired",
    );
    const among = { candidates: [fresh("bound")], session_id };
    await refused(server, "claimAnyJob", { token: one, body: among }, 410, "session_expired");
    await refused(server, "deleteSession", { token: two, name: session_id }, 404, "not_found");
    await ok(server, "deleteSession", { token: one, name: session_id });
    const seen = await ok(server, "getSession", { token: one, name: session_id });
    assert.deepEqual([seen.active, seen.lock_count], [false, 0]);
    assert.ok(lease_id !== "");
  });

  test("by time: its leases expire with it, each with one expired event, and waiters get them within a second", async () => {
    const { session_id } = await start({ ttl_seconds: 5 });
    const [a, b] = [fresh("expiring"), fresh("expiring")];
    const lease = await acquire(a, { session_id });
    await acquire(b, { session_id, ttl_seconds: 100 });
    const stream = await watch(server, `/watch?prefix=expiring-`, { token: viewer });
    await stream.synced();
    const waiting = acquire(a, { wait_seconds: 20 }, two);
    const next = await waiting;
    const lateMs = Date.now() - Date.parse(lease.expires_at);
    assert.ok(
      next.status === "acquired" && lateMs >= -50 && lateMs < 1000 + lapsedMs(0),
      `${next.status}, ${lateMs} ms late`,
    );
    const events = told(await stream.take(3)).toSorted();
    stream.close();
    assert.deepEqual(events, [`acquired ${a} 2`, `expired ${a} 1`, `expired ${b} 1`]);
    assert.equal((await look(b)).previous.how, "session");
    await refused(server, "keepaliveSession", { token: one, name: session_id }, 410, "session_expired");
    await refused(
      server,
      "renewLock",
      { token: one, name: a, body: { lease_id: lease.lease_id } },
      400,
      "lease_not_current",
    );
  });

  test("a waiter whose session ends is told so when its turn comes", async () => {
    const name = fresh("bound");
    const { lease_id } = await acquire(name, {}, two);
    const { session_id } = await start();
    const waiting = call(server, "acquireLock", { token: one, name, body: { session_id, wait_seconds: 20 } });
    await waitersOn(server, viewer, name, 1);
    await ok(server, "deleteSession", { token: one, name: session_id });
    await ok(server, "releaseLock", { token: two, name, body: { lease_id } });
    const { status, body } = await waiting;
    assert.deepEqual([status, body.code], [410, "session_expired"]);
    assert.equal((await look(name)).status, "free");
  });
});
