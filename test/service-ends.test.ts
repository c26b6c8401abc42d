// What the service promises at its edges: a stop tells no waiter that a grant on its way is certainly not done, what is
// over is in nobody's way, however much of it there is, and a watch tells nothing that is older than its own snapshot.
import assert from "node:assert/strict";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { setTimeout as delay, setImmediate as turn } from "node:timers/promises";
import { floorKey } from "../src/core/keys.js";
import { policyDefault, rangeMax } from "../src/core/limits.js";
import { MemoryData, MemoryStore } from "../src/engines/memory/store.js";
import { Leases } from "../src/service/leases.js";
import { type Watched, watch } from "../src/service/watch.js";
import { type Store, StoreError } from "../src/store/store.js";
import { openSqlite } from "./sqlite-lab.js";
import { claim, scratch, space } from "./store-lab.js";

const limits = { waitersMax: 10, waitersPerNameMax: 10, waitersPerPrincipalMax: 10, ticketMs: 10_000 };
const serviceOver = (store: Store): Leases =>
  new Leases(store, policyDefault, limits, (what, error) => assert.fail(`${what}: ${error}`));

const releasing = (leaseId: string) => ({
  space,
  name: "job",
  principal: "runner-1",
  leaseId,
  outcome: null,
  note: null,
  repeatable: false,
});

async function onFile(t: TestContext): Promise<{ store: Store; leases: Leases }> {
  const store = await openSqlite({ path: join(scratch(t), "data.db") });
  return { store, leases: serviceOver(store) };
}

test("a waiter whose grant is on its way when the server stops is told of it", async (t) => {
  const { store, leases } = await onFile(t);
  await leases.acquire(claim("job", { leaseId: "one" }), null);
  const never = new AbortController().signal;
  const waiting = leases.acquire(claim("job", { leaseId: "two" }), { ms: 60_000, gone: never });
  const behind = leases.acquire(claim("job", { leaseId: "three" }), { ms: 60_000, gone: never });
  // Both stand in line once a call that came after theirs is answered.
  await leases.inspect(space, "job");
  const released = leases.release(releasing("one"));
  await turn(); // decided and handed to the writer, whose answer can only come in a later turn
  leases.close();
  const [won, lost] = await Promise.allSettled([waiting, behind]);
  await released;
  assert.ok(won.status === "fulfilled" && "granted" in won.value.outcome);
  assert.equal(lost.status, "rejected");
  const { holding } = await leases.inspect(space, "job");
  assert.equal(holding?.lock.lease.id, "two", "and nobody else was granted it");
  await store.close();
});

test("a grant that its waiter could not hear is taken back when the server stops", async (t) => {
  const { store, leases } = await onFile(t);
  await leases.acquire(claim("job", { leaseId: "one" }), null);
  const gone = new AbortController();
  const request = { id: "ticket", fingerprint: "f" };
  const waiting = leases.acquire(claim("job", { leaseId: "two", request }), {
    ms: 60_000,
    gone: gone.signal,
  });
  await leases.inspect(space, "job");
  const released = leases.release(releasing("one"));
  await turn(); // decided and handed to the writer, whose answer can only come in a later turn
  gone.abort();
  await assert.rejects(waiting);
  await released;
  assert.equal((await leases.inspect(space, "job")).holding?.lock.lease.id, "two", "its ticket keeps it");
  leases.close();
  assert.equal((await leases.inspect(space, "job")).holding, null);
  await store.close();
});

test("many leases below a path that are just over are in nobody's way", async () => {
  let now = 1000;
  const leases = serviceOver(new MemoryStore(new MemoryData({ monotonic: () => now, wall: () => now })));
  for (const path of ["one", "two", "three"])
    for (let nth = 0; nth < 3 * rangeMax; nth++)
      await leases.acquire(claim(`path:${path}/${nth}`, { ttlMs: 1000, leaseId: `${path}-${nth}` }), null);
  now += 2000;
  const { outcome } = await leases.acquire(claim("path:one", { principal: "other" }), null);
  assert.ok("granted" in outcome, JSON.stringify(outcome));
  const first = await leases.acquireFirst(
    ["path:two", "job"].map((name) => claim(name, { leaseId: "first" })),
  );
  assert.equal(first.granted?.granted.lock.name, "path:two", JSON.stringify(first.refusals));
  await leases.start();
  const alive = setInterval(() => undefined, 1000);
  const wait = { ms: 60_000, gone: new AbortController().signal };
  const waited = await leases.acquire(claim("path:three", { leaseId: "waiter" }), wait);
  assert.ok("granted" in waited.outcome, JSON.stringify(waited.outcome));
  clearInterval(alive);
  leases.close();
});

/** A store in which the name changes hands right after the place in the feed was taken. */
function busyAtHead(store: Store, change: () => Promise<unknown>): Store {
  return new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (name !== "head") return typeof value === "function" ? value.bind(target) : value;
      return async () => {
        const head = await target.head();
        await change();
        return head;
      };
    },
  });
}

for (const [prefix, name] of [
  ["", "job"],
  ["job", null],
] as const)
  for (const heldAtLast of [true, false])
    test(`a watch of ${name ?? `${prefix}*`} tells nothing older than its snapshot, ${heldAtLast ? "held" : "free"}`, async () => {
      const inner = new MemoryStore(new MemoryData());
      const before = serviceOver(inner);
      await before.acquire(claim("job", { leaseId: "1" }), null);
      const store = busyAtHead(inner, async () => {
        for (const id of [1, 2, 3]) {
          await before.release(releasing(String(id)));
          if (id < 3 || heldAtLast) await before.acquire(claim("job", { leaseId: String(id + 1) }), null);
        }
      });
      const over = new AbortController();
      const query = { space, name, prefix, accept: () => true, after: undefined };
      const told: Watched[] = [];
      for await (const watched of watch(serviceOver(store), query, over.signal)) {
        told.push(watched);
        if (watched.type === "synced")
          await (heldAtLast ? before.release(releasing("4")) : before.acquire(claim("job"), null));
        if (watched.type === "event" && watched.event.token === 4) over.abort();
      }
      const [shown] = told;
      const token =
        shown?.type === "snapshot" ? shown.holding.lock.token : shown?.type === "free" ? shown.token : 0;
      const events = told.flatMap((watched) => (watched.type === "event" ? [watched.event] : []));
      // A prefix shows no free names: of what is not shown, an end may be told.
      const older = events.filter(
        (event) => event.token < token || (event.token === token && event.type === "acquired"),
      );
      assert.deepEqual(older, []);
      assert.equal(events.at(-1)?.token, 4);
      assert.equal(events.at(-1)?.type, heldAtLast ? "released" : "acquired");
    });

/** A grant that its caller, who had a request id, never heard of. */
async function unheardGrant(store: Store) {
  const leases = new Leases(store, policyDefault, { ...limits, ticketMs: 300 }, () => undefined);
  const wanted = (leaseId: string, fingerprint: string) =>
    claim("job", { leaseId, ttlMs: 600_000, request: { id: "r-1", fingerprint } });
  const { claim: granted, outcome } = await leases.acquire(wanted("one", "f"), {
    ms: 1000,
    gone: new AbortController().signal,
  });
  assert.ok("granted" in outcome);
  leases.unheard(granted, outcome.granted);
  return { leases, wanted };
}

async function isTakenBack(leases: Leases): Promise<void> {
  for (const until = performance.now() + 5000; ; await delay(20)) {
    const { holding } = await leases.inspect(space, "job");
    if (holding === null) return;
    assert.ok(performance.now() < until, "it is held by one who was told nothing");
  }
}

test("a grant nobody heard of is taken back, though its request came again with another body", async () => {
  const { leases, wanted } = await unheardGrant(new MemoryStore(new MemoryData()));
  const { outcome } = await leases.acquire(wanted("two", "another"), null);
  assert.ok("refused" in outcome && outcome.refused === "request_reused");
  await isTakenBack(leases);
  leases.close();
});

test("and so it is if its request came again while the store was away", async () => {
  const store = new MemoryStore(new MemoryData());
  const { leases, wanted } = await unheardGrant(store);
  const { transact } = store;
  store.transact = () => Promise.reject(new StoreError("unavailable", "away"));
  await assert.rejects(leases.acquire(wanted("two", "f"), null), /away/);
  store.transact = transact;
  await isTakenBack(leases);
  leases.close();
});

test("but not if its request came again and was told of it", async () => {
  const { leases, wanted } = await unheardGrant(new MemoryStore(new MemoryData()));
  const { outcome } = await leases.acquire(wanted("two", "f"), null);
  assert.ok("granted" in outcome && outcome.granted.lock.lease.id === "one");
  await delay(700); // more than twice as long as its ticket
  const { holding } = await leases.inspect(space, "job");
  assert.equal(holding?.lock.lease.id, "one");
  leases.close();
});

test("after a restore who waits is served as soon as it may be, each space at its own time", async () => {
  const store = new MemoryStore(new MemoryData());
  const now = store.now();
  const quiet = { early: 200, late: 700 };
  for (const [at, ms] of Object.entries(quiet)) {
    const record = { kind: "floor", space: at, token: 9, ttlHighMs: ms, quietUntil: now + ms } as const;
    const writes = [{ key: floorKey(at), record, drop: [], add: [] }];
    await store.transact([], () => ({ reply: undefined, writes, events: [] }));
  }
  const leases = serviceOver(store);
  await leases.start();
  const alive = setInterval(() => undefined, 1000);
  const asked = performance.now();
  await Promise.all(
    Object.entries(quiet).map(async ([at, ms]) => {
      const wait = { ms: 20_000, gone: new AbortController().signal };
      const { outcome } = await leases.acquire({ ...claim("job", { leaseId: at }), space: at }, wait);
      assert.ok("granted" in outcome && performance.now() - asked < ms + 5000, at);
    }),
  );
  clearInterval(alive);
  leases.close();
});
