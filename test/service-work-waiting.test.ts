// Waiting for work: a node that is free and a worker that waits for it find each other, whatever else goes on; calls with
// one request id are answered alike; and `empty` is what a last look found.
import assert from "node:assert/strict";
import { test } from "node:test";
import { everySpace, floorKey } from "../src/core/keys.js";
import { noFloor } from "../src/core/lease.js";
import { StoreError } from "../src/store/store.js";
import { quiet, Scene } from "./service-work-lab.js";

const request = { id: "ticket", fingerprint: "f" };

test("calls with one request id get one claim, all of them at once, and the next work is another's", async () => {
  const scene = await Scene.started();
  const first = await scene.waiting(scene.ask({ request }));
  const again = await scene.waiting(scene.ask({ request }), 2000);
  const other = await scene.waiting(scene.ask({ principal: "bob" }));
  await scene.create("x");
  await quiet();
  assert.deepEqual([first.told, again.told, other.told], ["x", "x", null]);
  await scene.create("y");
  await quiet();
  assert.equal(other.told, "y");
  assert.equal(scene.leases.counters.granted, 2, "a repeat is no grant");
});

test("a repeat that does not wait is granted: those who wait with its request id are told", async () => {
  const scene = new Scene();
  const waiting = await scene.waiting(scene.ask({ request }));
  await scene.create("x");
  await scene.taken(scene.ask({ request }));
  await quiet();
  assert.equal(waiting.told, "x");
});

test("a woken worker whose request was answered before passes the node on", async () => {
  const scene = await Scene.started();
  const first = await scene.waiting(scene.ask({ request }));
  const again = await scene.waiting(scene.ask({ request }));
  const other = await scene.waiting(scene.ask({ principal: "bob" }));
  // The repeat's look is under way when the next node comes: it owes that one a look.
  const go = scene.store.holdReply();
  await scene.create("x");
  await quiet();
  await scene.create("y");
  go();
  await quiet();
  assert.deepEqual([first.told, again.told, other.told], ["x", "x", "y"]);
});

test("a worker that takes a better node passes on the one that woke it", async () => {
  const scene = await Scene.started();
  const bugs = await scene.waiting(scene.ask({ type: "issue" }));
  const any = await scene.waiting(scene.ask());
  const tasks = await scene.waiting(scene.ask({ type: "task" }));
  const go = scene.store.holdLook();
  await scene.create("bug", { type: "issue", priority: "p1" });
  await quiet();
  await scene.create("task");
  await quiet();
  assert.deepEqual([any.told, tasks.told], ["bug", "task"]);
  go();
  await quiet();
  assert.equal(bugs.told, null, "it found nothing and waits on");
  await scene.create("bug-2", { type: "issue" });
  await quiet();
  assert.equal(bugs.told, "bug-2");
});

test("a worker whose look fails, or who leaves, passes on what woke it", async () => {
  const scene = await Scene.started();
  const fails = await scene.waiting(scene.ask());
  const next = await scene.waiting(scene.ask());
  scene.store.failLook(new StoreError("unavailable", "the disk is full"));
  await scene.create("x");
  await quiet();
  assert.match(fails.told ?? "", /disk is full/);
  assert.equal(next.told, "x");

  const leaves = await scene.waiting(scene.ask());
  const last = await scene.waiting(scene.ask({ principal: "bob" }));
  const go = scene.store.holdReply();
  await scene.create("y");
  await quiet();
  leaves.leave();
  go();
  await quiet();
  assert.match(leaves.told ?? "", /left/);
  assert.equal(last.told, "y", "its claim was given back");
  assert.deepEqual((await scene.story("y")).slice(-2), ["given_back ann 1", "claimed bob 2"]);
});

test("what comes while a worker looks in vain is found by it", async () => {
  const scene = await Scene.started();
  const go = scene.store.holdReply();
  const worker = await scene.waiting(scene.ask());
  await scene.create("x");
  await quiet();
  go();
  await quiet();
  assert.equal(worker.told, "x");
});

test("before it is told that there is nothing it looks once more", async () => {
  // Nobody follows the feed: nobody is woken.
  const scene = new Scene();
  const worker = await scene.waiting(scene.ask());
  await scene.create("x");
  await quiet();
  assert.equal(worker.told, null);
  await scene.runOut(60_000);
  assert.equal(worker.told, "x");
  const none = await scene.waiting(scene.ask());
  await scene.runOut(60_000);
  assert.equal(none.told, "empty");
  assert.equal(scene.nodes.work.waiting, 0);
});

test("its time is up while it looks: it looks once more", async () => {
  const scene = new Scene();
  const go = scene.store.holdReply();
  const worker = await scene.waiting(scene.ask());
  await scene.runOut(60_000);
  await scene.create("x");
  assert.equal(worker.told, null);
  go();
  await quiet();
  assert.equal(worker.told, "x");
});

test("after a restore who waits waits it out", async () => {
  const scene = await Scene.started();
  const key = floorKey(everySpace);
  const floor = { ...noFloor(everySpace), quietUntil: scene.now + 500 };
  await scene.store.transact([key], () => ({
    reply: null,
    writes: [{ key, record: floor, drop: [], add: [] }],
    events: [],
  }));
  const workers = [await scene.waiting(scene.ask()), await scene.waiting(scene.ask())];
  await scene.create("x");
  await scene.create("y");
  await quiet();
  const at = await scene.nodes.work.next(scene.ask(), null);
  assert.ok("refused" in at && at.refused === "delayed");
  assert.deepEqual(
    workers.map(({ told }) => told),
    [null, null],
  );
  scene.now += 501;
  await scene.runOut(501);
  assert.deepEqual(
    workers.map(({ told }) => told),
    ["x", "y"],
  );
});

test("a stop while a look is under way tells what came of it", async () => {
  const scene = await Scene.started();
  const idle = await scene.waiting(scene.ask({ type: "issue" }));
  const looking = await scene.waiting(scene.ask());
  const go = scene.store.holdReply();
  await scene.create("x");
  await quiet();
  scene.leases.close();
  await quiet();
  assert.match(idle.told ?? "", /stopping/);
  assert.equal(looking.told, null);
  go();
  await quiet();
  assert.equal(looking.told, "x");
  assert.equal(await scene.holder("x"), "ann");
});

test("a caller that covers a few nodes only finds them behind any number of others, and soon the second time", async () => {
  const scene = await Scene.started();
  const others = 64 * 128 + 300;
  for (let i = 0; i < others; i++) await scene.create(`a-${i}`, { priority: "p1" });
  await scene.create("zz-1");
  const scope = { key: "zz", covers: (id: string): boolean => id.startsWith("zz-") };
  assert.equal((await scene.taken(scene.ask({ scope }))).node.id, "zz-1");
  const worker = await scene.waiting(scene.ask({ scope }));
  scene.store.looks = 0;
  await scene.create("a-more", { priority: "p1" });
  await scene.create("zz-2");
  await quiet();
  assert.equal(worker.told, "zz-2");
  await scene.create("zz-3", { priority: "p1" });
  assert.equal((await scene.taken(scene.ask({ scope }))).node.id, "zz-3", "what comes before is found, too");
  assert.ok(scene.store.looks <= 4, `${scene.store.looks} looks`);
  const all = await scene.nodes.work.next(scene.ask(), null);
  assert.ok("edge" in all && all.node.id === "a-0", "others' places are their own");
  assert.equal(await scene.holder("a-more"), null);
});

const scopeOf = (prefix: string) => ({ key: prefix, covers: (id: string): boolean => id.startsWith(prefix) });

/** So many nodes that a look by another's scope takes three steps. */
async function behindOthers(): Promise<Scene> {
  const scene = new Scene();
  for (let i = 0; i < 200; i++) await scene.create(`other-${i}`);
  return scene;
}

test("any number of callers that cover different nodes find theirs, also all at once", async () => {
  const scene = await behindOthers();
  const callers = Array.from({ length: 100 }, (_, nth) => `w${nth}-`);
  for (const prefix of callers) await scene.create(`${prefix}job`);
  scene.store.looksMax = 1000;
  const asked = callers.map((prefix) =>
    scene.taken(scene.ask({ principal: prefix, scope: scopeOf(prefix) })),
  );
  const taken = await Promise.all(asked);
  assert.deepEqual(
    taken.map(({ node }) => node.id),
    callers.map((prefix) => `${prefix}job`),
  );
});

test("what becomes free behind a look that is under way is found by it", async () => {
  const scene = await behindOthers();
  const go = scene.store.holdReply();
  const asked = scene.taken(scene.ask({ scope: scopeOf("w-") }));
  await quiet();
  // Many others look meanwhile, and one of the same scope is already through.
  for (let nth = 0; nth < 100; nth++)
    await scene.nodes.work.next(scene.ask({ scope: scopeOf(`v${nth}-`) }), null);
  await scene.nodes.work.next(scene.ask({ scope: scopeOf("w-") }), null);
  await scene.create("w-job", { priority: "p1" });
  go();
  assert.equal((await asked).node.id, "w-job");
});

test("a stop ends a look between its steps", async () => {
  const scene = await behindOthers();
  const go = scene.store.holdReply();
  const asked = scene.nodes.work.next(scene.ask({ scope: scopeOf("w-") }), null);
  const waiting = await scene.waiting(scene.ask({ principal: "bob", scope: scopeOf("v-") }));
  assert.equal(waiting.told, null);
  scene.leases.close();
  go();
  await assert.rejects(asked, /stopping/);
  assert.equal(scene.store.looks, 4, "the first step of one, all three of the other");
  assert.match(waiting.told ?? "", /stopping/);
});
