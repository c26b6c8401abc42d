// Every curl of the API that this one is compatible with, run as it is published (with this server's address and
// token) by a real curl in a real shell, and its answers as published.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import { adminToken, type Server, startServer } from "./server.js";

const run = promisify(execFile);
const secret = "secret-a";
let server: Server;

before(async () => {
  server = await startServer();
});
after(() => server.stop());

/** Runs the published text; only the address, the token and the lease id are ours. */
async function shell(published: string, leaseId = "", token = secret): Promise<string> {
  const script = published
    .replace("https://api.octostore.io", server.url)
    .replace("Bearer ***", `Bearer ${token}`)
    .replace('"lease_id":"..."', `"lease_id":"${leaseId}"`);
  const { stdout } = await run("bash", ["-c", script.replace(/^curl /m, "curl -sS --max-time 20 ")]);
  return stdout;
}

const acquireDeploy = `curl -X POST https://api.octostore.io/locks/deploy-main/acquire \\
  -H "Authorization: Bearer ***" \\
  -H "Content-Type: application/json" \\
  -d '{
    "ttl_seconds": 60,
    "metadata": "host=runner-7 build=1842"
  }'`;

const acquireIssue = `curl -X POST https://api.octostore.io/locks/issue-1842/acquire \\
-H "Authorization: Bearer ***" \\
-H "Content-Type: application/json" \\
-d '{
"ttl_seconds": 120,
"metadata": "runner=agent-7 repo=acme/app issue=1842"
}'`;

const renewIssue = `curl -X POST https://api.octostore.io/locks/issue-1842/renew \\
-H "Authorization: Bearer ***" \\
-H "Content-Type: application/json" \\
-d '{"lease_id":"...","ttl_seconds":120}'`;

const releaseIssue = `curl -X POST https://api.octostore.io/locks/issue-1842/release \\
-H "Authorization: Bearer ***" \\
-H "Content-Type: application/json" \\
-d '{"lease_id":"..."}'`;

const near = (at: string, seconds: number): boolean =>
  Math.abs(Date.parse(at) - Date.now() - seconds * 1000) < 5000;

describe("seed 000: one live lease", () => {
  test("acquired: proceed", async () => {
    const reply = JSON.parse(await shell(acquireDeploy));
    assert.equal(reply.status, "acquired");
    assert.match(reply.lease_id, /^\S{16,}$/);
    assert.ok(near(reply.expires_at, 60), reply.expires_at);
  });

  test("held: back off and inspect the owner", async () => {
    const reply = JSON.parse(await shell(acquireDeploy, "", "secret-b"));
    assert.equal(reply.status, "held");
    assert.equal(reply.metadata, "host=runner-7 build=1842");
    assert.equal(reply.holder_id, "runner-1");
    assert.equal(reply.lease_id, undefined);
  });

  test("a reentrant token gets its own lease back, as that API does", async () => {
    const published = acquireDeploy.replace("deploy-main", "deploy-reentrant");
    const first = JSON.parse(await shell(published, "", "secret-c"));
    const again = JSON.parse(await shell(published, "", "secret-c"));
    assert.deepEqual([again.status, again.lease_id], ["acquired", first.lease_id]);
  });
});

describe("seed 001: hosted agents", () => {
  let leaseId = "";

  test("this agent owns the work", async () => {
    const reply = JSON.parse(await shell(acquireIssue));
    assert.equal(reply.status, "acquired");
    assert.ok(near(reply.expires_at, 120), reply.expires_at);
    leaseId = reply.lease_id;
  });

  test("renew answers lease_id and expires_at", async () => {
    const reply = JSON.parse(await shell(renewIssue, leaseId));
    assert.equal(reply.lease_id, leaseId);
    assert.ok(near(reply.expires_at, 120), reply.expires_at);
  });

  test("release answers null, and the work is free", async () => {
    assert.equal(await shell(releaseIssue, leaseId), "null");
    const next = JSON.parse(await shell(acquireIssue, "", "secret-b"));
    assert.equal(next.status, "acquired");
    assert.equal(await shell(releaseIssue, next.lease_id, "secret-b"), "null");
  });

  test("a lease that is over: 404, and curl -f branches on it", async () => {
    const failing = releaseIssue.replace("curl ", "curl -f ");
    await assert.rejects(shell(failing, leaseId), (error: Error & { code?: number }) => error.code === 22);
    const told = JSON.parse(await shell(releaseIssue, leaseId));
    assert.equal(told.code, "lease_not_current");
  });
});

describe("the line that the server prints to try", () => {
  test("works as printed", async () => {
    const printed = /curl -X POST[\s\S]+?}'/.exec(server.stdout())?.[0];
    assert.ok(printed, server.stdout());
    const { stdout } = await run("bash", ["-c", printed.replace("curl ", "curl -sS ")], {
      env: { ...process.env, HOLDFAST_ADMIN_TOKEN: adminToken },
    });
    assert.equal(JSON.parse(stdout).status, "acquired");
  });
});
