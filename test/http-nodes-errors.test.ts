// The error body under /v1: one shape for every kind of failure, wherever on the way it happened, and bad input of
// every kind, mostly generated from the route table. Nothing of it changes anything.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Route } from "../src/wire/routes.js";
import { passing } from "./engines/store-of.js";
import {
  type Answered,
  assertError,
  assertReply,
  type Call,
  call,
  codeOf,
  nodeTable,
  ok,
  pathOf,
  send,
} from "./http-api.js";
import { crew, Graph, one, type Refusal, startGraphServer, viewer } from "./http-node-api.js";
import { exchange } from "./security/raw-exchange.js";
import { adminToken, type Server, startServer } from "./server.js";

const json = { "content-type": "application/json" };
let server: Server;
const graph = new Graph(() => server);
let victim = "";
let before_ = "";

/** All that a call could have changed. */
async function world(): Promise<string> {
  const nodes = await ok(server, "listNodes", { token: viewer, query: { limit: "1000" } });
  const policy = await ok(server, "getPolicy", { token: viewer });
  return JSON.stringify([nodes, policy, await graph.history(victim)], (key, value) =>
    passing.includes(key) ? 0 : value,
  );
}

before(async () => {
  server = await startGraphServer();
  victim = await graph.create({ id: "victim" });
  await graph.claim(victim, { session: "s1" });
  before_ = await world();
});
after(async () => {
  await server.stop();
  assert.ok(!server.stderr().includes('"level":50'), server.stderr());
});

function assertRefused(reply: Answered, status: number, code: string, what: string): Refusal["error"] {
  assert.deepEqual([reply.status, codeOf(reply)], [status, code], `${what}: ${reply.text}`);
  assertError(reply);
  const body = reply.body as unknown as Refusal;
  assert.deepEqual(Object.keys(body), body.holder === undefined ? ["error"] : ["error", "holder"]);
  return body.error;
}

async function ask(route: Route, options: Call): Promise<Answered> {
  const full = { token: adminToken, name: victim, ...options };
  const reply = await send(server, route.method, pathOf(route, full), full);
  assertReply(route, reply);
  return reply;
}

type Schema = { properties?: Record<string, { type?: string }>; required?: string[] };
const bodyOf = (route: Route): Schema => (route.body ?? {}) as Schema;
const withBody = nodeTable.filter(({ body }) => body !== undefined);
/** A body that only lacks what the test spoils, and would do nothing. */
const examples: Record<string, unknown> = {
  id: "victim",
  type: "blocks",
  title: "t",
  to: "nowhere",
  reason: "r",
  revision: 999_999,
  ms: 1,
  status: "nonsense",
  ids: ["nowhere"],
};
const complete = (route: Route): Record<string, unknown> =>
  Object.fromEntries((bodyOf(route).required ?? []).map((field) => [field, examples[field]]));

describe("bodies", () => {
  for (const route of withBody) {
    test(`${route.id}: no JSON, no object, an unknown field: 400`, async () => {
      for (const text of [
        "{",
        "hello",
        '{"a":1}}',
        "\u0000",
        '{"__proto__":{"x":1}}',
        "  ",
        "null",
        "[]",
        '"text"',
        "5",
      ])
        assertRefused(await ask(route, { text, headers: json }), 400, "invalid_input", text);
      for (const word of ["zzz", "toString", "x".repeat(3000), "", "é"]) {
        const reply = await ask(route, { body: { ...complete(route), [word]: 1 } });
        assertRefused(reply, 400, "invalid_input", word);
      }
      for (const field of Object.keys(bodyOf(route).properties ?? {})) {
        const reply = await ask(route, { body: { ...complete(route), [`${field}_`]: 1 } });
        const { message } = assertRefused(reply, 400, "invalid_input", field);
        assert.ok(message.includes(`did you mean ${field}?`), message);
      }
    });

    test(`${route.id}: another content type is 415, too much is 413`, async () => {
      for (const type of [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/json; charset=latin1",
      ])
        assertRefused(
          await ask(route, { text: "{}", headers: { "content-type": type } }),
          415,
          "invalid_input",
          type,
        );
      const large = `{"a":"${"x".repeat(1_100_000)}"}`;
      assertRefused(await ask(route, { text: large, headers: json }), 413, "too_large", "large");
    });

    test(`${route.id}: each field refuses other kinds of values`, async () => {
      for (const [field, { type }] of Object.entries(bodyOf(route).properties ?? {}))
        for (const value of [true, { a: 1 }, type === "string" || type === undefined ? 5 : "5"]) {
          if (typeof value === type) continue;
          const reply = await ask(route, { body: { ...complete(route), [field]: value } });
          const code = codeOf(reply);
          const fits =
            reply.status === 422 ? code === "invalid_node" : reply.status === 400 && code === "invalid_input";
          assert.ok(fits, `${field}: ${JSON.stringify(value)}: ${reply.text}`);
        }
    });
  }

  for (const route of nodeTable)
    test(`${route.id}: an unknown parameter is 400, and what is missing is said`, async () => {
      const body = route.body === undefined ? {} : { body: complete(route) };
      const reply = await ask(route, { ...body, query: { zzz: "1" } });
      assert.match(assertRefused(reply, 400, "invalid_input", "zzz").message, /^Unknown parameter "zzz"/);
      for (const field of bodyOf(route).required ?? []) {
        const { [field]: _, ...rest } = complete(route);
        const lacking = await ask(route, { body: rest });
        assert.ok([400, 422].includes(lacking.status), lacking.text);
        assert.match(
          assertRefused(lacking, lacking.status, codeOf(lacking), field).message,
          new RegExp(`^${field} `),
        );
      }
    });

  test("nothing changed", async () => assert.equal(await world(), before_));
});

describe("on the way", () => {
  test("no token, a wrong one, too low a role, another's space, a wrong host", async () => {
    for (const { method, path, access } of nodeTable) {
      const url = path.replace("{id}", victim);
      const reply = await send(server, method, url);
      assertRefused(reply, 401, "unauthorized", url);
      assert.match(String(reply.headers["www-authenticate"]), /^Bearer/);
      assertRefused(await send(server, method, url, { token: "wrong" }), 401, "unauthorized", url);
      if (access !== "observer")
        assertRefused(await send(server, method, url, { token: viewer, body: {} }), 403, "forbidden", url);
      const elsewhere = { "holdfast-space": "elsewhere" };
      assertRefused(
        await send(server, method, url, { token: one, headers: elsewhere }),
        403,
        "forbidden",
        url,
      );
      assertRefused(
        await send(server, method, url, { token: one, headers: { host: "evil.example" } }),
        403,
        "forbidden",
        url,
      );
    }
  });

  test("unknown paths, other methods, paths that cannot be read", async () => {
    for (const path of ["/v1", "/v1/", "/v1/node", "/v1/nodes/a/b/c", "/v1/queue/nothing", "/v1?x=1"])
      assertRefused(await send(server, "GET", path, { token: one }), 404, "not_found", path);
    const reply = await send(server, "PATCH", "/v1/nodes/victim", { token: one, text: "{" });
    assert.match(assertRefused(reply, 405, "invalid_input", "PATCH").message, /takes GET or PUT/);
    assert.equal(reply.headers.allow, "GET, PUT");
    const broken = await send(server, "GET", "/v1/nodes/%zz", { token: one });
    assertRefused(broken, 400, "invalid_input", "%zz");
    assert.equal(codeOf(await send(server, "GET", "/v2/nodes", { token: one })), "not_found");
    assert.equal(typeof (await send(server, "GET", "/v10", { token: one })).body.error, "string");
  });

  test("what is not UTF-8, and half characters", async () => {
    for (const body of [Buffer.from([0x7b, 0xff, 0x7d]), Buffer.from('{"session":"\\ud800"}')]) {
      const head = `POST /v1/nodes/victim/claim HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nAuthorization: Bearer ${one}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
      const [reply] = await exchange(server, Buffer.concat([Buffer.from(head), body]));
      assert.ok(reply);
      assertRefused(reply, 400, "invalid_input", body.toString());
    }
  });

  test("queries: page sizes and cursors of elsewhere", async () => {
    for (const [id, query] of [
      ["listNodes", { limit: "0" }],
      ["listNodes", { limit: "1001" }],
      ["listNodes", { limit: "ten" }],
      ["listNodes", { cursor: "nonsense" }],
      ["listNodes", { prefix: "A/" }],
      ["listNodes", { type: "No" }],
      ["listQueue", { assignee: "no/body" }],
      ["listQueue", { parked: "yes" }],
      ["listQueue", { cursor: Buffer.from("other/task/1").toString("base64url") }],
      ["nodeHistory", { limit: "0" }],
      ["nodeHistory", { after: "x" }],
    ] as const) {
      const reply = await call(server, id, { token: one, name: victim, query });
      assertRefused(reply, 400, "invalid_input", `${id} ${JSON.stringify(query)}`);
    }
  });

  test("request ids: two that differ, one that is none", async () => {
    for (const [body, key] of [
      [{ request_id: "a" }, "b"],
      [{}, "x".repeat(129)],
      [{ request_id: "" }, undefined],
    ] as const) {
      const headers = key === undefined ? {} : { "idempotency-key": key };
      const reply = await call(server, "claimNode", { token: one, name: victim, body, headers });
      assertRefused(reply, 400, "invalid_input", JSON.stringify([body, key]));
    }
  });

  test("too many requests", async () => {
    await using slow = await startServer({ env: { HOLDFAST_RATE_LIMIT: "5" } });
    const replies = await Promise.all(
      Array.from({ length: 30 }, () => send(slow, "GET", "/v1/policy", { token: one })),
    );
    const limited = replies.find(({ status }) => status === 429);
    assert.ok(limited);
    const { details } = assertRefused(limited, 429, "rate_limited", "rate");
    assert.ok(Number(details["retry_after_ms"]) > 0 && Number(limited.headers["retry-after"]) >= 1);
  });

  test("a server that stops tells who waits for work to come back", async () => {
    const own = await startGraphServer();
    const { bob } = await crew(own);
    const waiting = send(own, "POST", "/v1/queue/next", { token: bob, body: { wait_seconds: 60 } });
    const metrics = async (): Promise<string> => (await send(own, "GET", "/metrics")).text;
    while (!/^holdfast_work_waiters 1$/m.test(await metrics())) await new Promise(setImmediate);
    const stopped = own.stop();
    assertRefused(await waiting, 503, "unavailable", "stopping");
    assert.equal(await stopped, 0);
  });

  test("nothing changed", async () => assert.equal(await world(), before_));
});
