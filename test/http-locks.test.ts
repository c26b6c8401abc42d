// The rows of the lock table: acquire, renew, extend, release, look, check, force release, and who counts as the
// same caller. Every reply is checked against the route table by the way.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { type Body, call, fresh, lapse, ok, refused, waitersOn } from "./http-api.js";
import { adminToken, type Server, startServer } from "./server.js";

const one = "secret-a"; // runner-1
const two = "secret-b"; // runner-2
const reentrant = "secret-c"; // ci
const viewer = "secret-v";
let server: Server;

before(async () => {
  server = await startServer();
});
after(() => server.stop());

const acquire = (name: string, body: object = {}, token = one): Promise<Body> =>
  ok(server, "acquireLock", { token, name, body });
const look = (name: string): Promise<Body> => ok(server, "getLock", { token: viewer, name });

/** What must not change when a call is refused. */
async function unchanged(name: string, act: () => Promise<unknown>): Promise<void> {
  const { expires_in_ms: _, ...before } = await look(name);
  await act();
  const { expires_in_ms: __, ...after } = await look(name);
  assert.deepEqual(after, before);
}

describe("acquire", () => {
  test("a free name is granted, with all that a client needs", async () => {
    const name = fresh("lock");
    const lease = await acquire(name, { ttl_seconds: 30, metadata: "host=a" });
    assert.equal(lease.status, "acquired");
    assert.equal(lease.name, name);
    assert.equal(lease.fencing_token, 1);
    assert.equal(lease.expires_in_ms, 30_000);
    assert.equal(lease.renew_after_ms, 10_000);
    assert.equal(lease.metadata, "host=a");
    assert.ok(Math.abs(Date.parse(lease.expires_at) - Date.now() - 30_000) < 2000);
  });

  test("without a body or TTL it lasts 60 s", async () => {
    const lease = await ok(server, "acquireLock", { token: one, name: fresh("lock") });
    assert.deepEqual([lease.expires_in_ms, lease.metadata], [60_000, null]);
  });

  test("held is an answer that shows the holder, and never its lease id", async () => {
    const name = fresh("lock");
    const lease = await acquire(name, { ttl_seconds: 30, metadata: "host=a" });
    const { status, body, text } = await call(server, "acquireLock", { token: two, name, body: {} });
    assert.equal(status, 200);
    assert.equal(body.status, "held");
    assert.equal(body.name, name);
    assert.deepEqual(
      [body.holder?.principal, body.holder_id, body.holder?.session],
      ["runner-1", "runner-1", null],
    );
    assert.equal(body.metadata, "host=a");
    assert.equal(body.fencing_token, lease.fencing_token);
    assert.equal(body.expires_at, lease.expires_at);
    assert.equal(body.waiters, 0);
    assert.ok(body.retry_after_ms > 0 && body.retry_after_ms <= 5000);
    assert.ok(!text.includes(lease.lease_id));
    assert.equal(body.position, undefined);
  });

  test("two callers with one plain token are two callers", async () => {
    const name = fresh("lock");
    await acquire(name, { metadata: "same" });
    const second = await acquire(name, { metadata: "same" });
    assert.deepEqual([second.status, second.metadata, second.holder_id], ["held", "same", "runner-1"]);
  });

  test("a reentrant token with the same metadata is the same caller, with other metadata another", async () => {
    const name = fresh("lock");
    const first = await acquire(name, { metadata: "m", ttl_seconds: 60 }, reentrant);
    const again = await acquire(name, { metadata: "m", ttl_seconds: 90 }, reentrant);
    assert.deepEqual(
      [again.status, again.lease_id, again.fencing_token],
      ["acquired", first.lease_id, first.fencing_token],
    );
    assert.equal(again.expires_in_ms, 90_000);
    assert.equal((await acquire(name, { metadata: "n" }, reentrant)).status, "held");
    assert.equal((await acquire(name, {}, reentrant)).status, "held");
    assert.equal((await acquire(name, { metadata: "m" }, one)).status, "held");
    const shorter = await acquire(name, { metadata: "m", ttl_seconds: 5 }, reentrant);
    assert.ok(shorter.expires_in_ms > 80_000, "re-entry never shortens");
  });

  test("a reentrant token without metadata matches itself", async () => {
    const name = fresh("lock");
    const first = await acquire(name, {}, reentrant);
    assert.equal((await acquire(name, {}, reentrant)).lease_id, first.lease_id);
  });

  test("lease_id proves the holder, and only to its principal", async () => {
    const name = fresh("lock");
    const first = await acquire(name);
    const again = await acquire(name, { lease_id: first.lease_id, ttl_seconds: 90 });
    assert.deepEqual([again.status, again.lease_id], ["acquired", first.lease_id]);
    assert.equal(again.expires_in_ms, 90_000);
    assert.equal((await acquire(name, { lease_id: first.lease_id }, two)).status, "held");
    assert.equal((await acquire(name, { lease_id: "ls_wrong" })).status, "held");
    assert.equal((await acquire(name, { lease_id: "ls_wrong" }, reentrant)).status, "held");
    const free = await acquire(fresh("lock"), { lease_id: first.lease_id });
    assert.equal(free.status, "acquired");
    assert.notEqual(free.lease_id, first.lease_id);
  });

  test("ephemeral needs a session", async () => {
    const name = fresh("lock");
    await refused(
      server,
      "acquireLock",
      { token: one, name, body: { ephemeral: true } },
      422,
      "invalid_input",
    );
    assert.equal((await look(name)).fencing_token, 0);
    assert.equal((await acquire(name, { ephemeral: false })).status, "acquired");
  });

  test("tokens rise with every grant and never otherwise", async () => {
    const name = fresh("lock");
    let last = 0;
    for (let i = 0; i < 5; i++) {
      const { lease_id, fencing_token } = await acquire(name);
      assert.ok(fencing_token > last);
      last = fencing_token;
      await acquire(name, {}, two);
      await ok(server, "renewLock", { token: one, name, body: { lease_id } });
      assert.equal((await look(name)).fencing_token, last);
      await ok(server, "releaseLock", { token: one, name, body: { lease_id } });
      assert.equal((await look(name)).fencing_token, last);
    }
  });
});

describe("renew and extend", () => {
  test("renew keeps the token; without a TTL it never shortens, with one it may", async () => {
    const name = fresh("lock");
    const lease = await acquire(name, { ttl_seconds: 100 });
    const renew = (body: object) =>
      ok(server, "renewLock", { token: one, name, body: { lease_id: lease.lease_id, ...body } });
    const plain = await renew({});
    assert.deepEqual([plain.lease_id, plain.fencing_token], [lease.lease_id, lease.fencing_token]);
    assert.ok(plain.expires_in_ms > 99_000 && plain.expires_in_ms <= 100_000);
    assert.equal((await renew({ ttl_seconds: 200 })).expires_in_ms, 200_000);
    const shorter = await renew({ ttl_seconds: 10 });
    assert.deepEqual([shorter.expires_in_ms, shorter.renew_after_ms], [10_000, 3333]);
    assert.equal((await look(name)).expires_at, shorter.expires_at);
  });

  test("extend only lengthens", async () => {
    const name = fresh("lock");
    const { lease_id } = await acquire(name, { ttl_seconds: 100 });
    const extend = (ttl_seconds: number) =>
      ok(server, "extendLock", { token: one, name, body: { lease_id, ttl_seconds } });
    assert.ok((await extend(5)).expires_in_ms > 95_000);
    assert.equal((await extend(3600)).expires_in_ms, 3_600_000);
    await refused(server, "extendLock", { token: one, name, body: { lease_id } }, 422, "invalid_input");
    await refused(
      server,
      "extendLock",
      { token: one, name, body: { lease_id, ttl_seconds: 0 } },
      400,
      "invalid_ttl",
    );
  });

  for (const id of ["renewLock", "extendLock", "releaseLock"] as const) {
    const body = (lease_id: string) => (id === "extendLock" ? { lease_id, ttl_seconds: 5 } : { lease_id });

    test(`${id}: 404 when vacant, 400 when another lease or principal holds it; nothing changes`, async () => {
      const name = fresh("lock");
      await refused(server, id, { token: one, name, body: body("ls_none") }, 404, "lease_not_current");
      assert.equal((await look(name)).fencing_token, 0);
      const { lease_id } = await acquire(name, { ttl_seconds: 60 });
      await unchanged(name, async () => {
        await refused(server, id, { token: one, name, body: body("ls_wrong") }, 400, "lease_not_current");
        const foreign = await refused(
          server,
          id,
          { token: two, name, body: body(lease_id) },
          400,
          "lease_not_current",
        );
        assert.match(foreign.details, /held by runner-1/);
      });
      await ok(server, "releaseLock", { token: one, name, body: { lease_id } });
      const over = await refused(
        server,
        id,
        { token: one, name, body: body(lease_id) },
        404,
        "lease_not_current",
      );
      assert.match(over.details, /released/);
    });
  }

  test("an expired lease is never revived, and says that it expired", async () => {
    const name = fresh("lock");
    const { lease_id } = await acquire(name, { ttl_seconds: 1 });
    await lapse(1000);
    const told = await refused(
      server,
      "renewLock",
      { token: one, name, body: { lease_id } },
      404,
      "lease_not_current",
    );
    assert.match(told.details, /expired/);
    const view = await look(name);
    assert.deepEqual(
      [view.status, view.previous.how, view.previous.principal],
      ["free", "expired", "runner-1"],
    );
  });
});

describe("release and look", () => {
  test("release answers null as JSON", async () => {
    const name = fresh("lock");
    const { lease_id } = await acquire(name);
    const { status, text, headers } = await call(server, "releaseLock", {
      token: one,
      name,
      body: { lease_id },
    });
    assert.deepEqual([status, text], [200, "null"]);
    assert.match(headers["content-type"] ?? "", /^application\/json/);
  });

  test("a name never taken is 200, free, token 0", async () => {
    const view = await look(fresh("never"));
    assert.deepEqual([view.status, view.fencing_token, view.holder, view.waiters], ["free", 0, null, 0]);
    assert.equal(view.previous, undefined);
  });

  test("who had it before, and how that ended", async () => {
    const name = fresh("lock");
    const { lease_id, fencing_token } = await acquire(name, { metadata: "m" });
    await ok(server, "releaseLock", { token: one, name, body: { lease_id } });
    const free = await look(name);
    assert.deepEqual([free.status, free.fencing_token, free.metadata], ["free", fencing_token, null]);
    assert.deepEqual(
      { ...free.previous, ended_at: "" },
      { principal: "runner-1", owner: null, token: fencing_token, ended_at: "", how: "released" },
    );
    await acquire(name, { metadata: "n" }, two);
    const held = await look(name);
    assert.deepEqual([held.holder_id, held.metadata, held.previous.principal], ["runner-2", "n", "runner-1"]);
  });

  test("node: names can be read, not written, and point to the work graph", async () => {
    const name = "node:task-api";
    assert.equal((await look(name)).status, "free");
    for (const id of ["acquireLock", "renewLock", "releaseLock"] as const) {
      const body = id === "acquireLock" ? {} : { lease_id: "ls_x" };
      assert.match(
        (await refused(server, id, { token: one, name, body }, 403, "forbidden")).details,
        /node of the work graph.*POST \/v1\/nodes\/task-api\/claim/,
      );
    }
    await refused(server, "claimJob", { token: one, name, body: {} }, 403, "forbidden");
    const forced = await ok(server, "forceReleaseLock", { token: adminToken, name, body: { reason: "r" } });
    assert.equal(forced.released, false);
    assert.equal(
      (await ok(server, "checkLock", { token: one, name, body: { fencing_token: 1 } })).current,
      false,
    );
  });
});

describe("check", () => {
  test("says whether the token is that of the live lease", async () => {
    const name = fresh("lock");
    const check = (fencing_token: number) =>
      ok(server, "checkLock", { token: viewer, name, body: { fencing_token } });
    assert.deepEqual(await check(0), { current: false, fencing_token: 0 });
    const { lease_id, fencing_token } = await acquire(name);
    assert.deepEqual(await check(fencing_token), { current: true, fencing_token });
    assert.deepEqual(await check(fencing_token + 1), { current: false, fencing_token });
    assert.deepEqual(await check(0), { current: false, fencing_token });
    await ok(server, "releaseLock", { token: one, name, body: { lease_id } });
    assert.deepEqual(await check(fencing_token), { current: false, fencing_token });
  });

  test("a token that is no token is refused", async () => {
    for (const fencing_token of [-1, 1.5, "1", null, 2 ** 53])
      await refused(
        server,
        "checkLock",
        { token: one, name: "x", body: { fencing_token } },
        422,
        "invalid_input",
      );
  });
});

describe("force release", () => {
  const force = (name: string, reason = "runner-7 is gone") =>
    ok(server, "forceReleaseLock", { token: adminToken, name, body: { reason } });

  test("frees the name; the holder's next renew and heartbeat say who and why", async () => {
    const name = fresh("lock");
    const { lease_id, fencing_token } = await acquire(name);
    const done = await force(name);
    assert.deepEqual(
      [done.released, done.fencing_token, done.holder?.principal],
      [true, fencing_token, "runner-1"],
    );
    const renew = await refused(
      server,
      "renewLock",
      { token: one, name, body: { lease_id } },
      404,
      "lease_not_current",
    );
    assert.match(renew.details, /ended by operator .*runner-7 is gone/);
    const beat = await refused(
      server,
      "heartbeatJob",
      { token: one, name, body: { lease_id } },
      409,
      "lease_lost",
    );
    assert.match(beat.details, /ended by operator .*runner-7 is gone/);
    assert.deepEqual(
      [beat.previous.how, beat.previous.by, beat.previous.reason],
      ["forced", "operator", "runner-7 is gone"],
    );
    const bulk = await ok(server, "heartbeatJobs", {
      token: one,
      body: { leases: [{ job_id: name, lease_id }] },
    });
    assert.match(bulk.lost[0]?.details ?? "", /ended by operator .*runner-7 is gone/);
    const view = await look(name);
    assert.deepEqual([view.status, view.previous.how, view.previous.by], ["free", "forced", "operator"]);
    assert.ok((await acquire(name, {}, two)).fencing_token > fencing_token);
  });

  test("also when a waiter got the name in the same moment", async () => {
    const name = fresh("lock");
    const { lease_id } = await acquire(name);
    const waiting = acquire(name, { wait_seconds: 20 }, two);
    await waitersOn(server, viewer, name, 1);
    await force(name, "stuck on step 4");
    assert.equal((await waiting).status, "acquired");
    const renew = await refused(
      server,
      "renewLock",
      { token: one, name, body: { lease_id } },
      400,
      "lease_not_current",
    );
    assert.match(renew.details, /ended by operator .*stuck on step 4.*held by runner-2/);
    const beat = await refused(
      server,
      "heartbeatJob",
      { token: one, name, body: { lease_id } },
      409,
      "lease_lost",
    );
    assert.match(beat.details, /stuck on step 4/);
    assert.equal(beat.owner, "runner-2");
  });

  test("is not told to one whose lease ended otherwise", async () => {
    const name = fresh("lock");
    const first = await acquire(name);
    await ok(server, "releaseLock", { token: one, name, body: { lease_id: first.lease_id } });
    await acquire(name, {}, two);
    await force(name, "runner-2 hangs");
    const renew = await refused(
      server,
      "renewLock",
      { token: one, name, body: { lease_id: first.lease_id } },
      404,
      "lease_not_current",
    );
    assert.match(renew.details, /The last lease \(runner-2, token \d+\) was ended by operator/);
  });

  test("shows of the holder's session the short hash, as a look does", async () => {
    const name = fresh("lock");
    const { session_id } = await ok(server, "createSession", { token: one });
    await acquire(name, { session_id });
    const { holder } = await look(name);
    assert.match(holder?.session ?? "", /^[0-9a-f]{12}$/);
    assert.deepEqual((await force(name)).holder, holder);
  });

  test("of a free name does nothing and says so; it needs a reason", async () => {
    const name = fresh("lock");
    assert.deepEqual(await force(name), { name, released: false, fencing_token: 0, holder: null });
    const { lease_id } = await acquire(name);
    await unchanged(name, () =>
      refused(server, "forceReleaseLock", { token: adminToken, name }, 422, "invalid_input"),
    );
    await refused(
      server,
      "forceReleaseLock",
      { token: adminToken, name, body: { reason: "" } },
      422,
      "invalid_input",
    );
    await refused(
      server,
      "forceReleaseLock",
      { token: adminToken, name, body: { reason: "r".repeat(257) } },
      400,
      "invalid_input",
    );
    await ok(server, "releaseLock", { token: one, name, body: { lease_id } });
  });
});

describe("lists of locks", () => {
  test("held names only, by name, with the prefix asked for", async () => {
    const stem = fresh("list");
    for (const last of ["c", "a", "b"]) await acquire(`${stem}/${last}`, { metadata: last });
    const { lease_id } = await acquire(`${stem}/d`);
    await ok(server, "releaseLock", { token: one, name: `${stem}/d`, body: { lease_id } });
    const page = await ok(server, "listLocks", { token: viewer, query: { prefix: `${stem}/` } });
    assert.deepEqual(
      page.locks.map(({ name }) => name),
      ["a", "b", "c"].map((last) => `${stem}/${last}`),
    );
    assert.deepEqual([page.total, page.prefix, page.next_cursor], [3, `${stem}/`, null]);
    assert.ok(page.locks.every((lock) => lock.status === "held" && !("lease_id" in lock)));
  });

  test("never shows a lease that is over", async () => {
    const name = fresh("short");
    await acquire(name, { ttl_seconds: 1 });
    await lapse(1000);
    assert.equal((await ok(server, "listLocks", { token: viewer, query: { prefix: name } })).total, 0);
  });
});
