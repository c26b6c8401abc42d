// What an operator sets around the API: the rate limit, CORS, the names by which a loopback server may be called,
// whom to believe about addresses, the longest TTL, how many may wait or watch.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import {
  type Answered,
  assertError,
  call,
  fresh,
  ok,
  refused,
  routeOf,
  send,
  table,
  waitersOn,
} from "./http-api.js";
import { watch } from "./http-stream.js";
import { adminToken, type Server, startServer } from "./server.js";

const one = "secret-a";
const two = "secret-b";
const viewer = "secret-v";
const page = "https://board.example";

let plain: Server;
/** As little of everything as can be. */
let tight: Server;

before(async () => {
  [plain, tight] = await Promise.all([
    startServer({ env: { HOLDFAST_RATE_LIMIT: "off" } }),
    startServer({
      env: {
        HOLDFAST_RATE_LIMIT: "5",
        HOLDFAST_CORS_ORIGINS: `${page}, http://localhost:3000`,
        HOLDFAST_TRUST_PROXY: "1",
        HOLDFAST_TTL_MAX_SECONDS: "30",
        HOLDFAST_WAITERS_PER_NAME_MAX: "2",
        HOLDFAST_STREAMS_MAX: "2",
      },
    }),
  ]);
});
after(() => Promise.all([plain.stop(), tight.stop()]));

/** A second later the bucket is full again. */
const refill = (): Promise<void> => delay(1100);

describe("the rate limit", () => {
  test("5 a second: then 429 with Retry-After and the error body, for this token only", async () => {
    await refill();
    const replies = await Promise.all(
      Array.from({ length: 12 }, () => call(tight, "whoami", { token: one })),
    );
    const passed = replies.filter(({ status }) => status === 200);
    const limited = replies.filter(({ status }) => status === 429);
    assert.ok(passed.length >= 5 && passed.length <= 8, `${passed.length} passed`);
    assert.equal(passed.length + limited.length, 12);
    for (const { body, headers } of limited) {
      assert.equal(body.code, "rate_limited");
      assert.ok(body.retry_after_ms > 0 && body.retry_after_ms <= 1000);
      assert.equal(headers["retry-after"], "1");
    }
    assert.equal((await call(tight, "whoami", { token: two })).status, 200, "another token has its own");
    await refill();
    assert.equal((await call(tight, "whoami", { token: one })).status, 200);
  });

  test("counts every route alike, and a refused request does nothing", async () => {
    await refill();
    const name = fresh("rate");
    const { lease_id } = await ok(tight, "acquireLock", { token: two, name, body: { ttl_seconds: 30 } });
    const replies: Answered[] = [];
    for (let i = 0; i < 12; i++)
      replies.push(
        await call(tight, "releaseLock", { token: two, name: `${name}-none`, body: { lease_id } }),
      );
    assert.ok(replies.some(({ status }) => status === 429));
    const fields = { token: two, name, body: { lease_id } };
    const last = await call(tight, "releaseLock", fields);
    const view = await ok(tight, "getLock", { token: viewer, name });
    assert.equal(view.status, last.status === 429 ? "held" : "free");
  });

  test("open routes have none, and `off` means none", async () => {
    const open = await Promise.all(Array.from({ length: 30 }, () => call(tight, "ready")));
    assert.ok(open.every(({ status }) => status === 200));
    const off = await Promise.all(Array.from({ length: 300 }, () => call(plain, "whoami", { token: one })));
    assert.ok(off.every(({ status }) => status === 200));
  });
});

describe("CORS", () => {
  const asPage = (
    server: Server,
    method: string,
    path: string,
    origin: string,
    more = {},
  ): Promise<Answered> => send(server, method, path, { headers: { origin, ...more } });
  const corsHeaders = ({ headers }: Answered): string[] =>
    Object.keys(headers).filter((name) => name.startsWith("access-control-"));
  const preflight = {
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization",
  };

  test("is off unless origins are named", async () => {
    for (const [method, path] of [
      ["GET", "/ready"],
      ["OPTIONS", "/locks/x/acquire"],
      ["GET", "/nowhere"],
    ] as const)
      assert.deepEqual(corsHeaders(await asPage(plain, method, path, page, preflight)), []);
    assert.equal((await asPage(plain, "OPTIONS", "/locks/x/acquire", page, preflight)).status, 405);
  });

  test("named origins may call, and see replies and refusals", async () => {
    for (const origin of [page, "http://localhost:3000"])
      for (const path of ["/ready", "/whoami", "/nowhere", "/locks/invalid!name"]) {
        const { headers } = await asPage(tight, "GET", path, origin);
        assert.equal(headers["access-control-allow-origin"], origin, path);
        assert.match(String(headers["vary"]), /Origin/);
        assert.match(String(headers["access-control-expose-headers"]), /x-request-id/);
        assert.equal(headers["access-control-allow-credentials"], undefined);
      }
  });

  test("the preflight of every route answers what it may send", async () => {
    for (const { path, method, headers: own = [] } of table) {
      const url = path.replace(/\{\w+\}/, "x");
      const reply = await asPage(tight, "OPTIONS", url, page, preflight);
      assert.deepEqual([reply.status, reply.text], [204, ""], path);
      assert.ok(String(reply.headers["access-control-allow-methods"]).includes(method), path);
      const allowed = String(reply.headers["access-control-allow-headers"]);
      for (const header of ["authorization", "content-type", "holdfast-space", ...own])
        assert.ok(allowed.includes(header.toLowerCase()), `${path}: ${header}`);
    }
  });

  test("other origins get nothing", async () => {
    for (const origin of [
      "https://evil.example",
      "null",
      `${page}.evil.example`,
      `${page}:8443`,
      page.toUpperCase(),
    ]) {
      assert.deepEqual(corsHeaders(await asPage(tight, "GET", "/ready", origin)), [], origin);
      const reply = await asPage(tight, "OPTIONS", "/locks/x/acquire", origin, preflight);
      assert.deepEqual([reply.status, ...corsHeaders(reply)], [405], origin);
    }
  });

  test("streams carry them too", async () => {
    await refill();
    const stream = await watch(tight, "/watch", { token: viewer, headers: { origin: page } });
    assert.equal(stream.response.headers["access-control-allow-origin"], page);
    stream.close();
  });
});

describe("where a request comes from", () => {
  const asHost = (host: string): Promise<Answered> =>
    send(plain, "GET", "/whoami", { token: one, headers: { host } });

  test("a loopback server answers to its own names only", async () => {
    for (const host of [
      "127.0.0.1",
      "localhost",
      `localhost:${plain.port}`,
      `127.0.0.1:${plain.port}`,
      "LOCALHOST:1",
      "[::1]:80",
    ])
      assert.equal((await asHost(host)).status, 200, host);
    for (const host of [
      "evil.example",
      "127.0.0.1.evil.example",
      "localhost.evil.example:80",
      "127.0.0.2",
      "[::2]",
      "localhost:80:80",
    ]) {
      const reply = await asHost(host);
      assert.deepEqual([reply.status, reply.body.code], [403, "forbidden"], host);
      assertError(reply);
    }
    for (const path of ["/health", "/metrics", "/docs", "/openapi.json"])
      assert.equal((await send(plain, "GET", path, { headers: { host: "evil.example" } })).status, 403, path);
  });

  test("metrics are open here, and no header makes elsewhere here", async () => {
    const metrics = (server: Server, headers: Record<string, string>): Promise<Answered> =>
      send(server, "GET", "/metrics", { headers });
    for (const server of [plain, tight]) {
      assert.equal((await metrics(server, {})).status, 200);
      const claims = ["203.0.113.7", "127.0.0.1, 203.0.113.7", "203.0.113.7, 127.0.0.1"];
      // Believed only when told; and then a claim to be here is not enough, as anybody can make it.
      for (const forwarded of server === tight ? claims : [])
        assert.equal((await metrics(server, { "x-forwarded-for": forwarded })).status, 401, forwarded);
      assert.equal((await metrics(server, { authorization: `Bearer ${viewer}` })).status, 200);
      assert.equal((await metrics(server, { authorization: "Bearer nope" })).status, 401);
    }
  });
});

describe("bounds", () => {
  test("the longest TTL is the operator's, also where none is asked for", async () => {
    await refill();
    const name = fresh("bound");
    const lease = await ok(tight, "acquireLock", { token: one, name });
    assert.equal(lease.expires_in_ms, 30_000);
    await refused(tight, "acquireLock", { token: one, name, body: { ttl_seconds: 31 } }, 400, "invalid_ttl");
    const job = await ok(tight, "claimJob", { token: one, name: fresh("bound") });
    assert.equal(job.expires_in_ms, 30_000);
  });

  test("past the bound of waiters: 503 with Retry-After, and a free name is still granted", async () => {
    await refill();
    const name = fresh("bound");
    const { lease_id } = await ok(tight, "acquireLock", { token: one, name, body: { ttl_seconds: 30 } });
    const waiting = [1, 2].map(() =>
      call(tight, "acquireLock", { token: one, name, body: { wait_seconds: 20 } }),
    );
    await refill();
    await waitersOn(tight, viewer, name, 2);
    const third = await refused(
      tight,
      "acquireLock",
      { token: two, name, body: { wait_seconds: 20 } },
      503,
      "unavailable",
    );
    assert.match(third.details, /2 requests wait for this name/);
    assert.equal((await call(tight, "acquireLock", { token: two, name })).body.status, "held");
    await ok(tight, "releaseLock", { token: one, name, body: { lease_id } });
    const first = await Promise.race(waiting);
    await ok(tight, "releaseLock", { token: one, name, body: { lease_id: first.body.lease_id } });
    assert.deepEqual(
      (await Promise.all(waiting)).map(({ body }) => body.status),
      ["acquired", "acquired"],
    );
  });

  test("past the bound of streams: 503, and room again when one closes", async () => {
    await refill();
    const first = await watch(tight, "/watch", { token: viewer });
    // Half of the places stay for others.
    const reply = await send(tight, "GET", "/watch", { token: viewer });
    assert.deepEqual([reply.status, reply.body.code], [503, "unavailable"]);
    assertError(reply);
    assert.equal(routeOf("watchLocks").replies[503]?.schema !== undefined, true);
    const other = await watch(tight, "/watch", { token: two });
    first.close();
    await delay(200);
    (await watch(tight, "/watch", { token: viewer })).close();
    other.close();
  });

  test("the operator's calls are limited like any other's", async () => {
    await refill();
    const replies = await Promise.all(
      Array.from({ length: 12 }, () => call(tight, "listTokens", { token: adminToken })),
    );
    assert.ok(replies.some(({ status }) => status === 429));
  });
});
