// What an operator sets around the API: the rate limit, CORS, the names by which a loopback server may be called,
// whom to believe about addresses, the longest TTL, how many may wait or watch.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { type Answered, assertError, call, eventually, fresh, ok, refused, send, table } from "./http-api.js";
import { watch } from "./http-stream.js";
import { adminToken, type Server, startServer } from "./server.js";

const one = "secret-a";
const viewer = "secret-v";
/** Each has a bucket of its own, so that no test waits for one to fill again. */
const pool = Array.from({ length: 20 }, (_, i) => `pooled-${i}`);
const nextToken = (): string => pool.pop() ?? assert.fail("give the pool more tokens");
const page = "https://board.example";

let plain: Server;
/** As little of everything as can be. */
let tight: Server;

before(async () => {
  [plain, tight] = await Promise.all([
    startServer({ env: { HOLDFAST_RATE_LIMIT: "off" } }),
    startServer({
      tokens: ["viewer:secret-v:observer", ...pool.map((secret) => `of-${secret}:${secret}`)].join(","),
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

describe("the rate limit", () => {
  test("5 a second: then 429 with Retry-After and the error body, for this token only", async () => {
    const token = nextToken();
    const sentAt = performance.now();
    const replies = await Promise.all(Array.from({ length: 12 }, () => call(tight, "whoami", { token })));
    const refilled = Math.ceil(((performance.now() - sentAt) / 1000) * 5);
    const passed = replies.filter(({ status }) => status === 200);
    const limited = replies.filter(({ status }) => status === 429);
    assert.ok(passed.length >= 5 && passed.length <= 5 + refilled, `${passed.length} passed`);
    assert.equal(passed.length + limited.length, 12);
    for (const { body, headers } of limited) {
      assert.equal(body.code, "rate_limited");
      assert.ok(body.retry_after_ms > 0 && body.retry_after_ms <= 1000);
      assert.equal(headers["retry-after"], "1");
    }
    assert.equal(
      (await call(tight, "whoami", { token: nextToken() })).status,
      200,
      "another token has its own",
    );
    await delay(Math.max(...limited.map(({ body }) => body.retry_after_ms)) + 5);
    assert.equal((await call(tight, "whoami", { token })).status, 200);
  });

  test("counts every route alike, and a refused request does nothing", async () => {
    const [token, name] = [nextToken(), fresh("rate")];
    const { lease_id } = await ok(tight, "acquireLock", { token, name, body: { ttl_seconds: 30 } });
    const renew = () => call(tight, "renewLock", { token, name, body: { lease_id } });
    const replies = await Promise.all(Array.from({ length: 20 }, renew));
    assert.ok(replies.some(({ status }) => status === 429));
    const last = await call(tight, "releaseLock", { token, name, body: { lease_id } });
    const view = await ok(tight, "getLock", { token: nextToken(), name });
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
    const stream = await watch(tight, "/watch", { token: nextToken(), headers: { origin: page } });
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
    const [token, name] = [nextToken(), fresh("bound")];
    assert.equal((await ok(tight, "acquireLock", { token, name })).expires_in_ms, 30_000);
    await refused(tight, "acquireLock", { token, name, body: { ttl_seconds: 31 } }, 400, "invalid_ttl");
    assert.equal((await ok(tight, "claimJob", { token, name: fresh("bound") })).expires_in_ms, 30_000);
  });

  test("past the bound of waiters: 503 with Retry-After, and a free name is still granted", async () => {
    const [token, other, name] = [nextToken(), nextToken(), fresh("bound")];
    const { lease_id } = await ok(tight, "acquireLock", { token, name, body: { ttl_seconds: 30 } });
    const wait = { wait_seconds: 20 };
    const waiting = [1, 2].map(() => call(tight, "acquireLock", { token, name, body: wait }));
    await eventually(async () =>
      assert.match((await send(tight, "GET", "/metrics")).text, /^holdfast_waiters 2$/m),
    );
    const third = await refused(tight, "acquireLock", { token: other, name, body: wait }, 503, "unavailable");
    assert.match(third.details, /2 requests wait for this name/);
    assert.equal((await call(tight, "acquireLock", { token: other, name })).body.status, "held");
    const free = await call(tight, "acquireLock", { token: other, name: fresh("bound"), body: wait });
    assert.equal(free.body.status, "acquired");
    await ok(tight, "releaseLock", { token, name, body: { lease_id } });
    const first = await Promise.race(waiting);
    await ok(tight, "releaseLock", { token, name, body: { lease_id: first.body.lease_id } });
    assert.deepEqual(
      (await Promise.all(waiting)).map(({ body }) => body.status),
      ["acquired", "acquired"],
    );
  });

  test("past the bound of streams: 503, and room again when one closes", async () => {
    const [token, other] = [nextToken(), nextToken()];
    const first = await watch(tight, "/watch", { token });
    // Half of the places stay for others.
    const reply = await send(tight, "GET", "/watch", { token });
    assert.deepEqual([reply.status, reply.body.code], [503, "unavailable"]);
    assertError(reply);
    const second = await watch(tight, "/watch", { token: other });
    first.close();
    await eventually(async () =>
      assert.match((await send(tight, "GET", "/metrics")).text, /^holdfast_streams 1$/m),
    );
    (await watch(tight, "/watch", { token })).close();
    second.close();
  });

  test("the operator's calls are limited like any other's", async () => {
    const replies = await Promise.all(
      Array.from({ length: 12 }, () => call(tight, "listTokens", { token: adminToken })),
    );
    assert.ok(replies.some(({ status }) => status === 429));
  });
});
