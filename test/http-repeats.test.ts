// Request ids: a claim that is sent again gives the same lease and never a second grant, whoever repeats it, how
// often and when, and whatever became of the first reply.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { RouteId } from "../src/wire/routes.js";
import { lasting } from "./engines/store-of.js";
import {
  type Answered,
  type Body,
  type Call,
  call,
  fresh,
  lapse,
  ok,
  refused,
  waitersOn,
} from "./http-api.js";
import { adminToken, type Server, startServer } from "./server.js";

const one = "secret-a";
const two = "secret-b";
const viewer = "secret-v";
let server: Server;

before(async () => {
  server = await startServer({ env: { HOLDFAST_RATE_LIMIT: "off" } });
});
after(() => server.stop());

const acquire = (name: string, body: object = {}, token = one): Promise<Body> =>
  ok(server, "acquireLock", { token, name, body });
const look = (name: string): Promise<Body> => ok(server, "getLock", { token: viewer, name });

/** The three routes that claim, each with a request that succeeds once. */
const claiming: Record<"acquireLock" | "claimJob" | "claimAnyJob", (name: string, more: object) => Call> = {
  acquireLock: (name, more) => ({ token: one, name, body: { ttl_seconds: 60, metadata: "m", ...more } }),
  claimJob: (name, more) => ({ token: one, name, body: { ttl_seconds: 60, owner: "o", ...more } }),
  claimAnyJob: (name, more) => ({
    token: one,
    body: { candidates: [name, `${name}-2`], ttl_seconds: 60, ...more },
  }),
};
const release = (name: string, lease_id: string): Promise<Body> =>
  ok(server, "releaseLock", { token: one, name, body: { lease_id } });

for (const [id, request] of Object.entries(claiming) as [
  keyof typeof claiming,
  (name: string, more: object) => Call,
][])
  describe(id, () => {
    test("a repeat gives the same lease; the header and the field are one", async () => {
      const [name, request_id] = [fresh("repeat"), fresh("id")];
      const first = await ok(server, id, request(name, { request_id }));
      for (const again of [
        request(name, { request_id }),
        { ...request(name, {}), headers: { "idempotency-key": request_id } },
        { ...request(name, { request_id }), headers: { "idempotency-key": request_id } },
      ]) {
        const repeated = await ok(server, id, again);
        assert.equal(repeated.lease_id, first.lease_id);
        assert.equal(repeated.token ?? repeated.fencing_token, first.token ?? first.fencing_token);
        assert.equal(repeated.expires_at, first.expires_at, "a repeat is no renewal");
      }
      assert.equal((await ok(server, "getJob", { token: one, name: `${name}-2` })).claimed, false);
    });

    test("header and field that differ are refused", async () => {
      const name = fresh("repeat");
      const differing = { ...request(name, { request_id: "x" }), headers: { "idempotency-key": "y" } };
      await refused(server, id, differing, 422, "invalid_input");
      for (const key of ["", "x".repeat(129), "caf\u00e9", "tab\there"])
        await refused(
          server,
          id,
          { ...request(name, {}), headers: { "idempotency-key": key } },
          422,
          "invalid_input",
        );
      for (const request_id of ["caf\u00e9", "new\nline", 5, null])
        await refused(server, id, request(name, { request_id }), 422, "invalid_input");
      await refused(server, id, request(name, { request_id: "x".repeat(129) }), 400, "invalid_input");
      assert.equal((await look(name)).fencing_token, 0);
    });

    if (id === "claimJob")
      test("the same body with its keys in another order is the same", async () => {
        const [name, request_id] = [fresh("repeat"), fresh("id")];
        const first = await ok(
          server,
          id,
          request(name, { request_id, metadata: { a: 1, b: { c: 2, d: 3 } } }),
        );
        const again = await ok(
          server,
          id,
          request(name, { metadata: { b: { d: 3, c: 2 }, a: 1 }, request_id }),
        );
        assert.equal(again.lease_id, first.lease_id);
      });

    test("another body under the same id is 422, and changes nothing", async () => {
      const [name, request_id] = [fresh("repeat"), fresh("id")];
      const first = await ok(server, id, request(name, { request_id }));
      const others = [
        request(name, { request_id, ttl_seconds: 61 }),
        request(name, { request_id, metadata: "other" }),
        request(name, {
          request_id,
          session_id: (await ok(server, "createSession", { token: one })).session_id,
        }),
        request(fresh("repeat"), { request_id }),
      ];
      for (const other of others) await refused(server, id, other, 422, "invalid_input");
      const view = await look(name);
      assert.deepEqual(
        [view.expires_at, view.fencing_token],
        [first.expires_at, first.token ?? first.fencing_token],
      );
    });

    test("after release, expiry or force it is lease_lost, never a second grant", async () => {
      const ends: Record<string, (name: string, lease: string) => Promise<unknown>> = {
        released: release,
        forced: (name) => ok(server, "forceReleaseLock", { token: adminToken, name, body: { reason: "r" } }),
        expired: () => lapse(1000),
      };
      for (const [how, end] of Object.entries(ends)) {
        const [name, request_id] = [fresh("repeat"), fresh("id")];
        const asked = request(name, { request_id, ttl_seconds: how === "expired" ? 1 : 60 });
        const { lease_id } = await ok(server, id, asked);
        await end(name, lease_id);
        await refused(server, id, asked, 409, "lease_lost");
        const view = await look(name);
        assert.deepEqual([view.status, view.fencing_token, view.previous.how], ["free", 1, how]);
        const next = await acquire(name, {}, two);
        const lost = await refused(server, id, asked, 409, "lease_lost");
        assert.equal(lost.owner, "runner-2");
        assert.equal((await look(name)).fencing_token, next.fencing_token);
      }
    });

    test("of 50 at once exactly one is granted, and all get the same lease", async () => {
      const [name, request_id] = [fresh("repeat"), fresh("id")];
      const replies = await Promise.all(
        Array.from({ length: 50 }, () => call(server, id, request(name, { request_id }))),
      );
      assert.ok(replies.every(({ status }) => status === 200));
      assert.equal(new Set(replies.map(({ body }) => body.lease_id)).size, 1);
      assert.equal((await look(name)).fencing_token, 1);
    });
  });

describe("a request id", () => {
  test("is its principal's own", async () => {
    const [name, request_id] = [fresh("repeat"), fresh("id")];
    const mine = await acquire(name, { request_id });
    assert.equal((await acquire(name, { request_id }, two)).status, "held");
    const theirs = await acquire(fresh("repeat"), { request_id }, two);
    assert.deepEqual([theirs.status, theirs.lease_id === mine.lease_id], ["acquired", false]);
    assert.equal((await acquire(name, { request_id })).lease_id, mine.lease_id);
  });

  test("of a refusal is not spent: it may be granted later, even with another wait", async () => {
    const [name, request_id] = [fresh("repeat"), fresh("id")];
    const other = await acquire(name, {}, two);
    assert.equal((await acquire(name, { request_id })).status, "held");
    await ok(server, "releaseLock", { token: two, name, body: { lease_id: other.lease_id } });
    const granted = await acquire(name, { request_id, wait_seconds: 5 });
    assert.equal(granted.status, "acquired");
    assert.equal((await acquire(name, { request_id })).lease_id, granted.lease_id);
  });

  test("gives back what a later renew made of the lease", async () => {
    const [name, request_id] = [fresh("repeat"), fresh("id")];
    const { lease_id } = await acquire(name, { request_id });
    const renewed = await ok(server, "renewLock", { token: one, name, body: { lease_id, ttl_seconds: 600 } });
    const again = await acquire(name, { request_id });
    assert.deepEqual([again.lease_id, again.expires_at], [lease_id, renewed.expires_at]);
  });

  test("belongs to one route", async () => {
    const [name, request_id] = [fresh("repeat"), fresh("id")];
    await acquire(name, { request_id });
    const routes: readonly [RouteId, Call][] = [
      ["claimJob", { token: one, name, body: { request_id } }],
      ["claimAnyJob", { token: one, body: { candidates: [name], request_id } }],
    ];
    for (const [id, asked] of routes) await refused(server, id, asked, 422, "invalid_input");
  });

  lasting("survives kill -9: the repeat of a lost reply gives the lease that was granted", async () => {
    const [name, request_id] = [fresh("repeat"), fresh("id")];
    const granted = await acquire(name, { request_id, ttl_seconds: 120 });
    const spent = fresh("id");
    const over = await acquire(fresh("repeat"), { request_id: spent });
    await release(over.name, over.lease_id);
    server = await server.restart();
    const again = await acquire(name, { request_id, ttl_seconds: 120 });
    assert.deepEqual([again.lease_id, again.fencing_token], [granted.lease_id, granted.fencing_token]);
    const lost = { token: one, name: over.name, body: { request_id: spent } };
    await refused(server, "acquireLock", lost, 409, "lease_lost");
  });
});

describe("repeats of a request that waits", () => {
  test("one is granted; those whose place was taken over are told that it may be done", async () => {
    const [name, request_id] = [fresh("repeat"), fresh("id")];
    const holder = await acquire(name, {}, two);
    const asked = { token: one, name, body: { request_id, wait_seconds: 20 } };
    const replies: Promise<Answered>[] = [];
    for (let i = 0; i < 5; i++) {
      replies.push(call(server, "acquireLock", asked));
      await waitersOn(server, viewer, name, 1);
    }
    await Promise.all(replies.slice(0, 4)).then((earlier) => {
      for (const { status, body } of earlier) assert.deepEqual([status, body.code], [503, "unknown_outcome"]);
    });
    await ok(server, "releaseLock", { token: two, name, body: { lease_id: holder.lease_id } });
    const granted = await replies.at(-1);
    assert.equal(granted?.body.status, "acquired");
    assert.equal((await call(server, "acquireLock", asked)).body.lease_id, granted?.body.lease_id);
    assert.equal((await look(name)).fencing_token, 2);
  });

  test("50 at once on a free name: one grant, the same lease for all", async () => {
    const [name, request_id] = [fresh("repeat"), fresh("id")];
    const asked = { token: one, name, body: { request_id, wait_seconds: 20 } };
    const replies = await Promise.all(Array.from({ length: 50 }, () => call(server, "acquireLock", asked)));
    const leases = new Set(replies.filter(({ status }) => status === 200).map(({ body }) => body.lease_id));
    assert.equal(leases.size, 1);
    for (const { status, body } of replies)
      if (status !== 200) assert.deepEqual([status, body.code], [503, "unknown_outcome"]);
    assert.equal((await look(name)).fencing_token, 1);
    assert.equal((await look(name)).waiters, 0);
  });

  test("another body under the id of a waiter is 422, and the waiter keeps its place", async () => {
    const [name, request_id] = [fresh("repeat"), fresh("id")];
    const holder = await acquire(name, {}, two);
    const waiting = acquire(name, { request_id, wait_seconds: 20 });
    await waitersOn(server, viewer, name, 1);
    const other = { token: one, name, body: { request_id, wait_seconds: 20, ttl_seconds: 7 } };
    await refused(server, "acquireLock", other, 422, "invalid_input");
    await ok(server, "releaseLock", { token: two, name, body: { lease_id: holder.lease_id } });
    assert.equal((await waiting).status, "acquired");
  });

  test("without a wait, while the same request waits: held, and the waiter is served", async () => {
    const [name, request_id] = [fresh("repeat"), fresh("id")];
    const holder = await acquire(name, {}, two);
    const waiting = acquire(name, { request_id, wait_seconds: 20 });
    await waitersOn(server, viewer, name, 1);
    assert.equal((await acquire(name, { request_id })).status, "held");
    await ok(server, "releaseLock", { token: two, name, body: { lease_id: holder.lease_id } });
    const granted = await waiting;
    assert.equal((await acquire(name, { request_id })).lease_id, granted.lease_id);
  });
});
