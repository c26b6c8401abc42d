// Work whose taker could not be told of it: it goes back to the queue, at once or when its request id was not repeated
// in time; not when its taker has spoken of it since, and not because somebody else has.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { policyDefault } from "../src/core/limits.js";
import type { Claimed } from "../src/core/nodes/claim.js";
import { MemoryData, MemoryStore } from "../src/engines/memory/store.js";
import { Leases } from "../src/service/leases.js";
import type { NextAsk } from "../src/service/next-work.js";
import { Nodes } from "../src/service/nodes.js";
import type { Timer } from "../src/store/clock.js";
import { space } from "./store-lab.js";

const limits = { waitersMax: 4, waitersPerNameMax: 4, waitersPerPrincipalMax: 2, ticketMs: 10_000 };

/** A service with one node, and a timer that runs out when it is told to. */
async function scene() {
  const timers = new Set<() => void>();
  const after: Timer = (_ms, run) => {
    timers.add(run);
    return () => timers.delete(run);
  };
  const leases = new Leases(new MemoryStore(new MemoryData()), policyDefault, limits, (what, error) =>
    assert.fail(`${what}: ${error}`),
  );
  const nodes = new Nodes(leases, after);
  const fields = { title: "t", summary: null, status: null, priority: null, project: null };
  await nodes.create({ space, principal: "ann", id: "work", type: "task", ...fields });
  const runOut = async (): Promise<void> => {
    for (const run of [...timers]) {
      timers.delete(run);
      run();
    }
    await turn();
  };
  const holder = async (): Promise<string | null> => {
    const now = await nodes.look(space, "work");
    return "refused" in now ? null : (now.held?.node.claim.by ?? null);
  };
  return { nodes, leases, runOut, holder };
}

let count = 0;
const ask = (more: Partial<NextAsk> = {}): NextAsk => ({
  space,
  principal: "ann",
  session: null,
  dispatch: null,
  leaseId: `lease-${++count}`,
  request: null,
  type: null,
  accepts: null,
  ...more,
});
const request = { id: "ticket", fingerprint: "f" };

async function taken(nodes: Nodes, asked: NextAsk): Promise<Claimed> {
  const outcome = await nodes.work.next(asked, null);
  assert.ok("edge" in outcome, JSON.stringify(outcome));
  return outcome;
}

const named = (principal: string) => ({ space, principal, id: "work", session: null, token: null });
const claimBy = (principal: string) => ({
  ...named(principal),
  dispatch: null,
  rebind: false,
  leaseId: `lease-${++count}`,
  request: null,
});

test("without a request id it is given back at once", async () => {
  const { nodes, holder } = await scene();
  const asked = ask();
  nodes.work.unheard(asked, await taken(nodes, asked));
  await turn();
  assert.equal(await holder(), null);
});

test("with one it is kept until the ticket runs out, also though another asks for the node", async () => {
  const { nodes, holder, runOut } = await scene();
  const asked = ask({ request });
  nodes.work.unheard(asked, await taken(nodes, asked));
  await turn();
  assert.equal(await holder(), "ann");
  assert.ok("refused" in (await nodes.claim(claimBy("bob"))));
  await runOut();
  assert.equal(await holder(), null);
});

const heardBy: readonly (readonly [string, (nodes: Nodes) => Promise<unknown>])[] = [
  ["its request", (nodes) => taken(nodes, ask({ request }))],
  ["a claim", (nodes) => nodes.claim(claimBy("ann"))],
  ["a renew", (nodes) => nodes.renew(named("ann"))],
  ["a renew of many", (nodes) => nodes.renewMany([named("ann")])],
  ["an extend", (nodes) => nodes.extend({ ...named("ann"), ms: 1000 })],
  ["a reserve", (nodes) => nodes.reserve(named("ann"))],
];
for (const [what, speak] of heardBy)
  test(`whoever repeats ${what} has heard of it, and keeps it`, async () => {
    const { nodes, holder, runOut } = await scene();
    const asked = ask({ request });
    nodes.work.unheard(asked, await taken(nodes, asked));
    await speak(nodes);
    await runOut();
    assert.equal(await holder(), "ann");
  });

test("a repeat that could not be told takes nothing from who was told before", async () => {
  const { nodes, holder, runOut } = await scene();
  await taken(nodes, ask({ request }));
  const again = ask({ request });
  nodes.work.unheard(again, await taken(nodes, again));
  await runOut();
  assert.equal(await holder(), "ann");
});

test("one caller's waits do not fill the places of all", async () => {
  const { nodes, leases } = await scene();
  await taken(nodes, ask());
  const wait = { ms: 60_000, gone: new AbortController().signal };
  const waiting = [ask(), ask()].map((each) => nodes.work.next(each, wait));
  await assert.rejects(nodes.work.next(ask(), wait), /2 of your calls wait for work already/);
  waiting.push(nodes.work.next(ask({ principal: "bob" }), wait));
  assert.equal(nodes.work.waiting, 3);
  leases.close();
  for (const { status } of await Promise.allSettled(waiting)) assert.equal(status, "rejected");
  assert.equal(nodes.work.waiting, 0);
});
