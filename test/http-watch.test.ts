// Watching: a snapshot, then every change in order, each with its id; resumed without gap or repeat, also across
// kill -9; `reset` when the place is not known; what else stands in a stream.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { lasting } from "./engines/store-of.js";
import { type Body, fresh, ok, refused, send, type TokenBody } from "./http-api.js";
import { type Frame, told, type Watch, watch } from "./http-stream.js";
import { adminToken, type Server, startServer } from "./server.js";

const one = "secret-a";
const viewer = "secret-v";
let server: Server;
/** A server that nobody disturbs, with one stream on which nothing happens. */
let quiet: Server;
let silent: Watch;
let silentSince = 0;

before(async () => {
  [server, quiet] = await Promise.all([startServer(), startServer()]);
  silent = await watch(quiet, "/watch", { token: viewer });
  silentSince = performance.now();
});
after(() => Promise.all([server.stop(), quiet.stop()]));

const acquire = (name: string, body: object = {}): Promise<Body> =>
  ok(server, "acquireLock", { token: one, name, body });
const renew = ({ name, lease_id }: Body): Promise<Body> =>
  ok(server, "renewLock", { token: one, name, body: { lease_id } });
const release = ({ name, lease_id }: Body): Promise<Body> =>
  ok(server, "releaseLock", { token: one, name, body: { lease_id } });
const follow = (path: string, lastEventId?: string): Promise<Watch> =>
  watch(server, path, { token: viewer, ...(lastEventId === undefined ? {} : { lastEventId }) });
const lockPath = (name: string): string => `/locks/${encodeURIComponent(name)}/watch`;

const idOf = (frame: Frame | undefined): string => {
  assert.ok(frame?.id, "an event without an id");
  return frame.id;
};

describe("one name", () => {
  test("a free name: its state, then acquired, renewed, released, expired, in order", async () => {
    const name = fresh("watched");
    const stream = await follow(lockPath(name));
    const [snapshot] = await stream.synced();
    assert.deepEqual(
      [snapshot?.event, snapshot?.data.status, snapshot?.data.holder],
      ["snapshot", "free", null],
    );
    const lease = await acquire(name, { metadata: "m" });
    const renewed = await renew(lease);
    await release(lease);
    await acquire(name, { ttl_seconds: 1 });
    const frames = await stream.take(5);
    stream.close();
    assert.deepEqual(told(frames), [
      `acquired ${name} 1`,
      `renewed ${name} 1`,
      `released ${name} 1`,
      `acquired ${name} 2`,
      `expired ${name} 2`,
    ]);
    assert.equal(new Set(frames.map(idOf)).size, 5);
    const [first, second] = frames.map(({ data }) => data);
    assert.deepEqual([first?.lock_name, first?.holder?.principal, first?.metadata], [name, "runner-1", "m"]);
    assert.equal(first?.expires_at, lease.expires_at);
    assert.equal(second?.expires_at, renewed.expires_at);
    assert.ok(!JSON.stringify(frames).includes(lease.lease_id));
  });

  test("a held name: who holds it comes first", async () => {
    const name = fresh("watched");
    const lease = await acquire(name, { metadata: "m" });
    const stream = await follow(lockPath(name));
    const [snapshot] = await stream.synced();
    stream.close();
    assert.deepEqual(
      [
        snapshot?.data.status,
        snapshot?.data.holder_id,
        snapshot?.data.fencing_token,
        snapshot?.data.expires_at,
      ],
      ["held", "runner-1", 1, lease.expires_at],
    );
  });

  test("a force release and a hand-over: released, then acquired by the waiter", async () => {
    const name = fresh("watched");
    const lease = await acquire(name);
    const stream = await follow(lockPath(name));
    await stream.synced();
    const waiting = acquire(name, { wait_seconds: 10 });
    await delay(50);
    await ok(server, "forceReleaseLock", { token: adminToken, name, body: { reason: "r" } });
    await waiting;
    assert.deepEqual(told(await stream.take(2)), [
      `released ${name} ${lease.fencing_token}`,
      `acquired ${name} 2`,
    ]);
    stream.close();
  });

  test("tells nothing of other names, and odd names are watched like others", async () => {
    const name = `path:${fresh("é ü")}/[slug]/a.tsx`;
    const stream = await follow(lockPath(name));
    await stream.synced();
    await acquire(`${name}x`);
    await acquire(name);
    assert.deepEqual(told([await stream.next()]), [`acquired ${name} 1`]);
    stream.close();
  });
});

describe("a prefix", () => {
  test("a snapshot of what is held, then what happens below it", async () => {
    const stem = fresh("pre");
    for (const last of ["b", "a"]) await acquire(`${stem}/${last}`);
    await acquire(`${stem}x`);
    const stream = await follow(`/watch?prefix=${encodeURIComponent(`${stem}/`)}`);
    assert.deepEqual(told(await stream.synced()), [`snapshot ${stem}/a 1`, `snapshot ${stem}/b 1`]);
    await acquire(`${stem}x2`);
    await acquire(`${stem}/c`);
    assert.deepEqual(told([await stream.next()]), [`acquired ${stem}/c 1`]);
    stream.close();
    await refused(server, "watchLocks", { token: one, query: { prefx: "a" } }, 422, "invalid_input");
  });

  test("a snapshot of more than a page, then everything once", async () => {
    const stem = fresh("many");
    const names = Array.from({ length: 1100 }, (_, i) => `${stem}/${String(i).padStart(4, "0")}`);
    for (let i = 0; i < names.length; i += 100)
      await Promise.all(names.slice(i, i + 100).map((name) => acquire(name)));
    const stream = await follow(`/watch?prefix=${stem}`);
    assert.deepEqual(
      (await stream.synced()).map(({ data }) => data.name),
      names,
    );
    stream.close();
  });
});

describe("resuming", () => {
  test("after any event goes on with the next, without a snapshot", async () => {
    const stem = fresh("resume");
    const stream = await follow(`/watch?prefix=${stem}`);
    await stream.synced();
    const synced = idOf(stream.frames.at(-1));
    // A session's end makes many events in one commit; a place between them must be one too.
    const { session_id } = await ok(server, "createSession", { token: one });
    await Promise.all(["a", "b", "c", "d"].map((last) => acquire(`${stem}/${last}`, { session_id })));
    await ok(server, "deleteSession", { token: one, name: session_id });
    const frames = await stream.take(8);
    stream.close();
    for (const [i, from] of [synced, ...frames.map(idOf)].entries()) {
      const rest = frames.slice(i);
      const resumed = await follow(`/watch?prefix=${stem}`, from);
      const after = await acquire(`${stem}/after-${i}`);
      const told2 = await resumed.take(rest.length + i + 1);
      resumed.close();
      assert.deepEqual(told(told2.slice(0, rest.length)), told(rest), `after ${from}`);
      assert.deepEqual(told2.slice(0, rest.length).map(idOf), rest.map(idOf));
      assert.equal(told2.at(-1)?.data.name, after.name);
    }
  });

  test("with another prefix or name works too: a place is one of the whole feed", async () => {
    const [a, b] = [fresh("feed-a"), fresh("feed-b")];
    const stream = await follow(lockPath(a));
    await stream.synced();
    await acquire(a);
    const from = idOf(await stream.next());
    stream.close();
    await acquire(b);
    const other = await follow(lockPath(b), from);
    assert.deepEqual(told([await other.next()]), [`acquired ${b} 1`]);
    other.close();
  });

  for (const [what, id] of [
    ["an unknown place", "bogus"],
    ["a place of another feed", "zzzzzzzz-1"],
    ["a place that is not reached yet", null],
    ["an odd header", "1\u00e9\u00ff"],
  ] as const)
    test(`from ${what}: reset, then a snapshot`, async () => {
      const name = fresh("reset");
      const lease = await acquire(name);
      const stream = await follow(lockPath(name));
      await stream.synced();
      const known = idOf(stream.frames.at(-1));
      stream.close();
      const beyond = known.replace(/\d+$/, (number) => String(Number(number) + 1_000_000));
      const resumed = await follow(lockPath(name), id ?? beyond);
      const [reset, snapshot] = await resumed.synced();
      assert.deepEqual([reset?.event, reset?.id, snapshot?.event], ["reset", null, "snapshot"]);
      assert.equal(snapshot?.data.holder_id, "runner-1");
      await release(lease);
      assert.deepEqual(told([await resumed.next()]), [`released ${name} 1`]);
      resumed.close();
    });

  test("an empty Last-Event-ID is none", async () => {
    const stream = await follow(lockPath(fresh("reset")), "");
    assert.deepEqual(
      (await stream.synced()).map(({ event }) => event),
      ["snapshot"],
    );
    stream.close();
  });
});

describe("across kill -9", () => {
  lasting("a resumed stream shows every acknowledged change exactly once, in order", async () => {
    const stem = fresh("crash");
    const acknowledged: string[] = [];
    let stream = await follow(`/watch?prefix=${stem}`);
    await stream.synced();
    let last = idOf(stream.frames.at(-1));
    const seen: Frame[] = [];
    for (let round = 0; round < 2; round++) {
      const worker = async (who: number): Promise<void> => {
        for (let i = 0; i < 15; i++) {
          const lease = await acquire(`${stem}/${round}-${who}-${i}`, { ttl_seconds: 600 });
          acknowledged.push(`acquired ${lease.name} 1`);
          await release(lease);
          acknowledged.push(`released ${lease.name} 1`);
        }
      };
      const work = Promise.allSettled([0, 1, 2, 3].map(worker));
      await delay(50 + 80 * round);
      server.kill("SIGKILL");
      await work;
      await stream.ended;
      seen.push(...stream.frames.filter(({ event }) => event !== "synced" && event !== "snapshot"));
      last = seen.at(-1)?.id ?? last;
      server = await server.restart();
      stream = await follow(`/watch?prefix=${stem}`, last);
    }
    const end = await acquire(`${stem}/end`);
    while (seen.at(-1)?.data.name !== end.name) seen.push(await stream.next());
    stream.close();
    assert.ok(!seen.some(({ event }) => event === "reset"));
    const events = told(seen);
    assert.equal(new Set(events).size, events.length, "no repeats");
    assert.deepEqual(
      acknowledged.filter((event) => !events.includes(event)),
      [],
      "no gaps",
    );
    for (const name of new Set(seen.map(({ data }) => data.name))) {
      const ofName = seen.filter(({ data }) => data.name === name).map(({ event }) => event);
      assert.ok(["acquired", "acquired,released"].includes(ofName.join()), `${name}: ${ofName}`);
    }
  });
});

describe("the stream itself", () => {
  test("is not cached nor buffered, tells when to reconnect, and needs GET", async () => {
    const stream = await follow("/watch?prefix=none");
    await stream.synced();
    assert.equal(stream.response.headers["cache-control"], "no-store");
    assert.equal(stream.response.headers["x-accel-buffering"], "no");
    assert.equal(stream.retryMs, 1000);
    stream.close();
    const head = await send(server, "HEAD", "/watch", { token: viewer });
    assert.deepEqual([head.status, head.headers.allow], [405, "GET"]);
  });

  test("is counted while it lives, not as work, and forgotten when its client goes", async () => {
    const gauges = async (): Promise<[number, number]> => {
      const { text } = await send(server, "GET", "/metrics");
      const value = (name: string): number =>
        Number(new RegExp(`^holdfast_${name} (\\d+)`, "m").exec(text)?.[1]);
      return [value("streams"), value("requests_in_work")];
    };
    const [before] = await gauges();
    const streams = await Promise.all(Array.from({ length: 10 }, () => follow("/watch?prefix=none")));
    for (const stream of streams) await stream.synced();
    const [during, inWork] = await gauges();
    assert.equal(during, before + 10);
    assert.equal(inWork, 1, "only the request for the metrics");
    for (const stream of streams) stream.close();
    for (let i = 0; i < 100 && (await gauges())[0] !== before; i++) await delay(10);
    assert.equal((await gauges())[0], before);
  });

  test("a client that does not read holds up nobody, and misses nothing", async () => {
    const stem = fresh("slow");
    const slow = await follow(`/watch?prefix=${stem}`);
    await slow.synced();
    slow.response.pause();
    const metadata = "x".repeat(1024);
    const names = Array.from({ length: 100 }, (_, i) => `${stem}/${i}`);
    const held = await Promise.all(names.map((name) => acquire(name, { metadata })));
    const leases = held.map(({ name, lease_id }) => ({ job_id: name, lease_id }));
    const fast = await follow(`/watch?prefix=${stem}`);
    await fast.synced();
    // Far more than the sockets of both sides hold.
    const rounds = 60;
    for (let i = 0; i < rounds; i++) await ok(server, "heartbeatJobs", { token: one, body: { leases } });
    const all = await fast.take(rounds * 100);
    slow.response.resume();
    const late = await slow.take(100 + rounds * 100);
    assert.deepEqual(late.slice(100).map(idOf), all.map(idOf));
    slow.close();
    fast.close();
  });

  test("ends within a second when its token is revoked, whatever happens on it", async () => {
    const made = await ok<TokenBody>(server, "createToken", {
      token: adminToken,
      body: { name: fresh("watcher") },
    });
    const stem = fresh("revoked");
    const stream = await watch(server, `/watch?prefix=${stem}`, { token: made.token });
    await stream.synced();
    await ok(server, "revokeToken", { token: adminToken, name: made.id });
    const revokedAt = performance.now();
    await stream.ended;
    assert.ok(performance.now() - revokedAt < 1000);
    await acquire(`${stem}/later`);
    assert.ok(!stream.frames.some(({ event }) => event === "acquired"));
  });

  test("a comment every 15 s shows that it lives", async () => {
    const left = 16_000 - (performance.now() - silentSince);
    if (left > 0) await delay(left);
    assert.deepEqual(silent.comments.slice(0, 1), [": still here"]);
    assert.ok(!silent.isOver);
    silent.close();
  });
});
