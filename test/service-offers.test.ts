// What becomes of a waiter while a step that serves it is on its way: the step is held up, loses its race or fails, the caller
// leaves, its own look fails, another step comes by. Two batches are under way at once, as on a database.
import assert from "node:assert/strict";
import { test } from "node:test";
import { lineKey, lockKey } from "../src/core/keys.js";
import type { Commit } from "../src/store/shared-data.js";
import { StoreError } from "../src/store/store.js";
import { Cluster, grantedTo, limits, type Node, never, until } from "./cluster-lab.js";
import { claim, space } from "./store-lab.js";

const name = "a";
const shortMs = 400;

/** A moment that a test waits for. */
class Moment {
  pass: () => void = () => undefined;
  readonly passed = new Promise<void>((resolve) => {
    this.pass = resolve;
  });
}

type Made = Awaited<ReturnType<Node["data"]["commit"]>>;

/** Puts the test between the server and its data: `instead` makes the commit, or does not. */
function between(
  { data }: Node,
  instead: (commit: Commit, make: () => Promise<Made>) => Promise<Made>,
): void {
  const commit = data.commit.bind(data);
  data.commit = (made) => instead(made, () => commit(made));
}

const grantsTo = (leaseId: string, { writes }: Commit): boolean =>
  writes.some(({ record }) => record?.kind === "lock" && record.lease?.id === leaseId);

test("who waits, and whose look fails while a sweep grants it the name, has it", async () => {
  await using cluster = await Cluster.of(1);
  const node = cluster.node(0);
  await node.leases.acquire(claim(name, { leaseId: "holder", ttlMs: shortMs }), null);
  const [granting, failed] = [new Moment(), new Moment()];
  let isFirst = true;
  between(node, async (commit, make) => {
    if (grantsTo("waiter", commit)) {
      granting.pass();
      await failed.passed;
    } else if (isFirst && commit.writes.some(({ key }) => key === lineKey(space, name))) {
      isFirst = false;
      await granting.passed;
      setTimeout(failed.pass, 50);
      throw new StoreError("unavailable", "held up for too long");
    }
    return make();
  });
  assert.equal(grantedTo(await node.acquire(name, "waiter", 10_000)), 2);
  await node.release(name, "waiter");
});

test("who leaves while it is offered a name that it then does not get leaves no place behind", async () => {
  await using cluster = await Cluster.of(1);
  const node = cluster.node(0);
  await node.acquire(name, "holder");
  const gone = new AbortController();
  const wanted = claim(name, { leaseId: "waiter", request: { id: "r-1", fingerprint: "f" } });
  const waiting = node.leases.acquire(wanted, { ms: 60_000, gone: gone.signal });
  waiting.catch(() => undefined);
  await until("it stands in line", () => cluster.turns(name).length === 1);
  between(node, async (commit, make) => {
    if (!grantsTo("waiter", commit)) return make();
    gone.abort();
    return "changed"; // another was first
  });
  await node.release(name, "holder");
  await assert.rejects(waiting);
  assert.equal(grantedTo(await node.acquire(name, "next")), 2, "it is nobody's turn who has left");
  const from = performance.now();
  await until("its ticket has run out", () => node.leases.queues.size === 0);
  assert.ok(performance.now() - from < 2 * limits.ticketMs);
});

test("nobody passes who is being served: neither the next in line nor one who has just come", async () => {
  await using cluster = await Cluster.of(1);
  const node = cluster.node(0);
  await node.leases.acquire(claim(name, { leaseId: "holder", ttlMs: shortMs }), null);
  const served: string[] = [];
  const waits = ["first", "second"].map(async (leaseId, nth) => {
    await until("those before stand in line", () => cluster.turns(name).length === nth);
    const token = grantedTo(await node.acquire(name, leaseId, 10_000));
    served.push(leaseId);
    await node.release(name, leaseId);
    return token;
  });
  await until("both stand in line", () => cluster.turns(name).length === 2);
  const [granting, looked] = [new Moment(), new Moment()];
  between(node, async (commit, make) => {
    if (grantsTo("first", commit)) {
      granting.pass();
      await looked.passed;
    }
    return make();
  });
  await granting.passed;
  // Whoever has just come is told beside the grant that is held up, or after it if that is a step on this very name.
  const passing = node.leases.acquire(claim(name, { leaseId: "new" }), { ms: 0, gone: never });
  await Promise.race([
    passing.then(() => node.leases.inspect(space, name)),
    new Promise((resolve) => setTimeout(resolve, 200)),
  ]);
  looked.pass();
  const { outcome } = await passing;
  assert.ok("refused" in outcome, "it is not the turn of who has just come");
  assert.deepEqual(await Promise.all(waits), [2, 3]);
  assert.deepEqual(served, ["first", "second"]);
});

test("who is served by another's release and, in the same batch, finds by its own look that it has the name, keeps it", async () => {
  await using cluster = await Cluster.of(1);
  const node = cluster.node(0);
  const start = { space, id: "session", principal: "runner-1", metadata: null, ttlMs: 60_000 };
  await node.leases.sessions.start({ ...start, hash: "hash" });
  await node.acquire(name, "holder");
  // In the same turn: the release is decided first, when the waiter stands in line already.
  const released = node.release(name, "holder");
  const wanted = claim(name, { leaseId: "waiter", ttlMs: null, sessionId: "session" });
  const waiting = node.leases.acquire(wanted, { ms: 10_000, gone: never });
  await released;
  assert.equal(grantedTo(await waiting), 2);
  await new Promise((resolve) => setTimeout(resolve, 100));
  const { holding } = await node.leases.inspect(space, name);
  assert.equal(holding?.lock.lease.id, "waiter");
});

test("a repeat that takes over a place, and cannot look itself, is not told how much was left before it asked", async () => {
  await using cluster = await Cluster.of(1);
  const node = cluster.node(0);
  await node.acquire(name, "holder");
  const [granting, repeated] = [new Moment(), new Moment()];
  const request = { id: "r-1", fingerprint: "f" };
  const first = node.leases.acquire(claim(name, { leaseId: "one", request }), { ms: 60_000, gone: never });
  await until("it stands in line", () => cluster.turns(name).length === 1);
  between(node, async (commit, make) => {
    const made = await make();
    if (!grantsTo("one", commit)) return made;
    granting.pass();
    await repeated.passed; // the answer of the database takes its time
    return made;
  });
  const released = node.release(name, "holder");
  await granting.passed;
  const read = node.data.read.bind(node.data);
  node.data.read = async (asks) => {
    if (!asks.includes(lockKey(space, name))) return read(asks);
    setTimeout(repeated.pass, 50);
    throw new StoreError("unavailable", "cut off");
  };
  const again = node.leases.acquire(claim(name, { leaseId: "two", request }), { ms: 60_000, gone: never });
  await assert.rejects(first, /took over the place/);
  await assert.rejects(again, (error) => error instanceof StoreError && error.kind === "unknown");
  node.data.read = read;
  await released;
  const last = await node.leases.acquire(claim(name, { leaseId: "three", request }), null);
  assert.equal(grantedTo(last), 2, "and whoever asks again is told of that lease");
});

for (const [what, ttlMs, told] of [
  [
    "while a sweep, whose commit then fails, grants it the name",
    shortMs,
    /it may be granted already: cut off/,
  ],
  ["while the name is held", 60_000, /^StoreError: cut off/],
] as const)
  test(`a repeat whose look fails ${what} keeps the place of its request id`, async () => {
    await using cluster = await Cluster.of(1);
    const node = cluster.node(0);
    const [granting, repeated] = [new Moment(), new Moment()];
    let isFirst = true;
    between(node, async (commit, make) => {
      if (ttlMs !== shortMs || !isFirst || !grantsTo("one", commit)) return make();
      isFirst = false;
      granting.pass();
      await repeated.passed;
      throw new StoreError("unavailable", "nothing was written");
    });
    await node.leases.acquire(claim(name, { leaseId: "holder", ttlMs }), null);
    const gone = new AbortController();
    const ask = (leaseId: string, signal = never) =>
      node.leases.acquire(claim(name, { leaseId, request: { id: "r-1", fingerprint: "f" } }), {
        ms: 10_000,
        gone: signal,
      });
    const first = ask("one", gone.signal).catch(() => undefined);
    await until("it stands in line", () => cluster.turns(name).length === 1);
    const behind = node.acquire(name, "behind", 10_000);
    await until("both stand in line", () => cluster.turns(name).length === 2);
    if (ttlMs === shortMs) await granting.passed;
    else gone.abort();
    const read = node.data.read.bind(node.data);
    node.data.read = async (asks) => {
      if (!asks.includes(lockKey(space, name))) return read(asks);
      throw new StoreError("unavailable", "cut off");
    };
    await assert.rejects(ask("two"), told);
    await first;
    node.data.read = read;
    repeated.pass();
    await new Promise(setImmediate);
    const last = ask("three");
    if (ttlMs !== shortMs) await node.release(name, "holder");
    assert.equal(grantedTo(await last), 2, "who asks again with the id is first, as before");
    await node.release(name, "one");
    assert.equal(grantedTo(await behind), 3);
  });
