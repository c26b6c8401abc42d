// What the client says when a lease is lost, when another program answers, and when an option is not one: each a type of
// its own, in words that say what to do.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { after, before, describe, test } from "node:test";
import { type Client, createClient, HoldfastError, LeaseLostError } from "../src/client/entry.js";
import { type Clients, clientsOf, until } from "./client-lab.js";
import { type Server, startServer } from "./server.js";

let server: Server;
let clients: Clients;

before(async () => {
  server = await startServer();
  clients = clientsOf(server.url);
});
after(() => server[Symbol.asyncDispose]());

async function failureOf(call: Promise<unknown>): Promise<unknown> {
  try {
    await call;
  } catch (error) {
    return error;
  }
  return assert.fail("it succeeded");
}

async function lossOf(call: Promise<unknown>): Promise<LeaseLostError> {
  const error = await failureOf(call);
  assert.ok(error instanceof LeaseLostError && error instanceof HoldfastError, String(error));
  return error;
}

describe("a lost lease is LeaseLostError", () => {
  const lost = async (client: Client, name: string): Promise<string> => {
    const reply = await client.locks.acquire(name, { ttl: 60 });
    assert.ok(reply.status === "acquired");
    await clients.admin.locks.forceRelease(name, "a test");
    return reply.leaseId;
  };

  test("of a lock that another has by now: who, and until when", async () => {
    const { one, two } = clients;
    const leaseId = await lost(one, "passed-on");
    const next = await two.locks.acquire("passed-on", { ttl: "10m" });
    assert.ok(next.status === "acquired");
    for (const call of [
      () => one.locks.renew("passed-on", leaseId),
      () => one.locks.extend("passed-on", leaseId, 90),
      () => one.locks.release("passed-on", leaseId),
    ]) {
      const error = await lossOf(call());
      assert.deepEqual([error.resource, error.status, error.code], ["passed-on", 400, "lease_not_current"]);
      assert.deepEqual([error.by?.principal, error.by?.owner], ["runner-2", null]);
      assert.deepEqual(error.by?.expiresAt, next.expiresAt);
      assert.ok(error.by?.since instanceof Date);
      assert.match(error.message, /held by runner-2 until 20\S+Z/);
      assert.match(error.requestId ?? "", /^req_/);
    }
  });

  test("of a lock that nobody has: how it ended", async () => {
    const leaseId = await lost(clients.one, "taken-away");
    const error = await lossOf(clients.one.locks.renew("taken-away", leaseId));
    assert.deepEqual([error.by, error.status], [null, 404]);
    assert.match(error.message, /ended by operator at .*: a test/);
  });

  test("of a job: the owner by its label, and the principal behind it", async () => {
    const { one, two } = clients;
    const leaseId = await lost(one, "reclaimed");
    const next = await two.claimJob("reclaimed", { owner: "agent-9", ttl: "10m" });
    assert.ok(next.claimed);
    for (const call of [
      () => one.heartbeatJob("reclaimed", leaseId),
      () => one.releaseJob("reclaimed", leaseId, { outcome: "done" }),
    ]) {
      const error = await lossOf(call());
      assert.deepEqual([error.resource, error.status, error.code], ["reclaimed", 409, "lease_lost"]);
      assert.deepEqual([error.by?.principal, error.by?.owner], ["runner-2", "agent-9"]);
      assert.deepEqual(error.by?.expiresAt, next.expiresAt);
    }
    const [lostOne] = (await one.jobs.heartbeatMany([{ jobId: "reclaimed", leaseId }])).lost;
    assert.deepEqual([lostOne?.holder?.principal, lostOne?.expiresAt], ["runner-2", next.expiresAt]);
  });

  test("of a request id whose lease is over", async () => {
    const { locks, jobs } = clients.one;
    const requestId = "errors-spent-request";
    const reply = await locks.acquire("spent", { requestId });
    assert.ok(reply.status === "acquired");
    await locks.release("spent", reply.leaseId);
    assert.equal((await lossOf(locks.acquire("spent", { requestId }))).resource, "spent");
    const claim = await jobs.claimFirst(["spent-b", "spent-c"], { requestId: "errors-spent-claim" });
    assert.ok(claim.claimed);
    await jobs.release("spent-b", claim.leaseId);
    const again = jobs.claimFirst(["spent-b", "spent-c"], { requestId: "errors-spent-claim" });
    assert.equal((await lossOf(again)).resource, "spent-b");
  });
});

describe("another program at the address", () => {
  const calls: Readonly<Record<string, (client: Client) => Promise<unknown>>> = {
    whoami: (client) => client.whoami(),
    "locks.acquire": (client) => client.locks.acquire("x"),
    "locks.renew": (client) => client.locks.renew("x", "ls_1"),
    "locks.release": (client) => client.locks.release("x", "ls_1"),
    "locks.get": (client) => client.locks.get("x"),
    "locks.check": (client) => client.locks.check("x", 1),
    "locks.list": (client) => client.locks.list(),
    "locks.each": (client) => client.locks.each().next(),
    "locks.forceRelease": (client) => client.locks.forceRelease("x", "why"),
    hold: (client) => client.hold("x", { wait: "1m" }),
    claimJob: (client) => client.claimJob("x"),
    "jobs.claimFirst": (client) => client.jobs.claimFirst(["x"]),
    heartbeatJob: (client) => client.heartbeatJob("x", "ls_1"),
    "jobs.heartbeatMany": (client) => client.jobs.heartbeatMany([]),
    releaseJob: (client) => client.releaseJob("x", "ls_1"),
    getJobOwner: (client) => client.getJobOwner("x"),
    listClaimedJobs: (client) => client.listClaimedJobs(),
    "sessions.create": (client) => client.sessions.create(),
    "sessions.keepalive": (client) => client.sessions.keepalive("ss_1"),
    "sessions.get": (client) => client.sessions.get("ss_1"),
    "sessions.end": (client) => client.sessions.end("ss_1"),
    watch: (client) => client.watch().next(),
  };
  const answers: [what: string, status: number, type: string, text: string][] = [
    ["an empty object", 200, "application/json", "{}"],
    ["its own state", 200, "application/json", '{"status":"ok"}'],
    ["a list", 200, "application/json", "[]"],
    ["a page", 200, "text/html", "<h1>Welcome</h1>"],
    ["a conflict of its own", 409, "application/json", "{}"],
    ["a page that is not there", 404, "text/html", "<h1>Not found</h1>"],
  ];

  for (const [what, status, type, text] of answers)
    test(`${what}: said so, with what to check, whatever the call`, async () => {
      const other = createServer((_, response) => {
        response.writeHead(status, { "content-type": type }).end(text);
      }).listen(0, "127.0.0.1");
      await once(other, "listening");
      const address = other.address();
      assert.ok(address !== null && typeof address === "object");
      const url = `http://127.0.0.1:${address.port}`;
      const client = createClient({ url, token: "t" });
      try {
        for (const [name, call] of Object.entries(calls)) {
          const error = await failureOf(call(client));
          assert.ok(error instanceof HoldfastError, `${name}: ${error}`);
          assert.equal(error.code, "not_holdfast", `${name}: ${error}`);
          assert.ok(error.message.startsWith(`${url} does not answer as a Holdfast server`), error.message);
          assert.match(error.message, /check the address, its port and path, and whether a proxy/);
        }
      } finally {
        other.close();
        other.closeAllConnections();
      }
    });
});

describe("an option that is none", () => {
  /** As plain JavaScript could write it. */
  const odd = (options: unknown): never => options as never;
  const rows: [what: string, call: () => unknown, says: string][] = [
    [
      "createClient",
      () => createClient(odd({ url: server.url, tokn: "t" })),
      'createClient: unknown option "tokn": did you mean token?',
    ],
    [
      "hold",
      () => clients.one.hold("odd", odd({ ttlSeconds: 5 })),
      'hold: unknown option "ttlSeconds": did you mean ttl?',
    ],
    [
      "acquire",
      () => clients.one.locks.acquire("odd", odd({ wait_ms: 5 })),
      'acquire: unknown option "wait_ms": did you mean wait?',
    ],
    [
      "renew",
      () => clients.one.locks.renew("odd", "ls_1", odd({ TTL: 5 })),
      'renew: unknown option "TTL": did you mean ttl?',
    ],
    [
      "get",
      () => clients.one.locks.get("odd", odd({ abort: 1 })),
      'get: unknown option "abort": there are signal',
    ],
    [
      "list",
      () => clients.one.locks.list(odd({ prefx: "a" })),
      'list: unknown option "prefx": did you mean prefix?',
    ],
    [
      "claimFirst",
      () => clients.one.jobs.claimFirst(["odd"], odd({ session: "a" })),
      'claimFirst: unknown option "session": did you mean sessionId?',
    ],
    [
      "watch",
      () => clients.one.watch(odd({ names: "a" })),
      'watch: unknown option "names": did you mean name?',
    ],
    [
      "no object",
      () => clients.one.locks.acquire("odd", odd(30)),
      'acquire: options are an object, as { ttl: "30s" }: got a number',
    ],
    [
      "the work in the place of the options",
      () =>
        clients.one.hold(
          "odd",
          odd(() => "work"),
        ),
      "hold: the work comes after the options: hold(name, {}, work)",
    ],
    [
      "a place to renew in that is none",
      () => clients.one.hold("odd", odd({ renewIn: "thread" })),
      'renewIn must be "worker" or "event-loop": got thread',
    ],
  ];
  for (const [what, call, says] of rows)
    test(`${what}: a TypeError that names it, and nothing is taken`, async () => {
      const error = await failureOf(Promise.resolve().then(call));
      assert.ok(error instanceof TypeError, String(error));
      assert.equal(error.message, says);
      assert.equal((await clients.two.locks.get("odd")).fencingToken, 0);
    });

  test("one that is undefined is left out, as with known ones", async () => {
    await clients.one.locks.get("odd", odd({ signal: undefined, other: undefined }));
  });
});

test("many that wait on one signal are no leak", async () => {
  const warnings: string[] = [];
  const note = ({ name }: Error): void => void warnings.push(name);
  process.on("warning", note);
  const { one, two } = clients;
  const leaving = new AbortController();
  const taken = await one.hold("crowded", { ttl: 60 });
  const waiting = Array.from({ length: 30 }, () =>
    failureOf(two.hold("crowded", { wait: "1m", signal: leaving.signal })),
  );
  const reason = new Error("enough");
  await until("all stand in line", async () => (await one.locks.get("crowded")).waiters === 30);
  leaving.abort(reason);
  assert.deepEqual(await Promise.all(waiting), Array(30).fill(reason));
  await taken.release();
  process.off("warning", note);
  assert.deepEqual(warnings, []);
});

test("a server that says to renew at once is not asked without a pause", async () => {
  const renewedAt: number[] = [];
  const hasty: typeof fetch = async (input, init) => {
    if (String(input).endsWith("/renew")) renewedAt.push(performance.now());
    const response = await fetch(input, init);
    const text = (await response.text()).replace(/"renew_after_ms":\d+/, '"renew_after_ms":0');
    return new Response(text, { status: response.status, headers: response.headers });
  };
  const client = createClient({ url: server.url, token: "secret-a", fetch: hasty });
  const lease = await client.hold("hasty", { ttl: 3 });
  await until("it was renewed twice", () => renewedAt.length >= 2);
  lease.assertHeld();
  await lease.release();
  const [first = 0, second = 0] = renewedAt;
  assert.ok(second - first > 500, `${second - first} ms between two renewals`);
});
