import assert from "node:assert/strict";
import { test } from "node:test";
import type { Claim } from "../core/lease.js";
import { policyDefault } from "../core/limits.js";
import { MemoryData, MemoryStore } from "../engines/memory/store.js";
import { StoreError } from "../store/store.js";
import { SoloLeases } from "./solo-leases.js";

const place = { space: "default", name: "it" };

const claim = (principal: string, requestId: string): Claim => ({
  ...place,
  principal,
  owner: null,
  metadata: null,
  ttlMs: 60_000,
  ttlIsDefault: false,
  delayMs: 0,
  sessionId: null,
  leaseId: `lease of ${principal} ${requestId}`,
  proof: null,
  reentrant: false,
  request: { id: requestId, fingerprint: "the same" },
});

/** Somebody holds the name, and callers of one request wait for it, who can leave. */
async function waiting(callers: number) {
  const leases = new SoloLeases(new MemoryStore(new MemoryData()), policyDefault);
  const held = await leases.acquire(claim("holder", "first"), null);
  assert.ok("granted" in held);
  const gone = Array.from({ length: callers }, () => new AbortController());
  // Of those, none looks again by itself before the test is over.
  const pace = { looks: 10, nextAt: leases.store.now() + 60_000 };
  const calls = gone.map(({ signal }) => {
    const call = leases.acquire(claim("waiter", "second"), { ms: 60_000, gone: signal, pace: { ...pace } });
    call.catch(() => undefined);
    return call;
  });
  const release = (): Promise<unknown> => {
    const { leaseId } = claim("holder", "first");
    return leases.release({
      ...place,
      principal: "holder",
      leaseId,
      outcome: null,
      note: null,
      repeatable: false,
    });
  };
  const isHeld = async (): Promise<boolean> =>
    (await leases.inspect(place.space, place.name)).holding !== null;
  return { leases, gone, calls, release, isHeld };
}

const left = (error: unknown): boolean => error instanceof StoreError && error.kind === "unavailable";

test("who leaves while it is granted gives it back", async () => {
  const { gone, calls, release, isHeld } = await waiting(1);
  await release();
  gone[0]?.abort();
  await assert.rejects(calls[0] ?? Promise.resolve(), left);
  assert.equal(await isHeld(), false);
});

test("who leaves does not give back what a repeat of its request was told of, or waits for", async () => {
  const { leases, gone, calls, release, isHeld } = await waiting(2);
  await release();
  gone[0]?.abort();
  await assert.rejects(calls[0] ?? Promise.resolve(), left);
  assert.equal(await isHeld(), true, "the other still waits for it");
  const repeat = await leases.acquire(claim("waiter", "second"), null);
  assert.ok("granted" in repeat);
  gone[1]?.abort();
  await assert.rejects(calls[1] ?? Promise.resolve(), left);
  assert.equal(await isHeld(), true, "the repeat was told");
});

test("the last one to leave gives it back", async () => {
  const { gone, calls, release, isHeld } = await waiting(2);
  await release();
  for (const [nth, call] of calls.entries()) {
    gone[nth]?.abort();
    await assert.rejects(call, left);
  }
  assert.equal(await isHeld(), false);
});
