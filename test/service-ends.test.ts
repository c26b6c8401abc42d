// What the service promises at its edges: a stop tells no waiter that a grant on its way is certainly not done, and
// a watch tells nothing that is older than its own snapshot.
import assert from "node:assert/strict";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { policyDefault } from "../src/core/limits.js";
import { MemoryData, MemoryStore } from "../src/engines/memory/store.js";
import { Leases } from "../src/service/leases.js";
import { type Watched, watch } from "../src/service/watch.js";
import type { Store } from "../src/store/store.js";
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
