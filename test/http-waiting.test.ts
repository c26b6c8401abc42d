// Waiting for a name: first come, first served; a release wakes exactly one; nobody who left is granted; a request
// id keeps its place; lock delays are waited out; names that overlap wake each other's waiters.
import assert from "node:assert/strict";
import { type ClientRequest, request as httpRequest } from "node:http";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { lasting } from "./engines/store-of.js";
import { type Body, call, eventually, fresh, lapse, ok, refused, waitersOn } from "./http-api.js";
import { told, watch } from "./http-stream.js";
import { adminToken, type Server, startServer } from "./server.js";

const one = "secret-a";
const two = "secret-b";
const viewer = "secret-v";
let server: Server;

before(async () => {
  server = await startServer();
});
after(() => server.stop());

const acquire = (name: string, body: object = {}, token = one): Promise<Body> =>
  ok(server, "acquireLock", { token, name, body });
const release = ({ name, lease_id }: Pick<Body, "name" | "lease_id">, token = one): Promise<Body> =>
  ok(server, "releaseLock", { token, name, body: { lease_id } });
const look = (name: string): Promise<Body> => ok(server, "getLock", { token: viewer, name });
const queue = (name: string, count: number): Promise<void> => waitersOn(server, viewer, name, count);

/** A waiting acquire on a connection of its own that the test can cut. */
function caller(name: string, body: object, token = two): ClientRequest & { reply: Promise<Body> } {
  const text = JSON.stringify({ wait_seconds: 30, ...body });
  const headers = {
    authorization: `Bearer ${token}`,
    "content-type": "application/json",
    "content-length": Buffer.byteLength(text),
  };
  const path = `/locks/${encodeURIComponent(name)}/acquire`;
  const outgoing = httpRequest({
    host: "127.0.0.1",
    port: server.port,
    method: "POST",
    path,
    headers,
    agent: false,
  });
  const reply = new Promise<Body>((resolve, reject) => {
    outgoing.on("error", reject);
    outgoing.on("response", async (response) => {
      let whole = "";
      for await (const chunk of response.setEncoding("utf8")) whole += chunk;
      resolve(JSON.parse(whole));
    });
  });
  reply.catch(() => undefined);
  outgoing.end(text);
  return Object.assign(outgoing, { reply });
}

/** A connection that was cut may be read only after its repeat came, and take the place over: that is told, and what to do. */
async function acquireOrAskAgain(name: string, body: object): Promise<Body> {
  const reply = await call(server, "acquireLock", { token: two, name, body });
  if (reply.status === 200) return reply.body;
  assert.equal(reply.body.code, "unknown_outcome", reply.text);
  return acquireOrAskAgain(name, body);
}

/** Leases that a repeat got after the first connection was cut, looked at again when tickets have run out. */
const repeated: Body[] = [];
let repeatedAt = 0;

describe("a ticket whose first connection was cut while the grant was made", () => {
  test("gives the lease to the repeat, waiting or not", async () => {
    for (let round = 0; round < 60; round++) {
      const [name, request_id] = [fresh("cut"), fresh("id")];
      const cut = caller(name, { request_id, ttl_seconds: 600 });
      const leave = (): void => void cut.destroy();
      cut.on("finish", () => (round % 3 === 0 ? leave() : setTimeout(leave, round % 3)));
      await new Promise((resolve) => cut.once("close", resolve));
      const again = await acquireOrAskAgain(name, {
        request_id,
        ttl_seconds: 600,
        wait_seconds: 20 * (round % 2),
      });
      assert.deepEqual([again.status, again.fencing_token], ["acquired", 1]);
      repeated.push(again);
    }
    repeatedAt = performance.now();
  });
});

describe("the queue", () => {
  test("serves 20 waiters first come, first served; each release wakes exactly one", async () => {
    const name = fresh("queue");
    let holder = await acquire(name);
    const served: number[] = [];
    const waiters: Promise<Body>[] = [];
    for (let i = 0; i < 20; i++) {
      waiters.push(
        acquire(name, { wait_seconds: 60 }, i % 2 === 0 ? one : two).then((reply) => {
          served.push(i);
          return reply;
        }),
      );
      await queue(name, i + 1);
    }
    for (let i = 0; i < 20; i++) {
      await release(holder, i === 0 || i % 2 === 1 ? one : two);
      const next = await waiters[i];
      assert.ok(next);
      assert.equal(next.status, "acquired");
      assert.equal(next.fencing_token, holder.fencing_token + 1);
      const view = await look(name);
      assert.deepEqual([view.status, view.fencing_token, view.waiters], ["held", next.fencing_token, 19 - i]);
      assert.deepEqual(
        served,
        Array.from({ length: i + 1 }, (_, n) => n),
      );
      holder = next;
    }
  });

  test("is woken by an expiry within a second", async () => {
    const name = fresh("queue");
    const first = await acquire(name, { ttl_seconds: 1 });
    const next = await acquire(name, { wait_seconds: 10 }, two);
    const lateMs = Date.now() - Date.parse(first.expires_at);
    assert.equal(next.status, "acquired");
    assert.ok(lateMs > -50 && lateMs < 1000, `${lateMs} ms after the expiry`);
  });

  test("a wait in vain answers held, with the place", async () => {
    const name = fresh("queue");
    const holder = await acquire(name, { metadata: "m" });
    const before = acquire(name, { wait_seconds: 20 }, two);
    await queue(name, 1);
    const started = performance.now();
    const [plain, ticket] = await Promise.all([
      acquire(name, { wait_seconds: 2 }),
      queue(name, 2).then(() => acquire(name, { wait_seconds: 1, request_id: fresh("id") })),
    ]);
    assert.ok(performance.now() - started > 1990);
    for (const reply of [plain, ticket]) assert.deepEqual([reply.status, reply.metadata], ["held", "m"]);
    assert.deepEqual([plain.position, ticket.position], [2, 3]);
    await release(holder);
    assert.equal((await before).status, "acquired");
  });

  test("is never passed by an acquire that does not wait", async () => {
    const name = fresh("queue");
    let holder = await acquire(name);
    for (let round = 0; round < 10; round++) {
      const waiting = acquire(name, { wait_seconds: 20 }, two);
      await queue(name, 1);
      const rush = Array.from({ length: 20 }, () => acquire(name));
      const released = release(holder);
      const late = Array.from({ length: 20 }, () => acquire(name));
      await released;
      for (const reply of await Promise.all([...rush, ...late])) assert.equal(reply.status, "held");
      const next = await waiting;
      assert.equal(next.fencing_token, holder.fencing_token + 1);
      await release(next, two);
      holder = await acquire(name);
    }
  });

  test("hands over under contention: one holder at a time, tokens without gaps", async () => {
    const name = fresh("queue");
    let holding = 0;
    const tokens: number[] = [];
    const worker = async (token: string): Promise<void> => {
      for (let i = 0; i < 10; i++) {
        const lease = await acquire(name, { wait_seconds: 60 }, token);
        assert.equal(lease.status, "acquired");
        assert.equal(++holding, 1, "two holders at once");
        tokens.push(lease.fencing_token);
        holding--;
        await release(lease, token);
      }
    };
    await Promise.all(Array.from({ length: 12 }, (_, i) => worker(i % 2 === 0 ? one : two)));
    assert.deepEqual(
      tokens,
      Array.from({ length: 120 }, (_, i) => i + 1),
    );
    assert.equal((await look(name)).waiters, 0);
  });
});

describe("a waiter that left", () => {
  test("is not granted: the next one is, or the name is free at once", async () => {
    const name = fresh("gone");
    const holder = await acquire(name);
    const gone = caller(name, {});
    await queue(name, 1);
    const next = acquire(name, { wait_seconds: 20 }, two);
    await queue(name, 2);
    gone.destroy();
    await queue(name, 1);
    await release(holder);
    const lease = await next;
    assert.equal(lease.fencing_token, holder.fencing_token + 1, "no grant in between");
    const alone = caller(name, {});
    await queue(name, 1);
    alone.destroy();
    await queue(name, 0);
    await release(lease, two);
    const view = await look(name);
    assert.deepEqual([view.status, view.fencing_token], ["free", lease.fencing_token]);
  });

  test("in the very moment of the release leaves no ghost behind", async (t) => {
    const name = fresh("gone");
    let inFlight = 0;
    for (let round = 0; round < 30; round++) {
      const holder = await acquire(name, { ttl_seconds: 600 });
      assert.equal(holder.status, "acquired");
      const gone = caller(name, { ttl_seconds: 600 });
      await queue(name, 1);
      const released = release(holder);
      if (round % 3 === 1) await delay(0);
      if (round % 3 === 2) await delay(1);
      gone.destroy();
      await released;
      const heard = await Promise.race([gone.reply.catch(() => null), delay(30, null)]);
      if (heard?.lease_id !== undefined) await release(heard, two);
      if ((await look(name)).status === "free") continue;
      // Either taken back right now, or written to the socket just before it closed: then only the TTL can tell.
      await eventually(async () => assert.equal((await look(name)).status, "free"), 500).catch(() => {
        inFlight++;
        return ok(server, "forceReleaseLock", { token: adminToken, name, body: { reason: "in flight" } });
      });
    }
    t.diagnostic(`${inFlight} of 30 replies were on their way when the connection closed`);
    assert.equal((await look(name)).waiters, 0);
  });

  test("when its client goes at once after asking, a free name is free again", async () => {
    const name = fresh("gone");
    for (let round = 0; round < 10; round++) {
      const gone = caller(name, { ttl_seconds: 600 });
      gone.on("socket", (socket) => socket.on("connect", () => setTimeout(() => gone.destroy(), round % 4)));
      await gone.reply.then((lease) => release(lease, two)).catch(() => undefined);
    }
    await queue(name, 0);
  });
});

describe("a ticket", { concurrency: true }, () => {
  test("keeps its place while the client reconnects", async () => {
    const [name, request_id] = [fresh("ticket"), fresh("id")];
    const holder = await acquire(name);
    const cut = caller(name, { request_id });
    await queue(name, 1);
    const behind = acquire(name, { wait_seconds: 20 });
    await queue(name, 2);
    cut.destroy();
    await queue(name, 1);
    const back = acquire(name, { wait_seconds: 1, request_id }, two);
    await queue(name, 2);
    assert.equal((await back).position, 1, "before the one that came later");
    const again = acquire(name, { wait_seconds: 20, request_id }, two);
    await queue(name, 2);
    await release(holder);
    const first = await again;
    assert.deepEqual([first.status, first.fencing_token], ["acquired", holder.fencing_token + 1]);
    await release(first, two);
    assert.equal((await behind).fencing_token, holder.fencing_token + 2);
  });

  test("of one who is away does not hold up the others, and is no ghost", async () => {
    const [name, request_id] = [fresh("ticket"), fresh("id")];
    const holder = await acquire(name);
    const cut = caller(name, { request_id });
    await queue(name, 1);
    const behind = acquire(name, { wait_seconds: 20 });
    await queue(name, 2);
    cut.destroy();
    await queue(name, 1);
    await release(holder);
    const next = await behind;
    assert.equal(next.fencing_token, holder.fencing_token + 1);
    const back = acquire(name, { wait_seconds: 20, request_id }, two);
    await queue(name, 1);
    await release(next);
    assert.equal((await back).fencing_token, holder.fencing_token + 2);
  });

  test("whose grant was lost on the way gives the same lease to the repeat", async () => {
    const [name, request_id] = [fresh("ticket"), fresh("id")];
    for (let round = 0; round < 10; round++) {
      const id = `${request_id}-${round}`;
      const holder = await acquire(name);
      const cut = caller(name, { request_id: id });
      await queue(name, 1);
      const released = release(holder);
      cut.destroy();
      await released;
      const lease = await acquire(name, { wait_seconds: 20, request_id: id }, two);
      assert.deepEqual([lease.status, lease.fencing_token], ["acquired", holder.fencing_token + 1]);
      await release(lease, two);
    }
  });
});

describe("a lock delay", { concurrency: true }, () => {
  const force = (name: string) =>
    ok(server, "forceReleaseLock", { token: adminToken, name, body: { reason: "r" } });

  test("refuses with delayed, shows when, and lets waiters in afterwards, in order", async () => {
    const name = fresh("delay");
    await acquire(name, { lock_delay_seconds: 2 });
    const waiting = acquire(name, { wait_seconds: 20 }, two);
    await queue(name, 1);
    await force(name);
    const told = await refused(server, "acquireLock", { token: one, name, body: {} }, 409, "delayed");
    assert.equal(told.status, "delayed");
    assert.ok(told.retry_after_ms > 1000 && told.retry_after_ms <= 2001);
    const view = await look(name);
    assert.deepEqual([view.status, view.available_at, view.waiters], ["free", told.available_at, 1]);
    const next = await waiting;
    const lateMs = Date.now() - Date.parse(told.available_at);
    assert.equal(next.status, "acquired");
    assert.ok(lateMs > -50 && lateMs < 1000, `${lateMs} ms after the delay`);
    assert.equal((await look(name)).available_at, undefined);
  });

  test("follows an expiry and a session's end, not a release", async () => {
    const name = fresh("delay");
    await release(await acquire(name, { lock_delay_seconds: 30 }));
    const { session_id } = await ok(server, "createSession", { token: one });
    const bound = await acquire(name, { lock_delay_seconds: 30, session_id });
    assert.equal(bound.status, "acquired");
    await ok(server, "deleteSession", { token: one, name: session_id });
    await refused(server, "acquireLock", { token: one, name, body: {} }, 409, "delayed");
    const other = fresh("delay");
    await acquire(other, { ttl_seconds: 1, lock_delay_seconds: 30 });
    await lapse(1000);
    await refused(
      server,
      "acquireLock",
      { token: one, name: other, body: { wait_seconds: 1 } },
      409,
      "delayed",
    );
  });

  test("of more than 60 s is refused", async () => {
    for (const lock_delay_seconds of [61, -1, 0.5, "1"])
      await refused(
        server,
        "acquireLock",
        { token: one, name: fresh("delay"), body: { lock_delay_seconds } },
        422,
        "invalid_input",
      );
    for (const wait_seconds of [601, -1, 0.5, "1", null])
      await refused(
        server,
        "acquireLock",
        { token: one, name: fresh("delay"), body: { wait_seconds } },
        422,
        "invalid_input",
      );
  });
});

describe("overlap", { concurrency: true }, () => {
  test("a path excludes others' leases above and below it, and no neighbour", async () => {
    const dir = fresh("path:overlap");
    await acquire(`${dir}/src/auth`);
    for (const name of [dir, `${dir}/src`, `${dir}/src/auth/a.ts`, `${dir}/src/auth/deep/b.ts`]) {
      const held = await acquire(name, {}, two);
      assert.deepEqual([held.status, held.name, held.conflicts_with], ["held", name, `${dir}/src/auth`]);
    }
    for (const name of [`${dir}/src/auth2`, `${dir}/src/aut`, `${dir}/lib`, `${dir}-2`])
      assert.equal((await acquire(name, {}, two)).status, "acquired", name);
  });

  test("waiters of names above and below are woken by its release, within a second", async () => {
    const dir = fresh("path:overlap");
    const middle = await acquire(`${dir}/src`);
    const below = acquire(`${dir}/src/a.ts`, { wait_seconds: 20 }, two);
    const sibling = acquire(`${dir}/src/b.ts`, { wait_seconds: 20 }, two);
    const above = acquire(dir, { wait_seconds: 20 }, two);
    for (const name of [`${dir}/src/a.ts`, `${dir}/src/b.ts`, dir]) await queue(name, 1);
    await release(middle);
    const releasedAt = performance.now();
    const leases = await Promise.all([below, sibling]);
    assert.ok(performance.now() - releasedAt < 1000);
    assert.deepEqual(
      leases.map(({ status }) => status),
      ["acquired", "acquired"],
    );
    assert.equal((await look(dir)).waiters, 1, "what is above waits for all that is below");
    for (const lease of leases) await release(lease, two);
    assert.equal((await above).status, "acquired");
  });

  test("repo:global excludes every path: and repo: name, and wakes their waiters", async () => {
    const [path, repo, plain] = [fresh("path:global/x"), fresh("repo:deploy"), fresh("issue:plain")];
    // Others' paths of this file are held: an operator's space of its own is empty.
    const headers = { "holdfast-space": fresh("global") };
    const asked = (name: string, body: object = {}) =>
      ok(server, "acquireLock", { token: adminToken, name, body, headers });
    const end = ({ name, lease_id }: Body) =>
      ok(server, "releaseLock", { token: adminToken, name, body: { lease_id }, headers });
    const global = await asked("repo:global");
    assert.equal((await asked(path)).conflicts_with, "repo:global");
    assert.equal((await asked(repo)).conflicts_with, "repo:global");
    assert.equal((await asked(plain)).status, "acquired");
    const waiting = [path, repo].map((name) => asked(name, { wait_seconds: 20 }));
    for (const name of [path, repo])
      await eventually(async () =>
        assert.equal((await ok(server, "getLock", { token: adminToken, name, headers })).waiters, 1),
      );
    await end(global);
    const leases = await Promise.all(waiting);
    assert.deepEqual(
      leases.map(({ status }) => status),
      ["acquired", "acquired"],
    );
    const back = asked("repo:global", { wait_seconds: 20 });
    for (const lease of leases) await end(lease);
    assert.equal((await back).status, "acquired");
  });

  test("is woken by an expiry and by a session's end too", async () => {
    const dir = fresh("path:overlap");
    await acquire(`${dir}/src`, { ttl_seconds: 1 });
    assert.equal((await acquire(`${dir}/src/a.ts`, { wait_seconds: 10 }, two)).status, "acquired");
    const { session_id } = await ok(server, "createSession", { token: one });
    const other = fresh("path:overlap");
    await acquire(`${other}/src`, { session_id });
    const waiting = acquire(`${other}/src/a.ts`, { wait_seconds: 10 }, two);
    await queue(`${other}/src/a.ts`, 1);
    await ok(server, "deleteSession", { token: one, name: session_id });
    assert.equal((await waiting).status, "acquired");
  });
});

describe("tickets that ran out", () => {
  test("end no lease that a repeat got", async () => {
    await delay(Math.max(0, 10_500 - (performance.now() - repeatedAt)));
    for (const { name, fencing_token } of repeated) {
      const view = await look(name);
      assert.deepEqual([view.status, view.fencing_token], ["held", fencing_token], name);
    }
  });
});

describe("stopping", () => {
  lasting("waiters and streams are told to come back, and the server ends in time", async () => {
    const name = fresh("stop");
    await acquire(name);
    const waiting = call(server, "acquireLock", { token: two, name, body: { wait_seconds: 60 } });
    await queue(name, 1);
    const stream = await watch(server, `/locks/${name}/watch`, { token: viewer });
    await stream.synced();
    const startedAt = performance.now();
    server.kill("SIGTERM");
    const { status, body, headers } = await waiting;
    assert.deepEqual([status, body.code], [503, "unavailable"]);
    assert.ok(Number(headers["retry-after"]) >= 1);
    await stream.ended;
    assert.deepEqual(told(stream.frames.slice(-1)), ["reconnect undefined undefined"]);
    assert.equal(await server.exited, 0);
    assert.ok(performance.now() - startedAt < 10_000);
    server = await server.restart();
    assert.equal((await acquire(name, {}, two)).status, "held");
  });
});
