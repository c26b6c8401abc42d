// The work graph as a service, in one process: what one call may read, and what a call of many steps tells of each.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Decide } from "../src/core/decision.js";
import { InvariantError } from "../src/core/invariants.js";
import type { Key } from "../src/core/keys.js";
import { cycleSearchMax, policyDefault } from "../src/core/limits.js";
import { MemoryData, MemoryStore } from "../src/engines/memory/store.js";
import { Leases } from "../src/service/leases.js";
import { Nodes } from "../src/service/nodes.js";
import { StoreError } from "../src/store/store.js";
import { space } from "./store-lab.js";

const limits = { waitersMax: 4, waitersPerNameMax: 4, waitersPerPrincipalMax: 2, ticketMs: 10_000 };

/** Counts what steps ask for. */
class CountingStore extends MemoryStore {
  asked = 0;

  override transact<Reply>(keys: readonly Key[], decide: Decide<Reply>): Promise<Reply> {
    this.asked += keys.length;
    return super.transact(keys, (view) => {
      const decision = decide(view);
      if ("need" in decision) this.asked += decision.need.length;
      return decision;
    });
  }
}

function serviceOn<S extends MemoryStore>(store: S): { readonly store: S; readonly nodes: Nodes } {
  const leases = new Leases(store, policyDefault, limits, (what, error) => assert.fail(`${what}: ${error}`));
  return { store, nodes: new Nodes(leases) };
}

const fields = { type: "task", title: "t", summary: null, status: null, priority: null, project: null };
const create = (nodes: Nodes, id: string) => nodes.create({ space, principal: "ann", id, ...fields });

test("a search for a circle is bounded in all, however wide one level of it is", async () => {
  const { store, nodes } = serviceOn(new CountingStore(new MemoryData()));
  const blocks = (id: string, to: string) =>
    nodes.addEdge({ space, principal: "ann", id, type: "blocks", to });
  const [middle, wide] = [30, 90];
  assert.ok(middle * wide > 2 * cycleSearchMax);
  for (const id of ["root", "x"]) await create(nodes, id);
  for (let m = 0; m < middle; m++) {
    await create(nodes, `m-${m}`);
    for (let l = 0; l < wide; l++) {
      await create(nodes, `l-${m}-${l}`);
      await blocks(`m-${m}`, `l-${m}-${l}`);
    }
    await blocks("root", `m-${m}`);
  }
  store.asked = 0;
  const refused = await blocks("x", "root");
  assert.ok("refused" in refused && refused.refused === "edge_too_deep", JSON.stringify(refused));
  assert.ok(store.asked <= 2 * cycleSearchMax + 10, `${store.asked} asked for`);
});

/** Fails a step, counted from 1, with this. */
class FailingStore extends MemoryStore {
  #left: number | null = null;
  #error: Error = new Error("none");

  failStep(nth: number, error: Error): void {
    this.#left = nth;
    this.#error = error;
  }

  override async transact<Reply>(keys: readonly Key[], decide: Decide<Reply>): Promise<Reply> {
    if (this.#left !== null && --this.#left === 0) {
      this.#left = null;
      throw this.#error;
    }
    return super.transact(keys, decide);
  }
}

const failures = [
  new StoreError("unavailable", "the disk is full"),
  new StoreError("unknown", "the disk may have it"),
  new InvariantError("a bug"),
];
for (const error of failures)
  test(`of a bulk call that fails in the middle (${error.message}) each is told for itself`, async () => {
    const { store, nodes } = serviceOn(new FailingStore(new MemoryData()));
    const ids = Array.from({ length: 200 }, (_, i) => `n-${i}`);
    for (const id of ids) await create(nodes, id);
    const named = ids.map((id) => ({ space, principal: "ann", id, session: null, token: null }));
    const calls = named.map((call) => ({ ...call, dispatch: null, rebind: false, leaseId: `of-${call.id}` }));
    const words = (replies: readonly object[]) =>
      replies.map((reply) => {
        if ("failed" in reply) return reply.failed === error ? "failed" : (reply.failed as StoreError).kind;
        return "refused" in reply ? reply.refused : "done";
      });
    const expected = ids.map((_, i) => (i < 64 ? "done" : i < 128 ? "failed" : "unavailable"));
    const many = { space, principal: "ann", calls, request: null };
    const check = async (call: () => Promise<readonly object[]>): Promise<void> => {
      store.failStep(1, error);
      await assert.rejects(call(), error, "nothing was done, so the call as a whole can say so");
      store.failStep(2, error);
      assert.deepEqual(words(await call()), expected, String(call));
    };
    await check(() => nodes.claimMany(many));
    await nodes.claimMany(many);
    await check(() => nodes.renewMany(named));
    await check(() => nodes.releaseMany(named));
    const held = await Promise.all(ids.map((id) => nodes.look(space, id)));
    assert.equal(held.filter((now) => !("refused" in now) && now.held !== null).length, 200 - 64);
  });
