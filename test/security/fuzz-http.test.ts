// HTTP by chance and by malice: odd request lines, headers that come twice, in odd cases, too large or broken, bodies
// whose length is a lie, and requests hidden in other requests. Every byte that comes back belongs to a whole reply
// with a definite status; what was hidden is not done; no reply is taken for another's; the server goes on.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import fc from "fast-check";
import { type Answered, eventually, fresh, ok, send } from "../http-api.js";
import { adminToken as operator, type Server, startServer } from "../server.js";
import { runs } from "./fuzz.js";
import { hostileNames, hostileSegments } from "./hostile-names.js";
import { dial, exchange } from "./raw-exchange.js";
import { assertQuietLog, assertSound, gauge, memoryMb, staticSecrets } from "./soundness.js";

const token = "secret-a";
const base = `Host: 127.0.0.1\r\nAuthorization: Bearer ${token}\r\n`;
const jsonType = "Content-Type: application/json\r\n";
const growthMaxMb = 150;
let server: Server;
let before_ = 0;

before(async () => {
  server = await startServer({ env: { HOLDFAST_RATE_LIMIT: "off", HOLDFAST_OVERLOAD_MS: "off" } });
  before_ = memoryMb(server);
});
after(async () => {
  await server.stop();
  assertQuietLog(server);
});

const acquire = (name: string, body = "{}"): string =>
  `POST /locks/${name}/acquire HTTP/1.1\r\n${base}${jsonType}Content-Length: ${body.length}\r\n\r\n${body}`;
const grantsOf = async (name: string): Promise<number> =>
  (await ok(server, "getLock", { token: operator, name })).fencing_token;

/** Sound replies to bytes that no client should send. */
async function poke(bytes: string): Promise<Answered[]> {
  const replies = await exchange(server, bytes);
  for (const reply of replies) assertSound(reply, bytes, [...staticSecrets]);
  return replies;
}

describe("requests within requests", () => {
  /** Each carries a second request where another reader might see one; `hidden` is what that would take. */
  const shapes: readonly (readonly [string, (hidden: string) => string])[] = [
    [
      "a length beside chunks",
      (hidden) => `Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${hidden}`,
    ],
    [
      "chunks beside a length",
      (hidden) => `Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n${hidden}`,
    ],
    [
      "two lengths",
      (hidden) => `Content-Length: 2\r\nContent-Length: ${hidden.length + 2}\r\n\r\n{}${hidden}`,
    ],
    ["a list of lengths", (hidden) => `Content-Length: 2, 2\r\n\r\n{}${hidden}`],
    ["a length with a sign", (hidden) => `Content-Length: +2\r\n\r\n{}${hidden}`],
    ["a length in another base", (hidden) => `Content-Length: 0x2\r\n\r\n{}${hidden}`],
    ["a length with a space in it", (hidden) => `Content-Length: 2 2\r\n\r\n{}${hidden}`],
    ["a length of nothing", (hidden) => `Content-Length: \r\n\r\n{}${hidden}`],
    ["a negative length", (hidden) => `Content-Length: -2\r\n\r\n{}${hidden}`],
    ["a length beyond all numbers", (hidden) => `Content-Length: 99999999999999999999\r\n\r\n{}${hidden}`],
    ["a space before the colon", (hidden) => `Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n${hidden}`],
    ["a tab before the word", (hidden) => `\tTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${hidden}`],
    ["a coding that is none", (hidden) => `Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n${hidden}`],
    [
      "chunks that are not the last coding",
      (hidden) => `Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n${hidden}`,
    ],
    [
      "chunks twice",
      (hidden) => `Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n${hidden}`,
    ],
    ["a vertical tab in the coding", (hidden) => `Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n${hidden}`],
    ["a folded header", (hidden) => `Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n${hidden}`],
    [
      "a bare line feed ends a header",
      (hidden) => `X: a\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${hidden}`,
    ],
    [
      "a bare carriage return ends a header",
      (hidden) => `X: a\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${hidden}`,
    ],
    ["a NUL in a header", (hidden) => `X: a\0b\r\nContent-Length: 2\r\n\r\n{}${hidden}`],
    [
      "a chunk size that is none",
      (hidden) => `Transfer-Encoding: chunked\r\n\r\n-1\r\n{}\r\n0\r\n\r\n${hidden}`,
    ],
    [
      "a chunk size beyond all numbers",
      (hidden) => `Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n{}${hidden}`,
    ],
    ["a chunk that ends too late", (hidden) => `Transfer-Encoding: chunked\r\n\r\n2\r\n{}${hidden}`],
    [
      "a chunk extension with a line feed",
      (hidden) => `Transfer-Encoding: chunked\r\n\r\n2;a\n\r\n{}\r\n0\r\n\r\n${hidden}`,
    ],
    ["a request in a body", (hidden) => `Content-Length: ${hidden.length}\r\n\r\n${hidden}`],
    [
      "a request in a header",
      (hidden) => `X-Note: ${hidden.replaceAll("\r\n", "%0d%0a")}\r\nContent-Length: 2\r\n\r\n{}`,
    ],
  ];

  for (const [what, shape] of shapes)
    test(`${what}: the hidden one is not done`, async () => {
      const [open, hidden] = [fresh("open"), fresh("hidden")];
      const replies = await poke(
        `POST /locks/${open}/acquire HTTP/1.1\r\n${base}${jsonType}${shape(acquire(hidden))}`,
      );
      assert.ok(replies.length <= 1, `${replies.length} replies`);
      assert.equal(await grantsOf(hidden), 0);
      assert.equal(
        await grantsOf(open),
        replies[0]?.status === 200 ? 1 : 0,
        "done if and only if it was answered so",
      );
    });

  test("a body where none is taken hides nothing", async () => {
    const hidden = fresh("hidden");
    const inner = acquire(hidden);
    for (const [method, path] of [
      ["GET", "/whoami"],
      ["GET", `/locks/${hidden}`],
      ["DELETE", "/sessions/none"],
    ] as const) {
      const head = `${method} ${path} HTTP/1.1\r\n${base}`;
      await poke(`${head}Content-Length: ${inner.length}\r\n\r\n${inner}`);
      await poke(
        `${head}Transfer-Encoding: chunked\r\n\r\n${inner.length.toString(16)}\r\n${inner}\r\n0\r\n\r\n`,
      );
    }
    assert.equal(await grantsOf(hidden), 0);
  });

  test("what follows a request that is being done is never taken for its reply", async () => {
    const garbage = [
      "no request\r\n\r\n",
      "GET /\0 HTTP/1.1\r\n\r\n",
      `GET /health HTTP/1.1\r\nX: ${"x".repeat(20_000)}\r\n\r\n`,
    ];
    for (const after of [...garbage, "CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example\r\n\r\n"]) {
      const name = fresh("done");
      const [first] = await poke(acquire(name) + after);
      // Cut off is honest; a refusal would be believed, though the lease was granted.
      if (first !== undefined) assert.equal(first.status, 200, `${after.slice(0, 20)}: ${first.text}`);
    }
  });

  test("CONNECT is refused in words", async () => {
    const [reply, ...more] = await poke("CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    assert.deepEqual([reply?.status, reply?.body.code, more.length], [405, "method_not_allowed", 0]);
  });

  test("several good ones are answered in their order", async () => {
    const names = [fresh("row"), fresh("row"), fresh("row")];
    const replies = await poke(names.map((name) => acquire(name)).join(""));
    assert.deepEqual(
      replies.map(({ body }) => body.name),
      names,
    );
  });
});

describe("requests of one connection whose caller has gone", () => {
  /** Sends them all at once, lets the server take them up, and goes away. */
  async function comeAndGo(bytes: string, isThere: () => Promise<void>): Promise<void> {
    const socket = await dial(server);
    socket.write(bytes);
    await eventually(isThere);
    socket.destroy();
  }

  test("none of them waits on, and none is granted what it waited for", async () => {
    const name = fresh("left");
    const { lease_id } = await ok(server, "acquireLock", { token: operator, name });
    const waiters = (count: number) => async (): Promise<void> =>
      assert.equal(await gauge(server, "waiters"), count);
    await comeAndGo(acquire(name, '{"wait_seconds":60}').repeat(3), waiters(3));
    await eventually(waiters(0));
    await ok(server, "releaseLock", { token: operator, name, body: { lease_id } });
    assert.equal(await grantsOf(name), 1, "granted to somebody who had left");
  });

  test("none of their streams stays open", async () => {
    const streams = (count: number) => async (): Promise<void> =>
      assert.equal(await gauge(server, "streams"), count);
    await comeAndGo(`GET /watch HTTP/1.1\r\n${base}\r\n`.repeat(5), streams(5));
    await eventually(streams(0));
  });
});

const encodable = hostileNames.filter(({ name }) => !/\p{Surrogate}/u.test(name));
const methods = fc.constantFrom(
  "GET",
  "POST",
  "DELETE",
  "HEAD",
  "PUT",
  "OPTIONS",
  "TRACE",
  "CONNECT",
  "PRI",
  "get",
  "G ET",
  "",
);
const targets = fc.oneof(
  fc.constantFrom(
    ...[
      "/whoami",
      "/locks",
      "/sessions",
      "/health",
      "*",
      "",
      "?",
      "//",
      "/..",
      "http://",
      "http://evil.example/whoami",
    ],
  ),
  fc.constantFrom(...hostileSegments.map(([, segment]) => `/locks/${segment}`)),
  fc.constantFrom(...encodable.map(({ name }) => `/jobs/${encodeURIComponent(name)}`)),
  fc.string({ unit: "binary-ascii", maxLength: 30 }).map((text) => `/${text}`),
);
const versions = fc.constantFrom(
  "HTTP/1.1",
  "HTTP/1.1",
  "HTTP/1.1",
  "HTTP/1.0",
  "HTTP/2.0",
  "HTTP/0.9",
  "http/1.1",
  "",
);
const headerNames = fc.oneof(
  fc.constantFrom(
    ...[
      "Host",
      "host",
      "HOST",
      "Authorization",
      "authorization",
      "Content-Length",
      "content-LENGTH",
      "Transfer-Encoding",
    ],
    ...[
      "Content-Type",
      "Connection",
      "Upgrade",
      "Expect",
      "TE",
      "Trailer",
      "Content-Encoding",
      "Accept",
      "Cookie",
      "Range",
    ],
    ...[
      "Idempotency-Key",
      "Holdfast-Space",
      "Last-Event-ID",
      "Origin",
      "X-Forwarded-For",
      "Forwarded",
      "X-Request-Id",
    ],
    ...["__proto__", "constructor", "Host ", " Host", "Ho\0st", ""],
  ),
  fc.string({ unit: "binary-ascii", maxLength: 10 }),
);
const headerValues = fc.oneof(
  fc.constantFrom(
    ...[
      "",
      " ",
      "0",
      "2",
      "5",
      "-1",
      "1e3",
      "chunked",
      "identity",
      "gzip",
      "close",
      "keep-alive",
      "upgrade",
      "h2c",
      "websocket",
    ],
    ...[
      "100-continue",
      "application/json",
      "application/json; charset=utf-16",
      "text/plain",
      "*/*",
      "null",
      "default",
      "other",
    ],
    ...[
      "127.0.0.1",
      "evil.example",
      "[::1]",
      "127.0.0.1:99999",
      "bytes=0-",
      `Bearer ${token}`,
      "Bearer",
      "Bearer  x",
      "bearer\tx",
    ],
    ...[
      "a".repeat(300),
      "b".repeat(9000),
      "c".repeat(17_000),
      "\x80\xff",
      "a\rb",
      "a\nb",
      "a\0b",
      "\x1b[31m",
    ],
  ),
  fc.string({ unit: "binary-ascii", maxLength: 40 }),
);
const headers = fc.array(fc.tuple(headerNames, headerValues), { maxLength: 6 });
const bodies = fc.oneof(
  fc.constantFrom(
    "",
    "{}",
    "{",
    "0\r\n\r\n",
    "2\r\n{}\r\n0\r\n\r\n",
    "2;x=y\r\n{}\r\n0\r\nA: b\r\n\r\n",
    "ffffffff\r\n",
    "\0",
  ),
  fc.string({ unit: "binary-ascii", maxLength: 60 }),
);
/** Half of them come with a good host and token, so that they get further than the door. */
const request = fc
  .tuple(methods, targets, versions, fc.boolean(), headers, bodies)
  .map(([method, target, version, isGood, more, body]) => {
    const lines = more.map(([name, value]) => `${name}: ${value}\r\n`).join("");
    return `${method} ${target} ${version}\r\n${isGood ? base : ""}${lines}\r\n${body}`;
  });

describe("by chance", () => {
  test("whatever is sent, what comes back is sound", async () => {
    const { seed, numRuns } = runs(400);
    const all = fc.sample(request, { seed, numRuns });
    // Many at once: a request that is not complete is waited for.
    while (all.length > 0)
      await Promise.all(
        all
          .splice(0, 50)
          .map((bytes) =>
            poke(bytes).catch((error: Error) =>
              assert.fail(`seed ${seed}: ${JSON.stringify(bytes)}: ${error.message}`),
            ),
          ),
      );
  });

  test("the headers that mean something, twice and in any case, mean one thing or are refused", async () => {
    const name = fresh("twice");
    const ask = async (lines: string): Promise<Answered> => {
      const [reply, ...more] = await poke(`GET /whoami HTTP/1.1\r\nConnection: close\r\n${lines}\r\n`);
      assert.ok(reply && more.length === 0);
      return reply;
    };
    const host = "hOsT: 127.0.0.1\r\n";
    const bearer = (secret: string): string => `aUTHORIZATION: bEARER ${secret}\r\n`;
    assert.equal((await ask(`${host}${bearer(token)}${bearer(operator)}`)).body.principal, "runner-1");
    assert.equal((await ask(`${host}${bearer("nobody")}${bearer(operator)}`)).status, 401);
    assert.equal((await ask(`Host: evil.example\r\n${host}${bearer(token)}`)).status, 403);
    const spaces = "Holdfast-Space: default\r\nHoldfast-Space: other\r\n";
    assert.equal((await ask(`${host}${bearer(operator)}${spaces}`)).status, 422);
    const twoKeys = `${base}Idempotency-Key: a\r\nIdempotency-Key: b\r\n${jsonType}Content-Length: 18\r\n\r\n{"request_id":"a"}`;
    const [both] = await poke(`POST /locks/${name}/acquire HTTP/1.1\r\n${twoKeys}`);
    assert.equal(both?.status, 422, "one of two keys must not be chosen");
  });

  test("the server lives, has not grown, and holds nothing back", async () => {
    assert.equal((await send(server, "GET", "/ready")).status, 200);
    const grown = memoryMb(server) - before_;
    assert.ok(grown < growthMaxMb, `${Math.round(grown)} MB more than before`);
    await eventually(async () =>
      assert.equal(await gauge(server, "requests_in_work"), 1, "but the one that asks"),
    );
  });
});
