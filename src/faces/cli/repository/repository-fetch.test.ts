import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { createClient } from "../../../client/client.js";
import { HoldfastError, LeaseLostError } from "../../../client/errors.js";
import type { Acquired } from "../../../client/replies.js";
import { policyDefault } from "../../../core/limits.js";
import { MemoryData, MemoryStore } from "../../../engines/memory/store.js";
import { SoloLeases } from "../../../service/solo-leases.js";
import { systemClocks } from "../../../store/clock.js";
import { type Store, StoreError } from "../../../store/store.js";
import { Instants } from "../../http/instants.js";
import { Presenter } from "../../http/present.js";
import { hashOfNonce } from "./lease-ids.js";
import { repositoryFetch } from "./repository-fetch.js";
import { Routes } from "./routes.js";

/** A client as a worktree has it: its own actor, over data that all share. */
function worktree(
  data: MemoryData,
  spoil: (store: Store) => Store = (store) => store,
  actor = { id: randomBytes(16).toString("hex"), secret: randomBytes(32) },
) {
  const store = spoil(new MemoryStore(data));
  const present = new Presenter(new Instants(systemClocks, () => store.now()));
  const routes = new Routes(new SoloLeases(store, policyDefault), actor, present);
  const fetch = repositoryFetch(async () => routes);
  return { actor, store, client: createClient({ url: "http://repository.invalid", fetch, retries: 0 }) };
}

const granted = (reply: { status: string }): Acquired => {
  assert.equal(reply.status, "acquired");
  return reply as Acquired;
};

test("one takes it, the other is told who has it, and the token rises", async () => {
  const data = new MemoryData();
  const [a, b] = [worktree(data), worktree(data)];
  assert.equal((await a.client.whoami()).principal, a.actor.id);
  const taken = granted(await a.client.locks.acquire("issue:1", { ttl: "30m", metadata: "why" }));
  assert.match(taken.leaseId, /^[0-9a-f]{64}$/);
  const held = await b.client.locks.acquire("issue:1", { ttl: "30m" });
  assert.ok(held.status === "held");
  assert.deepEqual([held.holder.principal, held.metadata, held.waiters], [a.actor.id, "why", 0]);
  assert.equal((await b.client.locks.get("issue:1")).holder?.principal, a.actor.id);
  assert.equal((await a.client.locks.renew("issue:1", taken.leaseId)).leaseId, taken.leaseId);
  await assert.rejects(
    b.client.locks.renew("issue:1", taken.leaseId),
    LeaseLostError,
    "the principal counts",
  );
  await a.client.locks.release("issue:1", taken.leaseId);
  await assert.rejects(a.client.locks.release("issue:1", taken.leaseId), LeaseLostError);
  assert.equal(granted(await b.client.locks.acquire("issue:1")).fencingToken, taken.fencingToken + 1);
});

test("records hold a hash of the nonce; a repeated request, or the nonce itself, finds the lease", async () => {
  const data = new MemoryData();
  const { client } = worktree(data);
  const first = granted(await client.locks.acquire("a", { requestId: "r-1" }));
  const text = JSON.stringify([...data.ordered.records.values()]);
  assert.ok(!text.includes(first.leaseId) && text.includes(hashOfNonce(first.leaseId)));
  const again = granted(await client.locks.acquire("a", { requestId: "r-1" }));
  assert.deepEqual([again.leaseId, again.fencingToken], [first.leaseId, first.fencingToken]);
  const proven = granted(await client.locks.acquire("a", { leaseId: first.leaseId }));
  assert.equal(proven.leaseId, first.leaseId);
  assert.equal((await client.locks.acquire("a")).status, "held", "a new request is another caller");
  await client.locks.release("a", first.leaseId);
  await assert.rejects(client.locks.acquire("a", { requestId: "r-1" }), { code: "lease_lost" });
});

test("names, TTLs and metadata are refused as at a server", async () => {
  const { client } = worktree(new MemoryData());
  for (const [name, options, code, text] of [
    ["invalid!", {}, "invalid_lock_name", /a name may hold/],
    ["a", { ttl: 86_401 }, "invalid_ttl", /at most 86400/],
    ["a", { metadata: "é".repeat(1025) }, "invalid_input", /metadata is too long.*1024/],
    ["node:a", {}, "forbidden", /work graph/],
  ] as const)
    await assert.rejects(
      client.locks.acquire(name, options),
      (error) => error instanceof HoldfastError && error.code === code && text.test(error.message),
    );
  assert.equal(granted(await client.locks.acquire("a", { metadata: "😀".repeat(1024) })).name, "a");
  await assert.rejects(client.jobs.claim("a"), /needs a server/);
});

test("a list is paged, also by owner", async () => {
  const data = new MemoryData();
  const [a, b] = [worktree(data), worktree(data)];
  for (let at = 0; at < 7; at++) await a.client.locks.acquire(`n-${at}`);
  await b.client.locks.acquire("n-x");
  const first = await a.client.locks.list({ prefix: "n-", limit: 3 });
  assert.deepEqual([first.locks.length, first.nextCursor === null], [3, false]);
  const names: string[] = [];
  for await (const { name } of b.client.locks.each({ prefix: "n-", limit: 3 })) names.push(name);
  assert.deepEqual(names, [...Array(7).keys()].map((at) => `n-${at}`).concat("n-x"));
  assert.equal((await b.client.locks.list({ mine: true })).total, 1);
});

test("who waits is granted it after the release, and looks no more than once in a pause", async () => {
  const data = new MemoryData();
  const a = worktree(data);
  let looks = 0;
  const b = worktree(data, (store) =>
    Object.assign(Object.create(store) as Store, {
      transact: (...args: Parameters<Store["transact"]>) => {
        looks++;
        return store.transact(...args);
      },
    }),
  );
  const { leaseId } = granted(await a.client.locks.acquire("a"));
  let told = 0;
  const waiting = b.client.locks.acquire("a", { wait: "30s", onWaiting: () => told++ });
  setTimeout(() => void a.client.locks.release("a", leaseId), 2500);
  assert.equal(granted(await waiting).fencingToken, 2);
  // Pauses of 50 to 100 ms at first, doubling: eight looks at most in 2.5 s, and the one that finds it free.
  assert.ok(looks >= 5 && looks <= 9, `${looks}`);
  assert.ok(told >= 1);
});

test("a wait that is called off leaves nothing behind", async () => {
  const data = new MemoryData();
  const [a, b] = [worktree(data), worktree(data)];
  const { leaseId } = granted(await a.client.locks.acquire("a"));
  const stop = new AbortController();
  const waiting = b.client.locks.acquire("a", { wait: "30s", signal: stop.signal });
  setTimeout(() => stop.abort(new Error("enough")), 200);
  await assert.rejects(waiting, /enough/);
  await a.client.locks.release("a", leaseId);
  assert.equal((await b.client.locks.get("a")).status, "free");
});

test("what the store says is told in the wire's words", async () => {
  for (const [kind, code, text] of [
    ["unavailable", "unavailable", /Certainly not done: why\. Try again/],
    ["contended", "unavailable", /Certainly not done: why/],
    ["unknown", "unknown_outcome", /may have been done: why/],
    ["corrupt", "unavailable", /Certainly not done: why\.$/],
    ["unsupported", "invalid_input", /^why$/],
  ] as const) {
    let calls = 0;
    const { client } = worktree(new MemoryData(), (store) =>
      Object.assign(Object.create(store) as Store, {
        transact: async () => {
          calls++;
          throw new StoreError(kind, "why");
        },
      }),
    );
    await assert.rejects(
      client.locks.acquire("a"),
      (error) => error instanceof HoldfastError && error.code === code && text.test(error.message),
    );
    assert.equal(calls, kind === "unknown" ? 4 : 1, kind);
  }
});

/** A store of which a step's answer is lost after it was made, and then another call comes between, each once. */
const losing =
  (between: () => Promise<unknown>) =>
  (store: Store): Store => {
    let isLost = false;
    const transact: Store["transact"] = async (...args) => {
      const reply = await store.transact(...args);
      if (isLost) return reply;
      isLost = true;
      await between();
      throw new StoreError("unknown", "no answer");
    };
    return Object.assign(Object.create(store) as Store, { transact });
  };

test("a release whose answer is lost finds what it has done, also when another holds the name by then", async () => {
  const data = new MemoryData();
  const [a, b] = [worktree(data), worktree(data)];
  const { leaseId } = granted(await a.client.locks.acquire("a"));
  const again = worktree(
    data,
    losing(() => b.client.locks.acquire("a")),
    a.actor,
  );
  await again.client.locks.release("a", leaseId);
  assert.equal((await a.client.locks.get("a")).holder?.principal, b.actor.id);
});

test("one that may have been done is not told as refused", async () => {
  const data = new MemoryData();
  const [a, b] = [worktree(data), worktree(data)];
  const { leaseId } = granted(await a.client.locks.acquire("a"));
  const passing = async (): Promise<void> => {
    const other = granted(await b.client.locks.acquire("a"));
    await b.client.locks.release("a", other.leaseId);
  };
  const again = worktree(data, losing(passing), a.actor);
  await assert.rejects(again.client.locks.release("a", leaseId), { code: "unknown_outcome" });
});

test("changes are followed: what is held, then what happens", async () => {
  const data = new MemoryData();
  const [a, b] = [worktree(data), worktree(data)];
  const { leaseId } = granted(await a.client.locks.acquire("a"));
  const stop = new AbortController();
  const seen: string[] = [];
  for await (const event of b.client.watch({ signal: stop.signal })) {
    seen.push("name" in event ? `${event.event} ${event.name}` : event.event);
    if (event.event === "synced") await a.client.locks.release("a", leaseId);
    if (event.event === "released") stop.abort();
  }
  assert.deepEqual(seen, ["snapshot a", "synced", "released a"]);
});
