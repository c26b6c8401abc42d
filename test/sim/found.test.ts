// What the simulation found, told by hand in simulated time: each failed before it was mended. Seeds change their
// meaning with the program that they drive; these do not.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Claim } from "../../src/core/lease.js";
import { policyDefault } from "../../src/core/limits.js";
import { Leases } from "../../src/service/leases.js";
import { claim, space } from "../store-lab.js";
import { CrashingStore, Disk, type Fate } from "./disk.js";
import { Scheduler } from "./scheduler.js";

const listens = new AbortController().signal;
const waitMs = 60_000;

/** A server on a disk that takes its time and fails as told. */
class World {
  readonly scheduler = new Scheduler();
  /** What a commit takes. */
  commitMs = 1;
  /** What becomes of the next commits. */
  readonly fates: Fate[] = [];
  readonly #store = new CrashingStore(
    new Disk({ deed: () => undefined, fate: () => undefined, crash: () => undefined }, 1000),
    {
      clocks: { monotonic: this.scheduler.now, wall: this.scheduler.now },
      later: (ms, run) => void this.scheduler.after(ms, run),
      now: this.scheduler.now,
      cause: () => null,
      unwell: () => undefined,
    },
    {
      commitMs: () => this.commitMs,
      fate: () => this.fates.shift() ?? "durable",
      reopenMs: () => 1,
      survives: () => true,
    },
  );
  readonly leases = new Leases(
    this.#store,
    policyDefault,
    { waitersMax: 10, waitersPerNameMax: 10, waitersPerPrincipalMax: 10, ticketMs: 10_000 },
    () => undefined,
    this.scheduler.after,
  );

  acquire(name: string, leaseId: string, changes: Partial<Claim> = {}) {
    return this.leases.acquire(claim(name, { leaseId, ...changes }), null);
  }

  wait(name: string, leaseId: string, ms = waitMs, changes: Partial<Claim> = {}, gone = listens) {
    return this.leases.acquire(claim(name, { leaseId, ...changes }), { ms, gone });
  }

  release(name: string, leaseId: string) {
    const call = { space, name, principal: "runner-1", leaseId };
    return this.leases.release({ ...call, outcome: null, note: null, repeatable: false });
  }

  async holder(name: string): Promise<string | null> {
    const { holding } = await this.leases.inspect(space, name);
    return holding?.lock.lease.id ?? null;
  }
}

const inWorld = (says: string, body: (world: World) => Promise<void>): void =>
  void test(says, async () => {
    const world = new World();
    void world.leases.start();
    await world.scheduler.drive(body(world));
  });

describe("a disk that fails while a name is freed that overlaps another", () => {
  /** Who serves the queue after the release reads what another call has written, and fails when that does. */
  const releaseAndFail = async (world: World, name: string): Promise<void> => {
    world.fates.push("durable", "unknown, not written");
    const released = world.release(name, name);
    await assert.rejects(world.acquire("other", "other"));
    await released;
  };

  inWorld("leaves nobody in line for a name that could be had", async (world) => {
    await world.acquire("path:src/b", "path:src/b");
    await world.acquire("path:src/c", "path:src/c");
    const waiting = world.wait("path:src", "all");
    await releaseAndFail(world, "path:src/b");
    await world.scheduler.sleep(10);
    await world.release("path:src/c", "path:src/c");
    assert.ok("granted" in (await waiting).outcome);
    assert.ok(world.scheduler.now() < 1000, `waited until ${world.scheduler.now()} ms`);
  });

  inWorld("leaves no failure unheeded when it fails again", async (world) => {
    const names = ["path:src/b", "path:src/c", "path:src/d"];
    for (const name of names) await world.acquire(name, name);
    const waiting = world.wait("path:src", "all");
    for (const name of names) {
      await releaseAndFail(world, name);
      await world.scheduler.sleep(300);
    }
    assert.ok("granted" in (await waiting).outcome);
    assert.ok(world.scheduler.now() < 2000, `waited until ${world.scheduler.now()} ms`);
  });
});

describe("a wait on a slow disk", () => {
  inWorld("that is over before the first look is never told of its own lease as another's", async (world) => {
    await world.acquire("job", "one", { ttlMs: 100 });
    world.commitMs = 200;
    const slow = world.acquire("other", "other");
    const waiting = world.wait("job", "two", 5);
    await world.scheduler.sleep(150);
    // Finds the first lease over while the look of the waiter is not durable yet.
    await world.leases.inspect(space, "job");
    const { outcome } = await waiting;
    await slow;
    assert.ok("granted" in outcome && outcome.granted.lock.lease.id === "two", JSON.stringify(outcome));
  });

  inWorld("that ends with the caller's own lease is not granted another", async (world) => {
    await world.acquire("job", "one");
    const again = world.wait("job", "two", waitMs, { proof: "one" });
    const released = world.release("job", "one");
    const { outcome } = await again;
    await released;
    assert.ok("granted" in outcome && outcome.granted.lock.lease.id === "one");
    assert.equal(await world.holder("job"), null);
  });
});

describe("a repeat that takes over a place in line", () => {
  inWorld(
    "is told what is left as of its own call, however long the first one's commit takes",
    async (world) => {
      await world.acquire("job", "one", { ttlMs: 1000 });
      world.commitMs = 5000;
      const again = { request: { id: "r", fingerprint: "f" }, proof: "one", ttlMs: 2000 };
      const first = world.wait("job", "two", waitMs, again);
      await world.scheduler.sleep(3000); // what the first one was given is over by now, and nobody was told yet
      const askedAt = Math.floor(world.scheduler.now());
      const { outcome } = await world.wait("job", "three", waitMs, again);
      await first.catch(() => undefined);
      assert.ok("granted" in outcome, JSON.stringify(outcome));
      assert.ok(outcome.granted.now >= askedAt, `counted from ${outcome.granted.now}, asked at ${askedAt}`);
    },
  );
});

describe("the end of a session", () => {
  inWorld("is not told as certainly not done because what follows it fails", async (world) => {
    const { sessions } = world.leases;
    const session = { space, id: "s", principal: "runner-1" };
    await sessions.start({ ...session, hash: "h", ttlMs: 60_000, metadata: null });
    await world.acquire("job", "one", { sessionId: "s", ttlMs: null });
    world.fates.push("durable", "refused"); // the session's end, and the settling of its leases
    const ended = await sessions.end(session);
    assert.ok(!("refused" in ended) && ended.session.ended !== null);
    await world.scheduler.sleep(10); // the disk is opened again
    assert.equal(await world.holder("job"), null, "its lease is over with it");
  });
});

describe("a request id that is used again with another body", () => {
  const request = (fingerprint: string) => ({ request: { id: "r", fingerprint } });

  inWorld("keeps no place for who left", async (world) => {
    await world.acquire("job", "one", request("true"));
    const gone = new AbortController();
    world.commitMs = 50;
    const slow = world.acquire("other", "other");
    const wrong = world.wait("job", "two", waitMs, request("false"), gone.signal);
    gone.abort();
    await slow;
    assert.deepEqual((await wrong).outcome, { refused: "request_reused" });
    const { outcome } = await world.wait("job", "three", waitMs, request("true"));
    assert.ok("granted" in outcome && outcome.granted.lock.lease.id === "one", JSON.stringify(outcome));
  });

  inWorld("does not stand in the way of the true one while it is looked at", async (world) => {
    await world.acquire("job", "one", request("true"));
    world.commitMs = 50;
    const slow = world.acquire("other", "other");
    const wrong = world.wait("job", "two", waitMs, request("false"));
    const { outcome } = await world.wait("job", "three", waitMs, request("true"));
    assert.ok("granted" in outcome && outcome.granted.lock.lease.id === "one", JSON.stringify(outcome));
    assert.deepEqual((await wrong).outcome, { refused: "request_reused" });
    await slow;
  });
});

describe("a grant whose first caller left", () => {
  /** The first call's grant is durable while the repeat, which found it, waits for the commit behind. */
  const leaveAndRepeat = async (world: World) => {
    const request = { request: { id: "r", fingerprint: "f" } };
    const gone = new AbortController();
    world.commitMs = 50;
    const first = world.wait("job", "one", waitMs, request, gone.signal);
    const other = world.acquire("other", "other");
    gone.abort();
    const repeat = world.wait("job", "two", waitMs, request);
    return { first, other, repeat };
  };

  inWorld("is not taken back by a stop while a repeat is answered with it", async (world) => {
    const { first, other, repeat } = await leaveAndRepeat(world);
    world.leases.close();
    const { claim: claimed, outcome } = await first;
    assert.ok("granted" in outcome);
    // What a face does whose caller left.
    world.leases.unheard(claimed, outcome.granted);
    const again = (await repeat).outcome;
    await other;
    assert.ok("granted" in again && again.granted.lock.lease.id === "one");
    assert.equal(await world.holder("job"), "one");
  });

  inWorld("is not taken back when its time is up while a repeat is answered with it", async (world) => {
    const { first, other, repeat } = await leaveAndRepeat(world);
    world.commitMs = 30_000;
    const { claim: claimed, outcome } = await first;
    assert.ok("granted" in outcome);
    world.leases.unheard(claimed, outcome.granted);
    const again = (await repeat).outcome;
    await other;
    assert.ok("granted" in again && again.granted.lock.lease.id === "one");
    assert.equal(await world.holder("job"), "one");
  });

  for (const [how, ask] of [
    ["asks for it again by proof", (world: World) => world.acquire("job", "two", { proof: "one" })],
    [
      "renews it",
      (world: World) =>
        world.leases.renew({ space, name: "job", principal: "runner-1", leaseId: "one", ttlMs: null }),
    ],
  ] as const)
    inWorld(`is not taken back from a holder that ${how}`, async (world) => {
      const request = { request: { id: "r", fingerprint: "f" } };
      const { claim: claimed, outcome } = await world.wait("job", "one", waitMs, request);
      assert.ok("granted" in outcome);
      world.leases.unheard(claimed, outcome.granted);
      await ask(world);
      await world.scheduler.sleep(20_000);
      assert.equal(await world.holder("job"), "one");
    });
});
