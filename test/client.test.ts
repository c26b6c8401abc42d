// The client's calls against a real server: answers and typed errors, aborting, and what happens when replies get
// lost, gateways fail, or a wait is longer than a call may take.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from "node:http";
import { after, before, describe, test } from "node:test";
import { type Acquired, createClient, HeldError, HoldfastError } from "../src/client/entry.js";
import { type Clients, clientsOf, until } from "./client-lab.js";
import { type Fate, type Request, type Struck, TcpProxy } from "./evidence/proxy.js";
import { type Server, startServer } from "./server.js";

let server: Server;
let clients: Clients;

before(async () => {
  server = await startServer();
  clients = clientsOf(server.url);
});
after(() => server[Symbol.asyncDispose]());

const acquired = (reply: { status: string }): Acquired => {
  assert.equal(reply.status, "acquired");
  return reply as Acquired;
};

const codeOf = async (call: Promise<unknown>): Promise<string> => {
  const error = await call.then(
    () => assert.fail("it succeeded"),
    (error: unknown) => error,
  );
  assert.ok(error instanceof HoldfastError, String(error));
  return error.code;
};

describe("calls", () => {
  test("a lock from free to free", async () => {
    const { one, two, admin } = clients;
    const { locks } = one;
    const name = "path:app/[slug]/a b.tsx";
    assert.equal((await locks.get(name)).status, "free");
    const lease = acquired(await locks.acquire(name, { ttl: "90s", metadata: "build_1=a" }));
    assert.ok(lease.expiresAt instanceof Date && lease.expiresInMs > 80_000);
    const held = await two.locks.acquire(name);
    assert.ok(held.status === "held" && held.holder.since instanceof Date);
    assert.deepEqual([held.holder.principal, held.metadata], ["runner-1", "build_1=a"]);
    assert.equal((await locks.renew(name, lease.leaseId, { ttl: 30 })).fencingToken, lease.fencingToken);
    assert.ok((await locks.extend(name, lease.leaseId, "2m")).expiresInMs > 110_000);
    assert.equal(await two.locks.check(name, lease.fencingToken), true);
    const page = await locks.list({ prefix: "path:app", mine: true, limit: 5 });
    assert.deepEqual([page.locks.map((lock) => lock.name), page.nextCursor], [[name], null]);
    await locks.release(name, lease.leaseId);
    assert.equal((await locks.get(name)).previous?.how, "released");
    assert.equal(await codeOf(locks.release(name, lease.leaseId)), "lease_not_current");
    acquired(await two.locks.acquire(name));
    assert.equal(await admin.locks.forceRelease(name, "test"), true);
    assert.equal((await one.whoami()).principal, "runner-1");
  });

  test("pages are walked to the end", async () => {
    for (const nth of [1, 2, 3, 4, 5]) {
      acquired(await clients.one.locks.acquire(`walk-${nth}`));
      await clients.one.claimJob(`stroll-${nth}`);
    }
    const [locks, jobs] = [[] as string[], [] as string[]];
    for await (const { name } of clients.one.locks.each({ prefix: "walk-", limit: 2 })) locks.push(name);
    for await (const { jobId } of clients.one.jobs.each({ prefix: "stroll-", limit: 2 })) jobs.push(jobId);
    assert.deepEqual([locks.length, jobs.length], [5, 5]);
  });

  test("a job, in the words of work", async () => {
    const { one, two } = clients;
    const claimed = await one.claimJob("issue-1", { owner: "agent-7", metadata: { a_b: 1 }, ttl: 60 });
    assert.ok(claimed.claimed);
    const refused = await two.claimJob("issue-1");
    assert.ok(!refused.claimed && refused.since instanceof Date);
    assert.deepEqual([refused.owner, refused.metadata], ["agent-7", { a_b: 1 }]);
    await one.heartbeatJob("issue-1", claimed.leaseId, { progress: "half" });
    assert.equal((await two.getJobOwner("issue-1")).progress, "half");
    const none = await two.jobs.claimFirst(["issue-1"]);
    assert.ok(!none.claimed && none.candidates[0]?.owner === "agent-7");
    const many = await one.jobs.heartbeatMany([{ jobId: "issue-1", leaseId: claimed.leaseId }]);
    assert.deepEqual([many.renewed.length, many.lost.length], [1, 0]);
    assert.equal((await one.listClaimedJobs({ owner: "agent-7" })).jobs.length, 1);
    for (const _ of [1, 2]) await one.releaseJob("issue-1", claimed.leaseId, { outcome: "done" });
    assert.equal((await one.getJobOwner("issue-1")).lastOutcome?.outcome, "done");
    assert.equal(await codeOf(one.heartbeatJob("issue-1", claimed.leaseId)), "lease_lost");
  });

  test("a session and its leases", async () => {
    const { sessions, locks } = clients.one;
    const { sessionId } = await sessions.create({ ttl: 30, metadata: "host=a" });
    acquired(await locks.acquire("bound", { sessionId }));
    assert.equal((await sessions.keepalive(sessionId)).leases, 1);
    assert.equal((await sessions.get(sessionId)).active, true);
    await sessions.end(sessionId);
    assert.equal((await locks.get("bound")).status, "free");
    assert.equal(await codeOf(locks.acquire("bound", { sessionId, wait: "1m" })), "session_expired");
  });
});

describe("errors", () => {
  test("held: who, since when, until when", async () => {
    const { one, two } = clients;
    const lease = acquired(await one.locks.acquire("busy", { ttl: 60, metadata: "why" }));
    await assert.rejects(two.hold("busy", { ttl: 60 }), (error) => {
      assert.ok(error instanceof HeldError && error instanceof HoldfastError);
      const { resource, principal, since, expiresAt, metadata } = error.by;
      assert.deepEqual([error.code, resource, principal, metadata], ["held", "busy", "runner-1", "why"]);
      assert.ok(since instanceof Date && expiresAt instanceof Date);
      assert.match(error.message, /^busy is held by runner-1 since 20\S+Z until 20\S+Z unless renewed$/);
      return true;
    });
    await one.locks.release("busy", lease.leaseId);
  });

  test("a lock delay is told as one", async () => {
    const { one, two, admin } = clients;
    acquired(await one.locks.acquire("slow", { ttl: 60, lockDelay: "20s" }));
    await admin.locks.forceRelease("slow", "test");
    await assert.rejects(two.hold("slow"), (error) => {
      assert.ok(error instanceof HeldError && error.code === "delayed" && error.by.principal === null);
      assert.match(error.message, /^slow cannot be taken yet until 20\S+Z/);
      return true;
    });
  });

  test("what the server refuses", async () => {
    const { one } = clients;
    const stranger = createClient({ url: server.url, token: "wrong" });
    const nobody = createClient({ url: server.url });
    const viewer = createClient({ url: server.url, token: "secret-v" });
    assert.equal(await codeOf(stranger.whoami()), "authentication_failed");
    assert.equal(await codeOf(nobody.whoami()), "authentication_required");
    assert.equal(await codeOf(viewer.locks.acquire("x")), "forbidden");
    assert.equal(await codeOf(one.locks.acquire("invalid!@name")), "invalid_lock_name");
    assert.equal(await codeOf(one.locks.acquire("x", { ttl: "2d" })), "invalid_ttl");
    assert.equal(await codeOf(one.locks.acquire("x", { metadata: "m".repeat(2000) })), "invalid_input");
    for (const name of ["", ".", "..", "\ud800"])
      assert.equal(await codeOf(one.locks.get(name)), "invalid_lock_name", JSON.stringify(name));
  });

  test("what is wrong before anything is sent", async () => {
    const { one } = clients;
    for (const ttl of ["1.5s", "0", -1, 1.5, "500ms", "soon"])
      await assert.rejects(one.locks.acquire("x", { ttl }), TypeError, String(ttl));
    for (const url of ["127.0.0.1:4280", "ftp://x", "http://me:pw@x", ""])
      assert.throws(() => createClient({ url, token: "t" }), TypeError, url);
    assert.throws(() => createClient({ url: server.url, token: "secret-a\n" }), /line break/);
  });

  test("nobody there, or somebody else", async () => {
    const url = "http://127.0.0.1:9";
    const gone = createClient({ url, token: "t", retries: 1 });
    assert.equal(await codeOf(gone.whoami()), "unreachable");
    await using other = await answering((_, response) => void response.end("<h1>Welcome</h1>"));
    const lost = createClient({ url: other.url, token: "t" });
    assert.equal(await codeOf(lost.whoami()), "not_holdfast");
    // Its reply would carry the token elsewhere.
    await using moved = await answering((_, response) => {
      response.writeHead(307, { location: `${server.url}/whoami` }).end();
    });
    const sent = createClient({ url: moved.url, token: "secret-a", retries: 0 });
    assert.equal(await codeOf(sent.whoami()), "unreachable");
  });
});

describe("aborting", () => {
  test("before, and during a wait: with the signal's own reason", async () => {
    const { one, two } = clients;
    const lease = acquired(await one.locks.acquire("wanted", { ttl: 60 }));
    const reason = new Error("changed my mind");
    const calls = [
      (signal: AbortSignal) => two.locks.get("wanted", { signal }),
      (signal: AbortSignal) => two.hold("wanted", { wait: "1m", signal }),
      (signal: AbortSignal) => two.claimJob("wanted", { wait: "1m", signal }),
      (signal: AbortSignal) => two.listClaimedJobs({ signal }),
      (signal: AbortSignal) => two.sessions.create({ signal }),
      (signal: AbortSignal) => two.whoami({ signal }),
    ];
    for (const call of calls) await assert.rejects(call(AbortSignal.abort(reason)), reason);
    for (const call of calls.slice(1, 3)) {
      const leaving = new AbortController();
      const waiting = call(leaving.signal);
      await until("it stands in line", async () => (await one.locks.get("wanted")).waiters === 1);
      leaving.abort(reason);
      await assert.rejects(waiting, reason);
      await until("it has left", async () => (await one.locks.get("wanted")).waiters === 0);
    }
    await one.locks.release("wanted", lease.leaseId);
    assert.equal((await one.locks.get("wanted")).status, "free");
  });
});

describe("uncertain outcomes", () => {
  test("a reply that is lost after the server did it: the repeat finds what was done", async () => {
    const seen: Request[] = [];
    let fate: Fate = { kind: "pass" };
    const fateOf = (request: Request): Fate => {
      seen.push(request);
      const now = fate;
      fate = { kind: "pass" };
      return now;
    };
    await using proxy = await TcpProxy.start(server.port, () => performance.now(), { fateOf });
    const { one } = clientsOf(proxy.url);
    const losing = async <Result>(call: () => Promise<Result>): Promise<Result> => {
      seen.length = 0;
      fate = { kind: "lose-reply" };
      const result = await call();
      assert.deepEqual(
        seen.map(({ path, body }) => `${path} ${body}`),
        Array(2).fill(`${seen[0]?.path} ${seen[0]?.body}`),
        "asked twice, in the same words",
      );
      return result;
    };
    const lease = acquired(await losing(() => one.locks.acquire("lossy", { ttl: 60 })));
    assert.equal(lease.fencingToken, 1, "one grant");
    await losing(() => one.locks.renew("lossy", lease.leaseId));
    await losing(() => one.locks.release("lossy", lease.leaseId));
    assert.equal((await clients.one.locks.get("lossy")).status, "free");
    const claimed = await losing(() => one.claimJob("lossy"));
    assert.ok(claimed.claimed && claimed.token === 2 && claimed.attempts === 1);
    await losing(() => one.heartbeatJob("lossy", claimed.leaseId));
    await losing(() => one.releaseJob("lossy", claimed.leaseId));
    const { sessionId } = await losing(() => one.sessions.create({ ttl: 5 }));
    await losing(() => one.sessions.keepalive(sessionId));
    await losing(() => one.sessions.end(sessionId));
    const held = await losing(() => one.hold("lossy", { ttl: 60 }));
    assert.equal(held.token, 3);
    await losing(() => held.release());
  });

  test("a gateway's 502, 503 and 504 are repeated with the same request id, and not for ever", async () => {
    const bodies: string[] = [];
    let failures = 3;
    await using gateway = await answering(async (request, response) => {
      const body = await textOf(request);
      bodies.push(body);
      const status = [502, 503, 504][bodies.length % 3] ?? 502;
      if (failures-- > 0) return void response.writeHead(status).end("<h1>Bad gateway</h1>");
      const { method, url, headers } = request;
      httpRequest(server.url + url, { method, headers }, (answer) => {
        response.writeHead(answer.statusCode ?? 0, answer.headers);
        answer.pipe(response);
      }).end(body);
    });
    const { one } = clientsOf(gateway.url);
    assert.equal(acquired(await one.locks.acquire("behind", { ttl: 60 })).fencingToken, 1);
    assert.equal(bodies.length, 4);
    assert.deepEqual([...new Set(bodies)].length, 1, "the same body, with the same request id");
    assert.match(bodies[0] ?? "", /"request_id":"rq_[0-9a-f]{32}"/);
    [failures, bodies.length] = [Number.POSITIVE_INFINITY, 0];
    const few = createClient({ url: gateway.url, token: "secret-a", retries: 2 });
    assert.equal(await codeOf(few.locks.acquire("behind")), "not_holdfast");
    assert.equal(bodies.length, 3);
  });

  test("no reply in time counts as lost, too", async () => {
    await using proxy = await TcpProxy.start(server.port, () => performance.now());
    const { one } = clientsOf(proxy.url, { timeout: "300ms", retries: 20 });
    proxy.part();
    const asking = one.locks.acquire("parted", { ttl: 60 });
    setTimeout(() => proxy.heal(), 1000);
    assert.equal(acquired(await asking).fencingToken, 1);
  });
});

describe("a long wait", () => {
  test("is cut into steps with one request id, keeps its place, and gives a lease that is fresh", async () => {
    const { one, two } = clients;
    const asked: { request_id: string; wait_seconds: number }[] = [];
    const fateOf = ({ path, body }: Request): Fate => {
      if (path.endsWith("/acquire")) asked.push(JSON.parse(body));
      return { kind: "pass" };
    };
    await using proxy = await TcpProxy.start(server.port, () => performance.now(), { fateOf });
    const first = clientsOf(proxy.url).one;
    const holder = acquired(await two.locks.acquire("line", { ttl: 60 }));
    const told: string[] = [];
    const waiting = first.hold("line", {
      ttl: 2,
      wait: "10m",
      onWaiting: (waiting) =>
        told.push(waiting.status === "held" ? waiting.holder.principal : waiting.status),
    });
    await until("the first look is over", () => asked.length >= 2);
    const later = one.hold("line", { ttl: 60, wait: "10m" });
    await until("both stand in line", async () => (await two.locks.get("line")).waiters === 2);
    // The step that waits now outlasts the lease's whole TTL: its reply says nothing of when the grant was made.
    await new Promise((resolve) => setTimeout(resolve, 3000));
    await two.locks.release("line", holder.leaseId);
    const lease = await waiting;
    lease.assertHeld();
    assert.equal(lease.token, holder.fencingToken + 1, "nobody passed it");
    assert.deepEqual([...new Set(asked.map((body) => body.request_id))].length, 1);
    assert.deepEqual(told, ["runner-2"]);
    assert.ok(asked.every((body) => body.wait_seconds <= 20));
    await lease.release();
    await (await later).release();
  });

  test("finds a grant whose reply was lost, and goes on over a server that is away for a while", async () => {
    await using own = await startServer();
    const direct = clientsOf(own.url).two;
    let loses = false;
    const lost: string[] = [];
    const fateOf = ({ path }: Request): Fate => ({
      kind: loses && /\/(?:acquire|claim)$/.test(path) ? "lose-reply" : "pass",
    });
    const onStruck = ({ answer }: Struck): void => {
      loses = false;
      lost.push(answer?.body ?? "");
    };
    await using proxy = await TcpProxy.start(own.port, () => performance.now(), { fateOf, onStruck });
    const { one } = clientsOf(proxy.url);
    const holder = acquired(await direct.locks.acquire("line", { ttl: 600 }));
    const troubles: string[] = [];
    let answers = 0;
    const waiting = one.claimJob("line", { ttl: 60, wait: "10m", onWaiting: () => answers++ });
    const holding = one.hold("line", {
      ttl: 60,
      wait: "10m",
      onWaiting: (waiting) => (waiting.status === "trouble" ? troubles.push(waiting.error.code) : answers++),
    });
    await until("both were told who holds it", () => answers === 2);
    await until("both wait on", async () => (await direct.locks.get("line")).waiters === 2);
    // What is asked from here on is heard and answered by the server, and the answer lost.
    loses = true;
    await using again = await own.restart();
    await until("the wait noticed", () => troubles.length > 0);
    await until("both wait again", async () => (await direct.locks.get("line")).waiters === 2);
    await direct.locks.release("line", holder.leaseId);
    const firstOf = await Promise.race([waiting, holding]);
    if ("claimed" in firstOf) {
      assert.ok(firstOf.claimed);
      await one.releaseJob("line", firstOf.leaseId);
      await (await holding).release();
    } else {
      await firstOf.release();
      assert.ok((await waiting).claimed);
    }
    assert.equal(
      lost.filter((body) => body.includes("lease_id")).length,
      2,
      "both grants' replies were lost",
    );
    assert.equal((await clientsOf(again.url).two.locks.get("line")).fencingToken, holder.fencingToken + 2);
  });
});

async function textOf(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const bytes of request.setEncoding("utf8")) text += bytes;
  return text;
}

/** A server that answers as told. */
async function answering(handle: (request: IncomingMessage, response: ServerResponse) => void) {
  const listener = createServer(handle).listen(0, "127.0.0.1");
  await once(listener, "listening");
  const address = listener.address();
  if (address === null || typeof address === "string") throw new Error("it does not listen");
  return {
    url: `http://127.0.0.1:${address.port}`,
    async [Symbol.asyncDispose]() {
      listener.close();
      listener.closeAllConnections();
      await once(listener, "close");
    },
  };
}
