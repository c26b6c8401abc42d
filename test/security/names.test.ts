// The corpus of hostile names through HTTP and into the log: each is stored in its one form or refused, wherever a
// caller can write it; replies are proper JSON, fit to be read by people, and never a page; the log stays one JSON
// object a line.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { type Answered, assertError, ok, refused, send } from "../http-api.js";
import { watch } from "../http-stream.js";
import { adminToken as operator, type Server, startServer } from "../server.js";
import { type HostileName, hostileNames, hostileSegments, unprintable } from "./hostile-names.js";
import { assertSound, staticSecrets } from "./soundness.js";

const token = "secret-a";
const other = "secret-b";
const isWhole = (text: string): boolean => !/\p{Surrogate}/u.test(text);
const names = hostileNames.filter(({ name }) => isWhole(name));
let server: Server;
let page = "";
let document_ = "";

const withoutNonce = (html: string): string => html.replaceAll(/nonce="[^"]*"/g, "");

before(async () => {
  const env = { HOLDFAST_RATE_LIMIT: "off", HOLDFAST_OVERLOAD_MS: "off", HOLDFAST_LOG_LEVEL: "trace" };
  server = await startServer({ env });
  page = withoutNonce((await send(server, "GET", "/docs")).text);
  document_ = (await send(server, "GET", "/openapi.json")).text;
});
after(async () => {
  await server.stop();
  const written = server.stderr();
  for (const line of written.split("\n").filter(Boolean)) {
    assert.doesNotMatch(line, unprintable);
    const parsed = JSON.parse(line) as { level: number; msg: string };
    assert.ok(typeof parsed === "object" && parsed.level < 50 && typeof parsed.msg === "string", line);
  }
  for (const secret of staticSecrets) assert.ok(!written.includes(secret));
});

/** Sound, JSON, and no page that a browser would run. */
function assertHarmless(reply: Answered, what: string): void {
  assertSound(reply, what);
  assert.match(
    reply.headers["content-type"] ?? "application/json",
    /^application\/json; charset=utf-8$|^application\/json$/,
  );
  for (const header of ["x-injected", "set-cookie", "location"])
    assert.equal(reply.headers[header], undefined);
}

describe("as the name", () => {
  for (const { what, name, stored } of names)
    test(`${what}: ${stored === null ? "refused" : "taken"}`, async () => {
      if (stored === null) {
        for (const id of ["acquireLock", "watchLock", "claimJob"] as const) {
          const body = id === "watchLock" ? {} : { body: {} };
          const { details } = await refused(server, id, { token, name, ...body }, 400, "invalid_lock_name");
          assert.doesNotMatch(details, unprintable);
        }
        return;
      }
      const lease = await ok(server, "acquireLock", { token, name, body: { metadata: name } });
      assert.deepEqual([lease.status, lease.name, lease.metadata], ["acquired", stored, name]);
      const { locks } = await ok(server, "listLocks", { token, query: { prefix: stored } });
      assert.ok(locks.some((lock) => lock.name === stored));
      const stream = await watch(server, `/locks/${encodeURIComponent(name)}/watch`, { token });
      const [snapshot] = await stream.synced();
      assert.equal(snapshot?.data.name, stored);
      await ok(server, "releaseLock", { token, name, body: { lease_id: lease.lease_id } });
      const released = await stream.next();
      assert.deepEqual([released.event, released.data.name], ["released", stored]);
      stream.close();
    });

  for (const [what, segment] of hostileSegments)
    test(`${what}, as it stands in the path: refused`, async () => {
      for (const path of [`/locks/${segment}`, `/locks/${segment}/watch`, `/jobs/${segment}`]) {
        const reply = await send(server, "GET", path, { token });
        assert.deepEqual([reply.status, reply.body.code], [400, "invalid_lock_name"], reply.text);
        assertHarmless(reply, path);
      }
    });

  test("two spellings of one name are one, two names that look alike are two", async () => {
    const spellings = new Map<string, HostileName[]>();
    for (const each of names)
      if (each.stored !== null) spellings.set(each.stored, [...(spellings.get(each.stored) ?? []), each]);
    for (const [stored, [first, ...same]] of spellings) {
      const { lease_id } = await ok(server, "acquireLock", { token, name: first?.name ?? "" });
      for (const { name } of same) {
        const held = await ok(server, "acquireLock", { token: other, name });
        assert.deepEqual([held.status, held.name], ["held", stored]);
      }
      const compatible = stored.normalize("NFKC");
      if (compatible !== stored)
        assert.equal((await ok(server, "getLock", { token, name: compatible })).status, "free", compatible);
      await ok(server, "releaseLock", { token, name: stored, body: { lease_id } });
    }
    assert.ok([...spellings.values()].some(({ length }) => length > 1));
  });
});

describe("wherever else a caller can write", () => {
  test("as a label, metadata, progress, note and reason they come back as they went in, and harm no message", async () => {
    for (const [i, { name: text }] of names
      .filter(({ name }) => name !== "" && name.length <= 256)
      .entries()) {
      const name = `told-${i}`;
      const job = await ok(server, "claimJob", { token, name, body: { owner: text, metadata: { text } } });
      assert.deepEqual([job.owner, job.metadata], [text, { text }]);
      const claim = await send(server, "POST", `/jobs/${name}/claim`, { token: other });
      assert.deepEqual([claim.status, claim.body.owner], [409, text]);
      assertHarmless(claim, text);
      const { lease_id } = job;
      await ok(server, "heartbeatJob", { token, name, body: { lease_id, progress: text } });
      assert.equal((await ok(server, "getJob", { token: other, name })).progress, text);
      await ok(server, "forceReleaseLock", { token: operator, name, body: { reason: text } });
      const lost = await send(server, "POST", `/jobs/${name}/heartbeat`, { token, body: { lease_id } });
      assert.deepEqual([lost.status, lost.body.previous.reason], [409, text]);
      assertHarmless(lost, text);
    }
    const { records } = await ok(server, "listAudit", { token: operator, query: { limit: "1000" } });
    assert.ok(
      records.some(({ reason }) => reason?.includes("\u001b")),
      "kept as they were",
    );
  });

  test("as a field, a candidate, a prefix, a cursor, an id, a token's name, scope or space", async () => {
    for (const { name: text } of names) {
      const bodies: readonly (readonly [string, object])[] = [
        ["/jobs/claim", { candidates: ["free", text], lease_id: text }],
        ["/locks/free/acquire", { [text]: 1 }],
        ["/locks/free/acquire", { session_id: text, ttl_seconds: text }],
        ["/locks/free/renew", { lease_id: text }],
        ["/tokens", { name: text, role: text }],
        ["/tokens", { name: "fine", space: text, role: "no such role" }],
        ["/tokens", { name: "fine", scopes: [text], role: "no such role" }],
      ];
      const post = async (path: string, body: object): Promise<void> => {
        const reply = await send(server, "POST", path, { token: operator, body });
        assert.ok(reply.status >= 400, `${path} ${JSON.stringify(body)}: ${reply.text}`);
        assertHarmless(reply, text);
      };
      await Promise.all(bodies.map(([path, body]) => post(path, body)));
      const coded = encodeURIComponent(text);
      const looks = [
        `/locks?prefix=${coded}`,
        `/locks?cursor=${coded}`,
        `/jobs?owner=${coded}`,
        `/jobs?${coded}=1`,
      ];
      const ids = [`/sessions/${coded}`, `/tokens/${coded}/rotate`, `/${coded}`, `/locks/x/${coded}`];
      const calls = [
        ...looks.map((path) => send(server, "GET", path, { token })),
        ...(text === "" ? [] : ids.map((path) => send(server, "PUT", path, { token }))),
      ];
      for (const reply of await Promise.all(calls)) assertHarmless(reply, text);
    }
    assert.equal((await ok(server, "getLock", { token, name: "free" })).fencing_token, 0);
  });

  test("as a header's value", async () => {
    const headers = ["idempotency-key", "holdfast-space", "authorization", "origin", "x-request-id"];
    for (const { name: text } of names) {
      // What cannot stand in a header at all is for the tests of HTTP itself.
      const bytes = [...Buffer.from(text).toString("latin1")];
      const value = bytes
        .filter((byte) => byte >= " " && byte !== "\x7f")
        .join("")
        .trim();
      await Promise.all(
        headers.map(async (header) => {
          const path = "/locks/invalid!name/acquire";
          const reply = await send(server, "POST", path, { token: operator, headers: { [header]: value } });
          assertHarmless(reply, value);
          assert.ok(reply.status >= 400);
        }),
      );
    }
  });

  test("the API's page and document never say it again", async () => {
    /** What was asked for, as it always is; or a refusal. */
    const assertPlain = (reply: Answered, plain: string, what: string): void => {
      if (reply.status === 200) assert.equal(withoutNonce(reply.text), plain);
      else assertHarmless(reply, what);
    };
    for (const { name: text } of names) {
      const coded = encodeURIComponent(text);
      assertPlain(await send(server, "GET", `/docs?${coded}=${coded}`), page, text);
      const below = await send(server, "GET", `/docs/${coded}`);
      assertError(below);
      assertHarmless(below, text);
    }
    const all = names.map(({ name }) => encodeURIComponent(name).slice(0, 100)).join("&");
    assertPlain(await send(server, "GET", `/openapi.json?${all}`), document_, all);
  });
});
