// Work whose taker could not be told of it: it goes back to the queue, at once or when its request id was not repeated
// in time; not when its taker has named it since, and not because somebody else has, or nobody could be told again.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { NextAsk } from "../src/service/next-work.js";
import { quiet, Scene, ticketMs } from "./service-work-lab.js";

const request = { id: "ticket", fingerprint: "f" };

/** A service with one node. */
async function scene(): Promise<Scene> {
  const made = new Scene();
  await made.create("work");
  return made;
}

/** Takes the node, and its reply is lost. */
async function unheard(made: Scene, more: Partial<NextAsk> = {}): Promise<NextAsk> {
  const asked = made.ask({ request, ...more });
  made.nodes.work.unheard(asked, await made.taken(asked));
  await quiet();
  return asked;
}

test("without a request id it is given back at once", async () => {
  const made = await scene();
  await unheard(made, { request: null });
  assert.equal(await made.holder("work"), null);
});

test("with one it is kept until the ticket runs out", async () => {
  const made = await scene();
  await unheard(made);
  assert.equal(await made.holder("work"), "ann");
  await made.runOut(ticketMs);
  assert.equal(await made.holder("work"), null);
  assert.deepEqual(await made.story("work"), ["created ann null", "claimed ann 1", "given_back ann 1"]);
});

test("what it found is there again: who had lost it, and how often", async () => {
  const made = await scene();
  for (let nth = 1; nth <= 2; nth++) {
    await made.nodes.claim(made.claimBy("bob", "work"));
    made.now += 46 * 60_000;
    await made.leases.upkeep.settleDue();
  }
  await unheard(made, { request: null });
  const now = await made.nodes.look("default", "work");
  assert.ok(!("refused" in now));
  assert.deepEqual([now.node.lapses, now.node.edges[0]?.to], [2, "bob"]);
});

const unheardBy: readonly (readonly [string, (made: Scene) => Promise<unknown>])[] = [
  ["another's claim", (made) => made.nodes.claim(made.claimBy("bob", "work"))],
  ["another run's claim", (made) => made.nodes.claim({ ...made.claimBy("ann", "work"), session: "w2" })],
  ["another run's renew", (made) => made.nodes.renew({ ...made.named("ann", "work"), session: "w2" })],
  [
    "a renew of all that its person is on",
    (made) => made.nodes.renewMany([{ ...made.named("ann", "work"), isBlind: true }]),
  ],
  ["a repeat whose reply is lost as well", (made) => unheard(made, { session: "w1" })],
];
for (const [what, speak] of unheardBy)
  test(`it is not heard of by ${what}`, async () => {
    const made = await scene();
    await unheard(made, { session: "w1" });
    await speak(made);
    await made.runOut(ticketMs);
    assert.equal(await made.holder("work"), null);
  });

const heardBy: readonly (readonly [string, (made: Scene) => Promise<unknown>])[] = [
  ["its request", (made) => made.taken(made.ask({ request }))],
  [
    "its request, twice, of which one reply is lost",
    async (made) => {
      await made.taken(made.ask({ request }));
      await unheard(made);
    },
  ],
  ["a claim", (made) => made.nodes.claim(made.claimBy("ann", "work"))],
  ["a renew", (made) => made.nodes.renew(made.named("ann", "work"))],
  ["a renew of many", (made) => made.nodes.renewMany([made.named("ann", "work")])],
  ["an extend", (made) => made.nodes.extend({ ...made.named("ann", "work"), ms: 1000 })],
  ["a reserve", (made) => made.nodes.reserve(made.named("ann", "work"))],
];
for (const [what, speak] of heardBy)
  test(`whoever repeats ${what} has heard of it, and keeps it`, async () => {
    const made = await scene();
    await unheard(made);
    await speak(made);
    await made.runOut(ticketMs);
    await made.runOut(ticketMs);
    assert.equal(await made.holder("work"), "ann");
  });

test("a repeat that could not be told takes nothing from who was told before", async () => {
  const made = await scene();
  await made.taken(made.ask({ request }));
  await unheard(made);
  await made.runOut(ticketMs);
  assert.equal(await made.holder("work"), "ann");
});

test("a first reply that is lost after a repeat was told takes nothing back", async () => {
  const made = await scene();
  const asked = made.ask({ request });
  const first = await made.taken(asked);
  await made.taken(made.ask({ request }));
  made.nodes.work.unheard(asked, first);
  await made.runOut(ticketMs);
  assert.equal(await made.holder("work"), "ann");
});

test("a repeat under way keeps it; one that comes while it is given back is told that it is over", async () => {
  const made = await scene();
  await unheard(made);
  const go = made.store.holdLook();
  const again = made.nodes.work.next(made.ask({ request }), null);
  await made.runOut(ticketMs);
  go();
  assert.ok("edge" in (await again));
  await made.runOut(ticketMs);
  assert.equal(await made.holder("work"), "ann");

  await made.nodes.release(made.named("ann", "work"));
  const other = { id: "other", fingerprint: "f" };
  await unheard(made, { request: other });
  const given = made.runOut(ticketMs);
  const late = await made.nodes.work.next(made.ask({ request: other }), null);
  assert.ok("refused" in late && late.refused === "request_spent", JSON.stringify(late));
  await given;
});

test("when the server stops it is given back at once, but for what a repeat is told of", async () => {
  const made = await scene();
  await made.create("work-told");
  await unheard(made);
  const other = { id: "other", fingerprint: "f" };
  await unheard(made, { request: other });
  await made.taken(made.ask({ request: other }));
  made.leases.close();
  await quiet();
  assert.deepEqual([await made.holder("work"), await made.holder("work-told")], [null, "ann"]);
});

test("grants and ends are counted as they are, by whatever call", async () => {
  const made = await scene();
  for (const id of ["a", "b"]) await made.create(id);
  const { counters } = made.leases;
  const counted = async (run: () => Promise<unknown>): Promise<number[]> => {
    const { granted, released } = counters;
    await run();
    return [counters.granted - granted, counters.released - released];
  };
  const { nodes } = made;
  const status = (status: string, id: string) =>
    nodes.setStatus({ ...made.claimBy("ann", id), status, reason: null, mayForce: false });
  const claims = () => [made.claimBy("ann", "a"), made.claimBy("ann", "b")];
  const many = (calls = claims()) =>
    nodes.claimMany({ space: "default", principal: "ann", calls, request: null });
  const force = () =>
    made.leases.forceRelease({
      space: "default",
      name: "node:a",
      by: "root",
      reason: "r",
      auditId: "audit",
      wallAt: 0,
    });
  assert.deepEqual(await counted(() => status("active", "work")), [1, 0]);
  assert.deepEqual(await counted(() => status("done", "work")), [0, 1]);
  assert.deepEqual(await counted(many), [2, 0]);
  assert.deepEqual(await counted(many), [0, 0], "renewed");
  assert.deepEqual(await counted(() => nodes.releaseMany(claims())), [0, 2]);
  assert.deepEqual(await counted(() => nodes.release(made.named("ann", "a"))), [0, 0], "of nothing");
  assert.deepEqual(await counted(() => made.taken(made.ask({ request }))), [1, 0]);
  assert.deepEqual(await counted(() => made.taken(made.ask({ request }))), [0, 0], "a repeat");
  assert.deepEqual(await counted(force), [0, 1]);
});

test("one caller's waits do not fill the places of all", async () => {
  const made = new Scene();
  const waiting = [];
  for (let nth = 0; nth < 4; nth++) waiting.push(await made.waiting(made.ask()));
  const refused = await made.waiting(made.ask());
  assert.match(refused.told ?? "", /4 of your calls wait for work already/);
  waiting.push(await made.waiting(made.ask({ principal: "bob" })));
  assert.equal(made.nodes.work.waiting, 5);
  made.leases.close();
  await quiet();
  for (const { told } of waiting) assert.match(told ?? "", /stopping/);
  assert.equal(made.nodes.work.waiting, 0);
});
