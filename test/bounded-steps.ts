// Steps over many records on a store that takes few of them at once: sweeps, clean-up, ends of sessions, bulk calls, nodes with
// many neighbours. All get done, in as many steps as it takes; what is one step for good and does not fit is refused in words.
import assert from "node:assert/strict";
import { setMaxListeners } from "node:events";
import { describe, test } from "node:test";
import { policyDefault } from "../src/core/limits.js";
import { Leases } from "../src/service/leases.js";
import { Nodes } from "../src/service/nodes.js";
import type { Store } from "../src/store/store.js";
import { isStoreError } from "./conformance.js";
import { claim, free, putLock, space, until } from "./store-lab.js";

const limits = { waitersMax: 500, waitersPerNameMax: 500, waitersPerPrincipalMax: 500, ticketMs: 10_000 };
const policy = { ...policyDefault, recordRetentionMs: 1_000, requestRetentionMs: 1_000 };
const many = 150;
const names = Array.from({ length: many }, (_, i) => `job-${String(i).padStart(3, "0")}`);
const never = new AbortController().signal;
setMaxListeners(0, never);

export function boundedSteps(name: string, open: () => Promise<Store>): void {
  const on = (what: string, body: (leases: Leases) => Promise<void>): void => {
    test(what, async () => {
      const store = await open();
      const troubles: unknown[] = [];
      const leases = new Leases(store, policy, limits, (_, error) => troubles.push(error));
      leases.start();
      try {
        await body(leases);
        assert.deepEqual(troubles, []);
      } finally {
        leases.close();
        await store.close();
      }
    });
  };
  describe(`${name}: more than fits into one step`, () => {
    ends(on);
    bulk(on);
    graph(on);
  });
}

type On = (what: string, body: (leases: Leases) => Promise<void>) => void;

const acquireAll = (leases: Leases, changes: Parameters<typeof claim>[1] = {}): Promise<unknown> =>
  Promise.all(names.map((name) => leases.acquire(claim(name, { leaseId: `ls-${name}`, ...changes }), null)));

async function heldCount(leases: Leases): Promise<number> {
  const page = await leases.list({ space, prefix: "job-", after: null, limit: 1000, accept: () => true });
  return page.holdings.length;
}

function ends(on: On): void {
  on("leases that expire together are all settled, and later cleaned up", async (leases) => {
    await acquireAll(leases, { ttlMs: 1_000 });
    await until(() => leases.upkeep.settled >= many);
    assert.equal(await heldCount(leases), 0);
    await until(() => leases.upkeep.cleaned >= many);
    const again = await leases.acquire(claim(names[0] ?? ""), null);
    assert.ok("granted" in again.outcome && again.outcome.granted.lock.token > 1, "tokens go on");
  });

  on("a session with many leases ends them all, and whoever waits for them is served", async (leases) => {
    const session = { id: "s1", hash: "h", space, principal: "runner-1", metadata: null, ttlMs: 60_000 };
    await leases.sessions.start(session);
    await acquireAll(leases, { sessionId: "s1", ttlMs: null, leaseId: "x" });
    assert.equal(await heldCount(leases), many);
    const waiting = names.map((name, i) =>
      leases.acquire(
        claim(name, {
          principal: "runner-2",
          request: { id: `r-${i}`, fingerprint: "f" },
          leaseId: `w-${i}`,
        }),
        { ms: 20_000, gone: never },
      ),
    );
    await until(() => leases.queues.size === many);
    await leases.sessions.end({ space, principal: "runner-1", id: "s1" });
    for (const { outcome } of await Promise.all(waiting)) assert.ok("granted" in outcome);
  });
}

function bulk(on: On): void {
  on("a bulk renewal answers for each lease", async (leases) => {
    await acquireAll(leases);
    const calls = [...names, "job-none"].map((name) => ({
      space,
      name,
      principal: "runner-1",
      leaseId: name === names[7] ? "another's" : `ls-${name}`,
      ttlMs: 90_000,
    }));
    const outcomes = await leases.renewMany(calls);
    assert.equal(outcomes.length, calls.length);
    for (const [i, outcome] of outcomes.entries())
      assert.equal("renewed" in outcome, i !== 7 && i !== many, calls[i]?.name);
  });

  on("the first free one of many candidates is found, and a repeat finds it again", async (leases) => {
    await acquireAll(leases);
    const request = { id: "r", fingerprint: "f" };
    const claims = [...names.slice(0, 99), "job-free"].map((name) =>
      claim(name, { principal: "runner-2", request }),
    );
    for (const _ of [1, 2]) {
      const reply = await leases.acquireFirst(claims);
      assert.equal(reply.granted?.granted.lock.name, "job-free");
    }
  });

  on("many nodes are claimed, renewed and released", async (leases) => {
    const nodes = new Nodes(leases);
    for (const id of names) await create(nodes, id);
    const request = { id: "all", fingerprint: "f" };
    const calls = names.map((id) => ({
      ...nodeCall(id),
      leaseId: `ls-${id}`,
      dispatch: null,
      rebind: false,
    }));
    const claimed = await nodes.claimMany({ space, principal: "runner-1", calls, request });
    for (const reply of claimed) assert.ok("status" in reply && reply.status === "claimed");
    const renewed = await nodes.renewMany(names.map(nodeCall));
    for (const reply of renewed) assert.ok("holding" in reply);
    const released = await nodes.releaseMany(names.map(nodeCall));
    for (const reply of released) assert.ok("edge" in reply && reply.edge === "removed");
  });
}

const nodeCall = (id: string) => ({ space, principal: "runner-1", id, session: null, token: null });

const create = (nodes: Nodes, id: string) =>
  nodes.create({
    space,
    principal: "runner-1",
    id,
    type: "task",
    title: id,
    summary: null,
    status: null,
    priority: null,
    project: null,
  });

function graph(on: On): void {
  on("a node gets no more neighbours than one step can free when it is done", async (leases) => {
    const nodes = new Nodes(leases);
    await create(nodes, "root");
    let blocked = 0;
    for (const id of names) {
      await create(nodes, id);
      const reply = await nodes.addEdge({ space, principal: "runner-1", id: "root", type: "blocks", to: id });
      if ("refused" in reply) {
        assert.equal(reply.refused, "edges_full");
        break;
      }
      blocked++;
    }
    assert.ok(blocked > 10 && blocked <= 100, `${blocked} neighbours`);
    const call = { ...nodeCall("root"), leaseId: "ls", dispatch: null, rebind: false, request: null };
    await nodes.claim(call);
    const done = await nodes.setStatus({ ...call, status: "done", reason: null, mayForce: false });
    assert.ok(!("refused" in done), JSON.stringify(done));
    const freed = await nodes.look(space, names[blocked - 1] ?? "");
    assert.ok("node" in freed && freed.node.blockedBy.every(({ live }) => !live));
  });

  on("what is one step for good and does not fit is refused in words", async (leases) => {
    const deep = `path:${Array.from({ length: 120 }, () => "d").join("/")}`;
    for (let end = deep.indexOf("/"); end > 0; end = deep.indexOf("/", end + 1))
      await putLock(leases.store, free(deep.slice(0, end), 1));
    const step = leases.acquire(claim(deep), null);
    await assert.rejects(step, isStoreError("unsupported"));
    assert.ok("granted" in (await leases.acquire(claim("path:d/d"), null)).outcome);
  });
}
