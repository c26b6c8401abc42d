// What those who run the server ask for: health, readiness, metrics, the API's own description and page, a backup
// that opens, and logs without secrets.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import { call, fresh, ok, refused, send, type TokenBody, table } from "./http-api.js";
import { adminToken, mainFile, type Server, startServer, temporaryDir } from "./server.js";

const run = promisify(execFile);
const one = "secret-a";
let server: Server;

before(async () => {
  server = await startServer();
});
after(() => server.stop());

describe("health and readiness", () => {
  test("need no token and say what runs", async () => {
    const health = await call<{ status: string; version: string; engine: string }>(server, "health");
    assert.deepEqual([health.body.status, health.body.engine], ["ok", "sqlite"]);
    assert.match(health.body.version, /^\d+\.\d+\.\d+/);
    assert.deepEqual(await ok(server, "ready"), { status: "ready" });
  });

  test("every reply has a request id of its own", async () => {
    const ids = await Promise.all(Array.from({ length: 20 }, () => send(server, "GET", "/ready")));
    assert.equal(new Set(ids.map(({ headers }) => headers["x-request-id"])).size, 20);
    const given = await send(server, "GET", "/ready", { headers: { "x-request-id": "req_mine" } });
    assert.notEqual(given.headers["x-request-id"], "req_mine");
  });

  test("not ready at once when it is told to stop; what is under way is finished", async () => {
    const other = await startServer();
    const name = fresh("stop");
    await ok(other, "acquireLock", { token: one, name });
    const waiting = call(other, "acquireLock", { token: one, name, body: { wait_seconds: 30 } });
    await new Promise((resolve) => setTimeout(resolve, 100));
    other.kill("SIGTERM");
    assert.equal((await waiting).status, 503);
    assert.equal(await other.exited, 0);
  });
});

describe("metrics", () => {
  test("are Prometheus text that counts what happened, without names", async () => {
    const name = fresh("metric-name");
    const { lease_id } = await ok(server, "acquireLock", { token: one, name });
    await call(server, "acquireLock", { token: one, name });
    await ok(server, "releaseLock", { token: one, name, body: { lease_id } });
    await refused(server, "getLock", { token: one, name: "invalid!@name" }, 400, "invalid_lock_name");
    const { text, headers } = await call(server, "metrics", { token: "secret-v" });
    assert.match(String(headers["content-type"]), /^text\/plain; version=0\.0\.4/);
    const value = (line: string): number => {
      const found = text.split("\n").find((each) => each.startsWith(`${line} `));
      assert.ok(found, `no ${line}`);
      return Number(found.slice(line.length + 1));
    };
    assert.ok(value('holdfast_http_requests_total{route="acquireLock",status="200"}') >= 2);
    assert.ok(value('holdfast_http_requests_total{route="getLock",status="400"}') >= 1);
    assert.ok(value('holdfast_http_request_seconds_count{route="releaseLock"}') >= 1);
    assert.ok(value("holdfast_grants_total") >= 1 && value("holdfast_releases_total") >= 1);
    assert.equal(value("holdfast_waiters"), 0);
    assert.ok(!text.includes(name) && !text.includes("runner-1"));
    for (const line of text.split("\n").filter((each) => each !== ""))
      assert.match(line, /^(# (HELP|TYPE) \w+ .+|\w+(\{[^{}]*\})? [-+.e\dNaInf]+)$/, line);
  });
});

describe("the description of the API", () => {
  interface Document {
    openapi: string;
    paths: Record<string, Record<string, { operationId: string; responses: Record<string, unknown> }>>;
  }

  test("lists exactly the routes there are, each with its statuses", async () => {
    const { body } = await call<Document>(server, "openapi");
    assert.match(body.openapi, /^3\.1/);
    const listed = Object.entries(body.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(
        ([method, operation]) => `${operation.operationId} ${method.toUpperCase()} ${path}`,
      ),
    );
    assert.deepEqual(
      listed.toSorted(),
      table.map(({ id, method, path }) => `${id} ${method} ${path}`).toSorted(),
    );
    for (const { id, path, method, replies } of table) {
      const responses = body.paths[path]?.[method.toLowerCase()]?.responses ?? {};
      for (const status of Object.keys(replies)) assert.ok(responses[status], `${id} ${status}`);
    }
  });

  test("is a page for people that loads nothing from elsewhere", async () => {
    const { text, headers } = await call(server, "docs");
    assert.match(text, /<title>Holdfast API<\/title>/);
    const policy = String(headers["content-security-policy"]);
    assert.match(policy, /default-src 'none'/);
    const nonce = /'nonce-([^']+)'/.exec(policy)?.[1];
    assert.ok(nonce && text.includes(`nonce="${nonce}"`));
    assert.ok(!(await call(server, "docs")).text.includes(nonce), "a nonce is used once");
    assert.ok(!/(src|href)="https?:/.test(text));
  });
});

describe("backup", () => {
  test("streams a copy that another server opens, and leaves nothing behind", async () => {
    const name = fresh("backed-up");
    const lease = await ok(server, "acquireLock", { token: one, name, body: { metadata: "m" } });
    const response = await fetch(`${server.url}/backup`, {
      headers: { authorization: `Bearer ${adminToken}` },
    });
    assert.equal(response.status, 200);
    assert.equal(response.headers.get("content-type"), "application/octet-stream");
    const copy = Buffer.from(await response.arrayBuffer());
    assert.equal(copy.length, Number(response.headers.get("content-length")));
    assert.equal(copy.subarray(0, 15).toString(), "SQLite format 3");
    const dir = temporaryDir("holdfast-copy-");
    const file = join(temporaryDir("holdfast-backup-"), "copy.db");
    writeFileSync(file, copy);
    await run(process.execPath, [mainFile, "restore", file, "--data", dir]);
    await using restored = await startServer({ dataDir: dir });
    const view = await ok(restored, "getLock", { token: one, name });
    assert.equal(view.status, "free", "leases of the copy are over");
    assert.ok(view.fencing_token >= lease.fencing_token);
    const told = await refused(restored, "acquireLock", { token: one, name, body: {} }, 409, "delayed");
    assert.match(told.details, /restored from a backup/);
    assert.deepEqual(
      readdirSync(server.dataDir).filter((entry) => entry.startsWith("backup-")),
      [],
    );
  });

  test("a client that goes away leaves nothing behind either", async () => {
    const gone = new AbortController();
    const response = await fetch(`${server.url}/backup`, {
      headers: { authorization: `Bearer ${adminToken}` },
      signal: gone.signal,
    });
    gone.abort();
    await response.arrayBuffer().catch(() => undefined);
    assert.equal((await call(server, "health")).status, 200);
  });
});

describe("logs", () => {
  test("hold no token, no lease id and no session id", async () => {
    const made = await ok<TokenBody>(server, "createToken", {
      token: adminToken,
      body: { name: fresh("logged") },
    });
    const { session_id } = await ok(server, "createSession", { token: made.token });
    const { lease_id } = await ok(server, "acquireLock", {
      token: made.token,
      name: fresh("logged"),
      body: { session_id },
    });
    await call(server, "renewLock", { token: made.token, name: "other", body: { lease_id } });
    await send(server, "POST", `/sessions/${session_id}/nothing`, { token: made.token });
    const logged = server.stderr() + server.stdout();
    for (const secret of [made.token, session_id, lease_id, one, adminToken])
      assert.ok(!logged.includes(secret));
  });
});
