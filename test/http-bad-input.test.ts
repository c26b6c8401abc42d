// Bad bodies, mostly generated from the route table (the work graph's have their own file): each request gets the status and the error body of the
// contract, changes nothing, and the server goes on.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Route } from "../src/wire/routes.js";
import { passing } from "./engines/store-of.js";
import {
  type Answered,
  assertError,
  assertReply,
  type Body,
  type Call,
  call,
  fresh,
  leaseTable,
  ok,
  pathOf,
  refused,
  send,
} from "./http-api.js";
import { adminToken, type Server, startServer } from "./server.js";

const one = "secret-a";
const json = { "content-type": "application/json" };
let server: Server;
/** What is held while all the bad requests come in. */
let victim: Body;
let before_ = "";

/** Everything that a caller can see, but for what time changes. */
async function world(): Promise<string> {
  const [locks, jobs, tokens, audit] = await Promise.all([
    ok(server, "listLocks", { token: adminToken, query: { limit: "1000" } }),
    ok(server, "listJobs", { token: adminToken, query: { limit: "1000" } }),
    ok(server, "listTokens", { token: adminToken }),
    ok(server, "listAudit", { token: adminToken }),
  ]);
  return JSON.stringify([locks, jobs, tokens, audit], (key, value) => (passing.includes(key) ? 0 : value), 1);
}

before(async () => {
  server = await startServer();
  victim = await ok(server, "acquireLock", {
    token: one,
    name: "victim",
    body: { ttl_seconds: 3600, metadata: "m" },
  });
  before_ = await world();
});
after(() => server.stop());

type Schema = {
  properties?: Record<string, Schema>;
  required?: string[];
  type?: string;
  maxLength?: number;
  anyOf?: unknown;
  enum?: unknown;
};
const bodyOf = (route: Route): Schema => (route.body ?? {}) as Schema;
const withBody = leaseTable.filter(({ body }) => body !== undefined);

/** A body that only lacks what the test spoils. */
const examples: Record<string, unknown> = {
  lease_id: "ls_x",
  ttl_seconds: 60,
  fencing_token: 1,
  reason: "r",
  candidates: ["bad-input"],
  leases: [],
  name: "bad-input",
};
const complete = (route: Route): Record<string, unknown> =>
  Object.fromEntries((bodyOf(route).required ?? []).map((field) => [field, examples[field]]));

/** Sends to a route, checks the reply against its row, returns it. */
async function post(route: Route, options: Call): Promise<Answered> {
  const full = { token: adminToken, name: "bad-input", ...options };
  const answered = await send(server, route.method, pathOf(route, full), full);
  assertReply(route, answered);
  return answered;
}

function assertRefused({ status, body, text }: Answered, expected: number, code: string, what: string): void {
  assert.deepEqual([status, body.code], [expected, code], `${what}: ${text}`);
}

describe("bodies", () => {
  for (const route of withBody) {
    test(`${route.id}: what is no JSON is 400`, async () => {
      for (const text of [
        "{",
        '{"a":}',
        "{'a':1}",
        "hello",
        '{"a":1}}',
        "[1,2",
        '"',
        "\u0000",
        '{"__proto__":{"x":1}}',
        '{"constructor":{"prototype":{}}}',
        "  ",
      ])
        assertRefused(await post(route, { text, headers: json }), 400, "invalid_input", text);
    });

    test(`${route.id}: what is no object is 422`, async () => {
      for (const text of ["null", "[]", '"text"', "5", "true"])
        assertRefused(await post(route, { text, headers: json }), 422, "invalid_input", text);
    });

    test(`${route.id}: an unknown field is 422 and names the nearest`, async () => {
      const fields = Object.keys(bodyOf(route).properties ?? {});
      for (const word of ["zzz", "toString", "hasOwnProperty", "valueOf", "x".repeat(3000), "", "é"]) {
        const reply = await post(route, { body: { ...complete(route), [word]: 1 } });
        assertRefused(reply, 422, "invalid_input", word);
        assert.ok(reply.body.details.length < 600 && !reply.body.details.includes("native code"), reply.text);
      }
      for (const field of fields) {
        const typo = `${field}_`;
        const reply = await post(route, { body: { ...complete(route), [typo]: 1 } });
        assertRefused(reply, 422, "invalid_input", typo);
        assert.ok(reply.body.details.includes(`did you mean ${field}?`), reply.text);
      }
      const acl = await post(route, { body: { ...complete(route), acl: [] } });
      assertRefused(acl, 422, "invalid_input", "acl");
      assert.match(acl.body.details, /token scopes/);
    });

    test(`${route.id}: each field missing, mistyped or too long`, async () => {
      for (const [field, schema] of Object.entries(bodyOf(route).properties ?? {})) {
        const { [field]: _, ...without } = complete(route);
        if (bodyOf(route).required?.includes(field)) {
          const reply = await post(route, { body: without });
          assertRefused(reply, 422, "invalid_input", field);
          assert.ok(reply.body.details.includes(field), reply.text);
        }
        const [status, code] = field === "ttl_seconds" ? [400, "invalid_ttl"] : [422, "invalid_input"];
        const wrong = [
          null,
          1.5,
          [[]],
          ...(schema.type === "string" || schema.anyOf ? [5, true] : ["5", {}]),
        ];
        for (const value of wrong)
          assertRefused(
            await post(route, { body: { ...without, [field]: value } }),
            Number(status),
            String(code),
            `${field}=${JSON.stringify(value)}`,
          );
        if (schema.type === "string" && schema.maxLength !== undefined) {
          const reply = await post(route, {
            body: { ...without, [field]: "x".repeat(schema.maxLength + 1) },
          });
          assertRefused(reply, 400, "invalid_input", `${field} too long`);
        }
      }
    });

    test(`${route.id}: too large is 413, another type is 415`, async () => {
      const text = JSON.stringify({ ...complete(route), metadata: "x".repeat(1_048_576) });
      assertRefused(await post(route, { text, headers: json }), 413, "too_large", "a megabyte and more");
      for (const type of [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/xml",
        "nonsense",
        "multipart/form-data; boundary=x",
      ]) {
        const reply = await post(route, {
          text: JSON.stringify(complete(route)),
          headers: { "content-type": type },
        });
        assertRefused(reply, 415, "unsupported_media_type", type);
      }
      assertRefused(await post(route, { text: "{}" }), 415, "unsupported_media_type", "no type");
    });
  }

  test("a body that is said to be in another encoding is 415", async () => {
    for (const charset of ["utf-16", "UTF-16LE", '"latin1"', "utf-80", " iso-8859-1; x=y"]) {
      const type = `application/json; charset=${charset}`;
      const reply = await send(server, "POST", "/sessions", {
        token: one,
        text: "{}",
        headers: { "content-type": type },
      });
      assertRefused(reply, 415, "unsupported_media_type", type);
      assertError(reply);
    }
  });

  test("an unknown field within a list names the nearest known one there", async () => {
    const leases = [{ job_id: "a", lease_id: "x", leas_id: "y" }];
    const { details } = (await call(server, "heartbeatJobs", { token: one, body: { leases } })).body;
    assert.match(details, /"leas_id" in leases\.0, did you mean lease_id\? \(known: job_id, lease_id\)/);
  });

  test("a charset or a suffix in the content type is fine", async () => {
    for (const type of [
      "application/json; charset=utf-8",
      "application/json;charset=UTF-8",
      'application/json; charset="utf-8"; x=y',
      "APPLICATION/JSON",
    ]) {
      const reply = await send(server, "POST", "/locks/victim/check", {
        token: one,
        text: '{"fencing_token":1}',
        headers: { "content-type": type },
      });
      assert.equal(reply.status, 200, type);
    }
  });

  test("text that is no Unicode is refused, NUL and emoji come back as they went in", async () => {
    const paths = ["/locks/odd/acquire", "/jobs/odd/claim", "/sessions"];
    for (const path of paths)
      for (const text of [
        '{"metadata":"\\ud800"}',
        '{"metadata":"a\\udc00b"}',
        '{"metadata":"\\ude00\\ud83d"}',
        '{"\\ud800":1}',
      ]) {
        const reply = await send(server, "POST", path, { token: one, text, headers: json });
        assertRefused(reply, 400, "invalid_input", `${path} ${text}`);
        assertError(reply);
      }
    const nested = { token: one, text: '{"metadata":{"a":[{"\\udfff":1}]}}', headers: json };
    assert.equal((await send(server, "POST", "/jobs/odd/claim", nested)).status, 400);
    const metadata = "\u0000 \u001f \u007f \u2028 \u202e \ufeff \ufffd 🙂 \\ud800";
    const name = fresh("unicode");
    const text = JSON.stringify({ metadata, ttl_seconds: 60 }).replace("🙂", "\\ud83d\\ude42");
    const lease = await send(server, "POST", `/locks/${name}/acquire`, { token: one, text, headers: json });
    assert.equal(lease.body.metadata, metadata);
    assert.equal((await ok(server, "getLock", { token: one, name })).metadata, metadata);
    const { locks } = await ok(server, "listLocks", { token: one, query: { prefix: name } });
    assert.equal(locks[0]?.metadata, metadata);
    await ok(server, "releaseLock", { token: one, name, body: { lease_id: lease.body.lease_id } });
  });

  test("metadata: 1,024 code points fit, 1,025 do not, as text and as an object", async () => {
    const name = fresh("long");
    const fits = ["x".repeat(1024), "é".repeat(1024), "🙂".repeat(1024)];
    for (const metadata of fits) {
      const { lease_id } = await ok(server, "acquireLock", { token: one, name, body: { metadata } });
      await ok(server, "releaseLock", { token: one, name, body: { lease_id } });
      const job = await ok(server, "claimJob", { token: one, name, body: { metadata } });
      assert.equal(job.metadata, metadata);
      await ok(server, "releaseLock", { token: one, name, body: { lease_id: job.lease_id } });
      for (const id of ["acquireLock", "claimJob"] as const)
        await refused(
          server,
          id,
          { token: one, name, body: { metadata: `${metadata}y` } },
          400,
          "invalid_input",
        );
      await refused(
        server,
        "createSession",
        { token: one, body: { metadata: `${metadata}y` } },
        400,
        "invalid_input",
      );
    }
    const object = { k: "🙂".repeat(1024 - 8) };
    const { lease_id } = await ok(server, "claimJob", { token: one, name, body: { metadata: object } });
    await ok(server, "releaseLock", { token: one, name, body: { lease_id } });
    const longer = { k: `${object.k}y` };
    await refused(server, "claimJob", { token: one, name, body: { metadata: longer } }, 400, "invalid_input");
    await refused(
      server,
      "claimAnyJob",
      { token: one, body: { candidates: [name], metadata: longer } },
      400,
      "invalid_input",
    );
    await refused(server, "acquireLock", { token: one, name, body: { metadata: {} } }, 422, "invalid_input");
    await refused(server, "claimJob", { token: one, name, body: { owner: "" } }, 422, "invalid_input");
  });

  test("what is nested beyond reason is too long, not a fault", async () => {
    const deep = `{"a":${"[".repeat(200_000)}${"]".repeat(200_000)}}`;
    for (const text of [`{"metadata":${deep}}`, `{"request_id":"deep","metadata":${deep}}`])
      assertRefused(
        await send(server, "POST", "/jobs/deep/claim", { token: one, text, headers: json }),
        400,
        "invalid_input",
        "deep",
      );
    const among = `{"candidates":["deep"],"metadata":${deep}}`;
    assertRefused(
      await send(server, "POST", "/jobs/claim", { token: one, text: among, headers: json }),
      400,
      "invalid_input",
      "deep",
    );
    const escaped = `{"metadata":{"a":${"[".repeat(90_000)}"\\ud83d\\ude42"${"]".repeat(90_000)}}}`;
    assertRefused(
      await send(server, "POST", "/jobs/deep/claim", { token: one, text: escaped, headers: json }),
      400,
      "invalid_input",
      "deep",
    );
    assertRefused(
      await send(server, "POST", "/sessions", { token: one, text: deep, headers: json }),
      422,
      "invalid_input",
      "deep",
    );
  });

  test("of a field that stands twice the last counts, as in every JSON reader", async () => {
    const text = '{"ttl_seconds":60,"ttl_seconds":0}';
    assertRefused(
      await send(server, "POST", "/locks/twice/acquire", { token: one, text, headers: json }),
      400,
      "invalid_ttl",
      text,
    );
  });
});

describe("TTLs", () => {
  const texts = [
    "0",
    "-1",
    "1.5",
    "1e308",
    "1e400",
    '"5"',
    "null",
    "86401",
    "true",
    "[]",
    "{}",
    "-0",
    "0.9999999999999999",
    "9007199254740993",
  ];
  const routes: readonly (readonly [string, string])[] = [
    ["/locks/victim/acquire", "{}"],
    ["/locks/victim/renew", '{"lease_id":"LEASE"}'],
    ["/locks/victim/extend", '{"lease_id":"LEASE"}'],
    ["/jobs/victim/claim", "{}"],
    ["/jobs/claim", '{"candidates":["victim"]}'],
    ["/jobs/victim/heartbeat", '{"lease_id":"LEASE"}'],
    ["/sessions", "{}"],
  ];
  for (const [path, rest] of routes)
    test(`POST ${path}: each bad one is 400 invalid_ttl`, async () => {
      for (const ttl of texts) {
        const head = rest === "{}" ? "{" : `${rest.slice(0, -1).replace("LEASE", victim.lease_id)},`;
        const text = `${head}"ttl_seconds":${ttl}}`;
        const reply = await send(server, "POST", path, { token: one, text, headers: json });
        assertRefused(reply, 400, "invalid_ttl", text);
        assertError(reply);
      }
    });

  test("1 s, a day and 60.0 are fine", async () => {
    for (const ttl of ["1", "86400", "60.0", "6e1"]) {
      const name = fresh("ttl");
      const reply = await send(server, "POST", `/locks/${name}/acquire`, {
        token: one,
        text: `{"ttl_seconds":${ttl}}`,
        headers: json,
      });
      assert.equal(reply.body.expires_in_ms, Number(ttl) * 1000);
      await ok(server, "releaseLock", { token: one, name, body: { lease_id: reply.body.lease_id } });
    }
  });
});

describe("what a route does not take", () => {
  for (const route of leaseTable)
    test(`${route.id}: an unknown parameter is 422, and so is a body where there is none`, async () => {
      const body = route.body === undefined ? {} : { body: complete(route) };
      const reply = await post(route, { ...body, query: { zzz: "1" } });
      assertRefused(reply, 422, "invalid_input", "zzz");
      assert.match(reply.body.details, /^Unknown parameter "zzz"/);
      if (route.method !== "DELETE" || route.body !== undefined) return;
      assertRefused(await post(route, { body: { foo: 1 } }), 422, "invalid_input", "foo");
    });
});

describe("empty bodies", () => {
  const types: readonly Record<string, string>[] = [
    {},
    json,
    { "content-type": "application/json; charset=utf-8" },
    { "content-type": "text/plain" },
  ];
  for (const route of leaseTable.filter(
    ({ id }) => id !== "watchLock" && id !== "watchLocks" && id !== "backup",
  ))
    test(`${route.method} ${route.path}: with and without a content type`, async () => {
      const missing = (bodyOf(route).required ?? []).length > 0;
      for (const headers of types)
        for (const text of [undefined, ""]) {
          const name = fresh("empty");
          const reply = await post(route, { name, headers, ...(text === undefined ? {} : { text }) });
          if (missing) assertRefused(reply, 422, "invalid_input", JSON.stringify(headers));
          else
            assert.ok(
              reply.status < 300 || reply.status === 404,
              `${JSON.stringify(headers)}: ${reply.text}`,
            );
          if (reply.body?.lease_id !== undefined)
            await ok(server, "releaseLock", {
              token: adminToken,
              name,
              body: { lease_id: reply.body.lease_id },
            });
        }
    });
});

describe("after all that", () => {
  test("nothing changed, nothing failed inside, and the server goes on", async () => {
    assert.equal(await world(), before_);
    const { lease_id, fencing_token } = victim;
    const renewed = await ok(server, "renewLock", { token: one, name: "victim", body: { lease_id } });
    assert.equal(renewed.fencing_token, fencing_token);
    assert.ok(!server.stderr().includes('"level":50'), server.stderr());
    assert.equal((await call(server, "health", {})).status, 200);
  });
});
