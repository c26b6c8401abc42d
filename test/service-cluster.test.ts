// Several servers over the same data: lines that they share, names that go from one to the other, servers that are gone.
// The data is in memory, where one can count; the same over real databases is in the evidence.
import assert from "node:assert/strict";
import { test } from "node:test";
import { lineKey, lockKey } from "../src/core/keys.js";
import { peerOf } from "../src/core/line.js";
import { Nodes } from "../src/service/nodes.js";
import { watch } from "../src/service/watch.js";
import { MovedError, StoreError } from "../src/store/store.js";
import { Cluster, grantedTo, never, until } from "./cluster-lab.js";
import { claim, space } from "./store-lab.js";

test("who waits at one server is served when the name is released at another, and soon", async () => {
  await using cluster = await Cluster.of(2);
  await cluster.node(0).acquire("a", "one");
  const waiting = cluster.node(1).acquire("a", "two", 20_000);
  await until("it stands in line", () => cluster.turns("a").length === 1);
  const from = performance.now();
  await cluster.node(0).release("a", "one");
  assert.equal(grantedTo(await waiting), 2);
  assert.ok(performance.now() - from < 1000);
  assert.deepEqual(cluster.turns("a"), []);
});

test("first come, first served over all servers", async () => {
  await using cluster = await Cluster.of(3);
  await cluster.node(0).acquire("a", "holder");
  const served: number[] = [];
  const waits: Promise<void>[] = [];
  for (let i = 0; i < 12; i++) {
    const node = cluster.node(i * 7 + 1);
    waits.push(
      node.acquire("a", `w-${i}`, 30_000).then(async (acquired) => {
        grantedTo(acquired);
        served.push(i);
        await cluster.node(i).release("a", `w-${i}`);
      }),
    );
    await until("it stands in line", () => cluster.turns("a").length === i + 1);
  }
  await cluster.node(2).release("a", "holder");
  await Promise.all(waits);
  assert.deepEqual(served, [...Array(12).keys()]);
  assert.deepEqual(cluster.turns("a"), []);
});

test("an acquire at any server passes nobody who waits at another", async () => {
  await using cluster = await Cluster.of(2);
  await cluster.node(0).acquire("a", "one");
  const waiting = cluster.node(1).acquire("a", "two", 20_000);
  await until("it stands in line", () => cluster.turns("a").length === 1);
  const passers: Promise<unknown>[] = [];
  const released = cluster.node(0).release("a", "one");
  for (let i = 0; i < 20; i++) passers.push(cluster.node(0).acquire("a", `passer-${i}`));
  await released;
  assert.equal(grantedTo(await waiting), 2);
  for (const passer of await Promise.all(passers))
    assert.ok("refused" in (passer as { outcome: object }).outcome);
});

test("the waiters of a server that is killed hold up the others for less than five seconds", async () => {
  await using cluster = await Cluster.of(3);
  await cluster.node(0).acquire("a", "one");
  void cluster.node(1).acquire("a", "dead", 60_000);
  await until("it stands in line", () => cluster.turns("a").length === 1);
  const waiting = cluster.node(2).acquire("a", "live", 60_000);
  await until("both stand in line", () => cluster.turns("a").length === 2);
  cluster.node(1).kill();
  const from = performance.now();
  await cluster.node(0).release("a", "one");
  const acquired = await waiting;
  assert.ok("granted" in acquired.outcome && acquired.outcome.granted.lock.lease.id === "live");
  assert.ok(performance.now() - from < 5000, `${performance.now() - from} ms`);
});

test("a server that ends in order holds up nobody", async () => {
  await using cluster = await Cluster.of(2);
  await cluster.node(0).acquire("a", "one");
  const ending = cluster.node(1).acquire("a", "two", 60_000);
  ending.catch(() => undefined);
  await until("it stands in line", () => cluster.turns("a").length === 1);
  const waiting = cluster.node(0).acquire("a", "three", 60_000);
  await until("both stand in line", () => cluster.turns("a").length === 2);
  await cluster.node(1).end();
  await assert.rejects(ending, (error) => error instanceof StoreError && error.kind === "unavailable");
  const from = performance.now();
  await cluster.node(0).release("a", "one");
  grantedTo(await waiting);
  assert.ok(performance.now() - from < 1000);
});

test("who leaves gives its turn to the next, wherever that one waits", async () => {
  await using cluster = await Cluster.of(2);
  await cluster.node(0).acquire("a", "one");
  const gone = new AbortController();
  const leaving = cluster.node(1).acquire("a", "left", 60_000, gone.signal);
  leaving.catch(() => undefined);
  await until("it stands in line", () => cluster.turns("a").length === 1);
  const brief = cluster.node(1).acquire("a", "brief", 1500);
  await until("two stand in line", () => cluster.turns("a").length === 2);
  const waiting = cluster.node(0).acquire("a", "three", 60_000);
  await until("three stand in line", () => cluster.turns("a").length === 3);
  const timedOut = await brief;
  assert.ok("refused" in timedOut.outcome && timedOut.position === 2 && timedOut.waiters === 2);
  gone.abort();
  await until("only one stands in line", () => cluster.turns("a").length === 1);
  assert.deepEqual(cluster.turns("a").map(peerOf), [cluster.node(0).id]);
  await cluster.node(1).release("a", "one");
  assert.equal(grantedTo(await waiting), 2);
});

test("who is away keeps its place, and passes it to nobody who came later to its server", async () => {
  await using cluster = await Cluster.of(2);
  const [one, two] = [cluster.node(0), cluster.node(1)];
  await one.acquire("a", "holder");
  const ticket = (leaseId: string, gone: AbortSignal) =>
    two.leases.acquire(claim("a", { leaseId, request: { id: "t", fingerprint: "f" } }), { ms: 60_000, gone });
  const gone = new AbortController();
  const away = ticket("ticket", gone.signal);
  away.catch(() => undefined);
  const waits = [away];
  const served: string[] = [];
  for (const [node, leaseId] of [[one, "b"] as const, [two, "c"] as const]) {
    await until("all before stand in line", () => cluster.turns("a").length === waits.length);
    waits.push(node.acquire("a", leaseId, 60_000));
  }
  await until("all stand in line", () => cluster.turns("a").length === 3);
  const [, second, third] = waits;
  void second?.then(() => served.push("b"));
  void third?.then(() => served.push("c"));
  gone.abort();
  await assert.rejects(away);
  await one.release("a", "holder");
  await second;
  assert.deepEqual(served, ["b"]);
  const back = ticket("again", never);
  await until(
    "it is back",
    () => cluster.turns("a").length === 2 && two.leases.queues.count(space, "a") === 2,
  );
  await one.release("a", "b");
  const { claim: granted } = await back;
  assert.deepEqual(served, ["b"], "its place was before the other's");
  await two.release("a", granted.leaseId);
  await third;
});

test("a turn of one who is away, alone at its server, holds up nobody until the next look", async () => {
  await using cluster = await Cluster.of(2);
  const [one, two] = [cluster.node(0), cluster.node(1)];
  for (let i = 0; i < 5; i++) {
    const name = `a-${i}`;
    await one.acquire(name, `holder-${i}`);
    const gone = new AbortController();
    const request = { id: `t-${i}`, fingerprint: "f" };
    const away = two.leases.acquire(claim(name, { leaseId: `away-${i}`, request }), {
      ms: 60_000,
      gone: gone.signal,
    });
    await Promise.all([
      assert.rejects(away),
      until("it stands in line", () => cluster.turns(name).length === 1).then(() => gone.abort()),
    ]);
    const waiting = one.acquire(name, `next-${i}`, 60_000);
    await until("both stand in line", () => cluster.turns(name).length === 2);
    const from = performance.now();
    await one.release(name, `holder-${i}`);
    grantedTo(await waiting);
    assert.ok(performance.now() - from < 300, `${performance.now() - from} ms`);
  }
});

test("who waits is served when the lease runs out, or its lock delay, whichever server finds it", async () => {
  await using cluster = await Cluster.of(2);
  const [one, two] = [cluster.node(0), cluster.node(1)];
  await one.leases.acquire(claim("a", { leaseId: "short", ttlMs: 1000, delayMs: 1000 }), null);
  const from = performance.now();
  assert.equal(grantedTo(await two.acquire("a", "next", 20_000)), 2);
  const waited = performance.now() - from;
  assert.ok(waited >= 1990 && waited < 4000, `${waited} ms`);
});

test("turns that were dropped while the store was out of reach are taken again", async () => {
  await using cluster = await Cluster.of(2);
  const [one, two] = [cluster.node(0), cluster.node(1)];
  await one.acquire("a", "one");
  const waiting = two.acquire("a", "two", 60_000);
  await until("it stands in line", () => cluster.turns("a").length === 1);
  // As another server would that took it for gone.
  await one.store.transact([lineKey(space, "a")], (view) => ({
    reply: view.get(lineKey(space, "a")),
    writes: [{ key: lineKey(space, "a"), record: null, drop: [], add: [] }],
    events: [],
  }));
  two.data.fault = "unavailable"; // its next word that it runs fails
  await until("it stands in line again", () => cluster.turns("a").length === 1);
  await one.release("a", "one");
  grantedTo(await waiting);
});

test("a watch at one server tells what another did, and resumes at any of them", async () => {
  await using cluster = await Cluster.of(2);
  const over = new AbortController();
  const seen: string[] = [];
  let place: string | undefined;
  const query = { space, name: "a", prefix: "", accept: () => true, after: undefined };
  for await (const told of watch(cluster.node(1).leases, query, over.signal)) {
    if (told.type === "synced") await cluster.node(0).acquire("a", "one");
    if (told.type !== "event") continue;
    seen.push(told.event.type);
    place = told.cursor;
    over.abort();
  }
  await cluster.node(1).release("a", "one");
  const again = new AbortController();
  for await (const told of watch(cluster.node(0).leases, { ...query, after: place }, again.signal)) {
    if (told.type === "event") seen.push(told.event.type);
    again.abort();
  }
  assert.deepEqual(seen, ["acquired", "released"]);
});

test("data that was moved: who waits is told where at once, who comes later, too, and nothing is asked of it any more", async () => {
  await using cluster = await Cluster.of(2);
  const [one, two] = [cluster.node(0), cluster.node(1)];
  grantedTo(await one.acquire("a", "one"));
  const nodes = new Nodes(two.leases);
  const plain = { session: null, dispatch: null, request: null, type: null, scope: null };
  const ask = { space, principal: "runner-1", leaseId: "work", ...plain };
  const isMoved = (error: unknown): boolean =>
    error instanceof MovedError && /to elsewhere/.test(error.message);
  const waiting = [
    assert.rejects(two.acquire("a", "two", 600_000), isMoved),
    assert.rejects(nodes.work.next(ask, { ms: 600_000, gone: never }), isMoved),
  ];
  await until("it stands in line", () => cluster.turns("a").length === 1);
  cluster.memory.moved = "elsewhere";
  const begun = performance.now();
  await Promise.all(waiting);
  assert.ok(performance.now() - begun < 2000, "with the next word that it runs");
  const { length } = two.data.reads;
  await assert.rejects(two.acquire("b", "three", 600_000), isMoved);
  await assert.rejects(two.store.ping(), isMoved);
  await assert.rejects(two.store.head(), isMoved);
  for (const place of [undefined, "aa-1"])
    await assert.rejects(two.store.changes(place, never)[Symbol.asyncIterator]().next(), isMoved);
  assert.equal(two.data.reads.length, length);
});

test("many clients at several servers: one holder at a time, tokens rise, everybody is served", async () => {
  await using cluster = await Cluster.of(3);
  const holders = new Map<string, string>();
  const last = new Map<string, number>();
  let grants = 0;
  const worker = async (w: number): Promise<void> => {
    for (let round = 0; round < 6; round++) {
      const name = `n-${(w + round) % 4}`;
      const leaseId = `w-${w}-${round}`;
      const token = grantedTo(await cluster.node(w).acquire(name, leaseId, 60_000));
      assert.equal(holders.get(name), undefined, "two at once");
      assert.ok(token > (last.get(name) ?? 0));
      holders.set(name, leaseId);
      last.set(name, token);
      grants++;
      await new Promise((resolve) => setImmediate(resolve));
      holders.delete(name);
      await cluster.node(w + round).release(name, leaseId);
    }
  };
  await Promise.all(Array.from({ length: 24 }, (_, w) => worker(w)));
  assert.equal(grants, 144);
  for (const name of ["n-0", "n-1", "n-2", "n-3"]) {
    assert.deepEqual(cluster.turns(name), []);
    const lock = cluster.memory.ordered.records.get(lockKey(space, name))?.value;
    assert.ok(lock?.kind === "lock" && lock.lease === null);
  }
});
