// Bearer tokens over HTTP: made, listed, revoked, rotated, expired; scopes on paths, candidates, bulk, lists and
// streams; spaces that see nothing of each other; the operator who may name one; the audit trail of it all.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { lasting } from "./engines/store-of.js";
import {
  assertError,
  type Body,
  call,
  fresh,
  ok,
  refused,
  send,
  type TokenBody,
  waitersOn,
} from "./http-api.js";
import { told, watch } from "./http-stream.js";
import { adminToken as operator, type Server, startServer } from "./server.js";

const one = "secret-a";
let server: Server;

before(async () => {
  server = await startServer();
});
after(() => server.stop());

const make = (body: object = {}, token = operator): Promise<TokenBody> =>
  ok<TokenBody>(server, "createToken", { token, body: { name: fresh("worker"), ...body } });
const list = async (token = operator): Promise<TokenBody[]> =>
  (await ok<{ tokens: TokenBody[] }>(server, "listTokens", { token })).tokens;
const acquire = (token: string, name: string, body: object = {}): Promise<Body> =>
  ok(server, "acquireLock", { token, name, body });

describe("making tokens", () => {
  test("a worker of the caller's space for every name, unless said otherwise", async () => {
    const name = fresh("ci");
    const made = await make({ name });
    assert.deepEqual([made.name, made.role, made.scopes, made.space], [name, "worker", ["*"], "default"]);
    assert.match(made.token, /^hf_[0-9A-Za-z]{12}_[0-9A-Za-z]{38}$/);
    assert.equal(made.expires_at, null);
    const me = await ok(server, "whoami", { token: made.token });
    assert.deepEqual(me, {
      principal: name,
      space: "default",
      role: "worker",
      scopes: ["*"],
      expires_at: null,
    } as never);
  });

  test("the secret is shown once and never again", async () => {
    const made = await make();
    const { text } = await call(server, "listTokens", { token: operator });
    assert.ok(text.includes(made.id) && !text.includes(made.token) && !text.includes(made.token.slice(-20)));
    assert.ok(!server.stderr().includes(made.token));
  });

  test("names are principals, unique in their space, the configured ones too", async () => {
    const name = fresh("twin");
    await make({ name });
    for (const taken of [name, "runner-1", "operator"])
      await refused(server, "createToken", { token: operator, body: { name: taken } }, 409, "conflict");
    assert.equal((await make({ name, space: "elsewhere" })).space, "elsewhere");
  });

  test("of one name asked for at once, one is made", async () => {
    const name = fresh("race");
    const replies = await Promise.all(
      Array.from({ length: 10 }, () => call(server, "createToken", { token: operator, body: { name } })),
    );
    assert.equal(replies.filter(({ status }) => status === 201).length, 1);
    assert.equal((await list()).filter((token) => token.name === name).length, 1);
  });

  const bad: readonly (readonly [string, object])[] = [
    ["no name", { name: undefined }],
    ["an odd name", { name: "a b" }],
    ["a name with a slash", { name: "a/b" }],
    ["an unknown role", { role: "root" }],
    ["the role operator", { role: "operator" }],
    ["no scopes", { scopes: [] }],
    ["an odd space", { space: "a/b" }],
    ["no time", { expires_in_seconds: 0 }],
    ["acl", { acl: ["deploy-*"] }],
  ];
  for (const [what, body] of bad)
    test(`${what} is refused, and nothing made`, async () => {
      const before = (await list()).length;
      await refused(
        server,
        "createToken",
        { token: operator, body: { name: fresh("bad"), ...body } },
        422,
        "invalid_input",
      );
      assert.equal((await list()).length, before);
    });
});

describe("the end of a token", () => {
  test("revoked: refused at once, its streams and waits end, its leases run out", async () => {
    const { id, token, name: principal } = await make();
    const [held, waited] = [fresh("held"), fresh("waited")];
    const { lease_id } = await acquire(token, held);
    await acquire(one, waited);
    const stream = await watch(server, "/watch", { token });
    await stream.synced();
    const waiting = call(server, "acquireLock", { token, name: waited, body: { wait_seconds: 30 } });
    await waitersOn(server, one, waited, 1);
    await ok(server, "revokeToken", { token: operator, name: id });
    const revokedAt = performance.now();
    await refused(
      server,
      "renewLock",
      { token, name: held, body: { lease_id } },
      401,
      "authentication_failed",
    );
    await stream.ended;
    const { status, body } = await waiting;
    assert.deepEqual([status, body.code], [401, "authentication_failed"]);
    assert.ok(performance.now() - revokedAt < 1000, "in force within a second");
    await waitersOn(server, one, waited, 0);
    const view = await ok(server, "getLock", { token: one, name: held });
    assert.deepEqual([view.status, view.holder_id], ["held", principal]);
    await refused(server, "revokeToken", { token: operator, name: id }, 404, "not_found");
    assert.ok(!(await list()).some((entry) => entry.id === id));
  });

  test("rotated: another secret, the same principal and leases; the old one and its streams end", async () => {
    const made = await make({ scopes: ["rot-*"], role: "worker", reentrant: true });
    const name = fresh("rot");
    const { lease_id } = await acquire(made.token, name);
    const stream = await watch(server, `/locks/${name}/watch`, { token: made.token });
    const rotated = await ok<TokenBody>(server, "rotateToken", { token: operator, name: made.id });
    assert.deepEqual([rotated.id, rotated.name, rotated.scopes], [made.id, made.name, ["rot-*"]]);
    assert.notEqual(rotated.token, made.token);
    await stream.ended;
    await refused(server, "whoami", { token: made.token }, 401, "authentication_failed");
    await ok(server, "renewLock", { token: rotated.token, name, body: { lease_id } });
    await refused(server, "rotateToken", { token: operator, name: "nope" }, 404, "not_found");
  });

  test("expired: refused, its streams and waits end", async () => {
    const { token, expires_at } = await make({ expires_in_seconds: 1 });
    assert.ok(expires_at !== null && Math.abs(Date.parse(expires_at) - Date.now() - 1000) < 500);
    const name = fresh("waited");
    await acquire(one, name);
    const stream = await watch(server, "/watch", { token });
    const waiting = call(server, "acquireLock", { token, name, body: { wait_seconds: 30 } });
    await stream.ended;
    assert.ok(Date.now() - Date.parse(expires_at ?? "") < 1000);
    const { status, body } = await waiting;
    assert.deepEqual([status, body.status], [200, "held"]);
    await refused(server, "whoami", { token }, 401, "authentication_failed");
  });

  test("a mistyped token is told apart from an unknown one", async () => {
    const { token } = await make();
    const typo = `${token.slice(0, 20)}${token[20] === "x" ? "y" : "x"}${token.slice(21)}`;
    assert.match(
      (await refused(server, "whoami", { token: typo }, 401, "authentication_failed")).details,
      /mistyped/,
    );
    assert.match(
      (await refused(server, "whoami", { token: "nope" }, 401, "authentication_failed")).details,
      /unknown/,
    );
    const none = await call(server, "whoami", {});
    assert.deepEqual([none.status, none.body.code], [401, "authentication_required"]);
    assert.match(String(none.headers["www-authenticate"]), /^Bearer/);
    for (const authorization of ["Basic dXNlcjpwYXNz", "Bearer", `Bearer ${"x".repeat(600)}`, token])
      await refused(server, "whoami", { headers: { authorization } }, 401, "authentication_failed");
    assert.equal(
      (await ok(server, "whoami", { headers: { authorization: `bearer ${token}` } })).role,
      "worker",
    );
  });
});

describe("scopes", () => {
  let scoped = "";
  before(async () => {
    scoped = (await make({ scopes: ["team-*-jobs", "path:src/*", "exact"] })).token;
  });

  test("cover names by pattern, exactly", async () => {
    for (const name of ["team-a-jobs", "team--jobs", "path:src/a.ts", "exact"])
      assert.equal((await acquire(scoped, name)).status, "acquired", name);
    for (const name of ["team-a-jobs2", "Team-a-jobs", "path:src", "exactly", "path:lib/src/a.ts"]) {
      const told = await refused(server, "acquireLock", { token: scoped, name, body: {} }, 403, "forbidden");
      assert.match(told.details, /team-\*-jobs/);
      await refused(server, "getLock", { token: scoped, name }, 403, "forbidden");
    }
  });

  test("see the name that is stored: a path is normalised before it is matched", async () => {
    await refused(server, "getLock", { token: scoped, name: "path:src/../secret" }, 400, "invalid_lock_name");
    await refused(server, "getLock", { token: scoped, name: "path:./lib//a" }, 403, "forbidden");
    assert.equal(
      (await ok(server, "getLock", { token: scoped, name: "path:.//src/./b" })).name,
      "path:src/b",
    );
  });

  test("are normalised as names are, and an admin makes no wider one by another spelling", async () => {
    const [composed, decomposed] = ["path:caf\u00e9/*", "path:cafe\u0301/*"];
    const admin = await make({ role: "admin", scopes: [decomposed] });
    assert.deepEqual(admin.scopes, [composed]);
    const { token } = await make({ scopes: [decomposed] }, admin.token);
    assert.equal((await acquire(token, `path:cafe\u0301/${fresh("f")}`)).status, "acquired");
    const body = { name: fresh("wide"), scopes: ["path:cafe\u0301*"] };
    await refused(server, "createToken", { token: admin.token, body }, 403, "forbidden");
  });

  test("hide who holds a name beyond them that overlaps, and its fencing token", async () => {
    const dir = fresh("path:src/hidden");
    for (let i = 0; i < 2; i++) {
      const { lease_id } = await acquire(one, `${dir}/y`, { metadata: "mine" });
      await ok(server, "releaseLock", { token: one, name: `${dir}/y`, body: { lease_id } });
    }
    await acquire(one, `${dir}/y`, { metadata: "mine" });
    const narrow = (await make({ scopes: [dir] })).token;
    const held = await acquire(narrow, dir);
    assert.deepEqual([held.status, held.name, held.fencing_token, held.metadata], ["held", dir, 0, null]);
    assert.deepEqual([held.holder_id, held.holder?.session], ["another", null]);
    const job = await refused(server, "claimJob", { token: narrow, name: dir, body: {} }, 409, "held");
    assert.match(job.details, /held by another until [^(]*\.$/);
    for (const told of [held, job])
      assert.ok(!("conflicts_with" in told) && !JSON.stringify(told).includes("/y"));
  });

  test("stand before every candidate and every lease of a bulk", async () => {
    const mixed = { candidates: ["team-c-jobs", "other"] };
    await refused(server, "claimAnyJob", { token: scoped, body: mixed }, 403, "forbidden");
    assert.equal((await ok(server, "getJob", { token: one, name: "team-c-jobs" })).claimed, false);
    const { lease_id } = await ok(server, "claimJob", {
      token: scoped,
      name: "team-d-jobs",
      body: { ttl_seconds: 60 },
    });
    const leases = [
      { job_id: "team-d-jobs", lease_id },
      { job_id: "other", lease_id },
    ];
    await refused(server, "heartbeatJobs", { token: scoped, body: { leases } }, 403, "forbidden");
  });

  test("filter lists", async () => {
    const stem = fresh("team-list");
    await acquire(one, `${stem}-jobs`);
    await acquire(one, `${stem}-other`);
    const names = (await ok(server, "listLocks", { token: scoped, query: { prefix: stem } })).locks;
    assert.deepEqual(
      names.map(({ name }) => name),
      [`${stem}-jobs`],
    );
    const jobs = (await ok(server, "listJobs", { token: scoped, query: { prefix: stem } })).jobs;
    assert.deepEqual(
      jobs.map(({ job_id }) => job_id),
      [`${stem}-jobs`],
    );
  });

  test("filter the snapshot and every event of a stream", async () => {
    const stem = fresh("team-watch");
    await acquire(one, `${stem}-jobs`);
    await acquire(one, `${stem}-other`);
    const stream = await watch(server, `/watch?prefix=${stem}`, { token: scoped });
    assert.deepEqual(told(await stream.synced()), [`snapshot ${stem}-jobs 1`]);
    await acquire(one, `${stem}-x-other`);
    await acquire(one, `${stem}-x-jobs`);
    assert.deepEqual(told([await stream.next()]), [`acquired ${stem}-x-jobs 1`]);
    stream.close();
    await refused(server, "watchLock", { token: scoped, name: `${stem}-other` }, 403, "forbidden");
  });
});

describe("spaces", () => {
  test("see nothing of each other", async () => {
    const [west, east] = [
      await make({ space: "west", role: "admin" }),
      await make({ space: "east", role: "admin" }),
    ];
    const name = fresh("shared-name");
    const mine = await acquire(west.token, name, { metadata: "west", request_id: "r-1" });
    const theirs = await acquire(east.token, name, { metadata: "east", request_id: "r-1" });
    assert.deepEqual([mine.status, theirs.status], ["acquired", "acquired"]);
    assert.notEqual(mine.lease_id, theirs.lease_id);
    assert.equal((await ok(server, "getLock", { token: east.token, name })).metadata, "east");
    assert.equal((await ok(server, "getLock", { token: one, name })).status, "free");
    await refused(
      server,
      "releaseLock",
      { token: east.token, name, body: { lease_id: mine.lease_id } },
      400,
      "lease_not_current",
    );
    const { session_id } = await ok(server, "createSession", { token: west.token });
    await refused(server, "getSession", { token: east.token, name: session_id }, 404, "not_found");
    await refused(server, "revokeToken", { token: east.token, name: west.id }, 404, "not_found");
    await refused(server, "rotateToken", { token: east.token, name: west.id }, 404, "not_found");
    assert.deepEqual(
      (await list(east.token)).map((token) => token.name),
      [east.name],
    );
    const stream = await watch(server, "/watch", { token: east.token });
    assert.deepEqual(told(await stream.synced()), [`snapshot ${name} 1`]);
    await ok(server, "releaseLock", { token: west.token, name, body: { lease_id: mine.lease_id } });
    await ok(server, "releaseLock", { token: east.token, name, body: { lease_id: theirs.lease_id } });
    assert.equal((await stream.next()).data.metadata, "east");
    stream.close();
  });

  test("whose names are alike do not mix", async () => {
    const [a, ab] = [await make({ space: "sp" }), await make({ space: "sp.2" })];
    await acquire(ab.token, "only-in-the-second");
    for (const prefix of ["", "only", ".2/only"])
      assert.equal((await ok(server, "listLocks", { token: a.token, query: { prefix } })).total, 0);
  });

  test("an admin acts in its own; only the operator names another", async () => {
    const admin = await make({ role: "admin", space: "north" });
    const body = { name: fresh("made-by-admin") };
    assert.equal((await make(body, admin.token)).space, "north");
    await refused(
      server,
      "createToken",
      { token: admin.token, body: { ...body, space: "south" } },
      403,
      "forbidden",
    );
    const headers = { "holdfast-space": "south" };
    await refused(server, "listTokens", { token: admin.token, headers }, 403, "forbidden");
    await refused(server, "listLocks", { token: one, headers }, 403, "forbidden");
    assert.equal(
      (await ok(server, "whoami", { token: admin.token, headers: { "holdfast-space": "north" } })).space,
      "north",
    );
    assert.equal((await ok(server, "whoami", { token: operator, headers })).space, "south");
    const name = fresh("lock");
    await ok(server, "acquireLock", { token: operator, name, headers });
    assert.equal((await ok(server, "getLock", { token: operator, name })).status, "free");
    const forced = await ok(server, "forceReleaseLock", {
      token: operator,
      name,
      headers,
      body: { reason: "moved" },
    });
    assert.equal(forced.released, true);
    for (const odd of ["a b", "a/b", "", "é", "x".repeat(65)]) {
      const bytes = Buffer.from(odd).toString("latin1");
      const answered = await send(server, "GET", "/whoami", {
        token: operator,
        headers: { "holdfast-space": bytes },
      });
      assert.deepEqual([answered.status, answered.body.code], [422, "invalid_input"]);
      assertError(answered);
    }
  });
});

describe("audit", () => {
  test("who did what to whom and why, in order, a page at a time", async () => {
    const space = "audited";
    const admin = await make({ space, role: "admin", name: "boss" });
    const worker = await make({ name: "hand" }, admin.token);
    await acquire(worker.token, "the-lock");
    await ok(server, "forceReleaseLock", { token: admin.token, name: "the-lock", body: { reason: "stuck" } });
    await ok(server, "rotateToken", { token: admin.token, name: worker.id });
    await ok(server, "revokeToken", { token: admin.token, name: worker.id });
    const all = (await ok(server, "listAudit", { token: admin.token })).records;
    assert.deepEqual(
      all.map(({ principal, action, subject, reason }) => [principal, action, subject, reason]),
      [
        ["operator", "token_create", "boss", null],
        ["boss", "token_create", "hand", null],
        ["boss", "force_release", "the-lock", "stuck"],
        ["boss", "token_rotate", "hand", null],
        ["boss", "token_revoke", "hand", null],
      ],
    );
    assert.ok(all.every((record) => record.space === space));
    const paged: string[] = [];
    for (let cursor: string | null = ""; cursor !== null; ) {
      const page: Body = await ok(server, "listAudit", { token: admin.token, query: { limit: "2", cursor } });
      assert.ok(page.records.length <= 2);
      paged.push(...page.records.map(({ id }) => id));
      cursor = page.next_cursor;
    }
    assert.deepEqual(
      paged,
      all.map(({ id }) => id),
    );
    await refused(server, "listAudit", { token: worker.token }, 401, "authentication_failed");
    await refused(server, "listAudit", { token: one }, 403, "forbidden");
    await refused(server, "listAudit", { token: admin.token, query: { limit: "0" } }, 422, "invalid_input");
  });

  lasting("tokens and audit survive kill -9", async () => {
    const kept = await make({ role: "admin", space: "kept" });
    const revoked = await make({ space: "kept" });
    await ok(server, "revokeToken", { token: kept.token, name: revoked.id });
    server = await server.restart();
    assert.equal((await ok(server, "whoami", { token: kept.token })).space, "kept");
    await refused(server, "whoami", { token: revoked.token }, 401, "authentication_failed");
    assert.equal((await ok(server, "listAudit", { token: kept.token })).records.length, 3);
  });
});
