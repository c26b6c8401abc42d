/** Rule 9 over several servers: whose turn it is, who is gone, and what is told to whom. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { World } from "../../test/core-world.js";
import { claim, space } from "../../test/store-lab.js";
import { type AcquireReply, decideAcquire } from "./acquire.js";
import type { Successors } from "./heirs.js";
import { decideInspect, decideLeaveLine, decideServe } from "./inspect.js";
import { lineKey, lockKey, peerKey, requestKey } from "./keys.js";
import type { Claim } from "./lease.js";
import { peerTtlMs, policyDefault, turnsMax } from "./limits.js";
import { decideBeat, decideLeave, peerOf } from "./line.js";
import { decideRelease } from "./release.js";
import { decideRenew } from "./renew.js";
import { decideSweep } from "./sweep.js";

const turnOf = (id: string, { leaseId }: Claim): string => `${id}.${leaseId}`;

/** Two servers, A and B, over one world. Each has its own queue. */
class Servers extends World {
  readonly waiters = new Map<string, Claim[]>();
  /** Those whose connection closed: a request id keeps their places. */
  readonly away = new Set<string>();
  override isShared = true;
  override lagMs = 300;
  override now = 1_000_000;

  constructor() {
    super();
    for (const id of ["A", "B"]) this.beat(id);
  }

  of(id: string): Successors {
    const waiting = (name: string): Claim[] =>
      (this.waiters.get(id) ?? []).filter((waiter) => waiter.name === name);
    const isHere = ({ leaseId }: Claim): boolean => !this.away.has(leaseId);
    return Object.assign((_space: string, name: string, nth: number) => waiting(name).filter(isHere)[nth], {
      peer: {
        id,
        places: (_space: string, name: string) =>
          waiting(name).map((waiter) => ({
            turn: turnOf(id, waiter),
            who: isHere(waiter) ? ("here" as const) : ("away" as const),
          })),
        turnOf: (waiter: Claim) => turnOf(id, waiter),
      },
    });
  }

  beat(id: string): boolean {
    return this.step([], (view) => decideBeat(view, id, policyDefault)).reply;
  }

  acquire(id: string, leaseId: string, changes: Partial<Claim> = {}): AcquireReply {
    const asked = claim("k", { leaseId, ...changes });
    return this.#told(
      id,
      this.step([], (view) => decideAcquire(view, asked, policyDefault, this.of(id))).reply,
    );
  }

  wait(id: string, leaseId: string, changes: Partial<Claim> = {}): AcquireReply {
    const asked = claim("k", { leaseId, ...changes });
    this.waiters.set(id, [...(this.waiters.get(id) ?? []), asked]);
    const decide = (view: Parameters<typeof decideAcquire>[0]) =>
      decideAcquire(view, asked, policyDefault, this.of(id), true);
    return this.#told(id, this.step([], decide).reply);
  }

  serve(id: string, isAudit = false): string {
    const heirs = this.step([], (view) =>
      decideServe(view, space, "k", policyDefault, this.of(id), isAudit),
    ).reply;
    return this.#told(id, { heirs })
      .heirs.map((heir) => heir.claim.leaseId)
      .join();
  }

  leaveLine(id: string, leaseId: string): number {
    const all = this.waiters.get(id) ?? [];
    this.waiters.set(
      id,
      all.filter((waiter) => waiter.leaseId !== leaseId),
    );
    const { reply } = this.step([], (view) =>
      decideLeaveLine(view, space, "k", `${id}.${leaseId}`, policyDefault, this.of(id)),
    );
    return this.#told(id, reply).place;
  }

  release(id: string, leaseId: string): string {
    const call = {
      ...{ space, name: "k", principal: "runner-1", leaseId },
      ...{ outcome: null, note: null, repeatable: false },
    };
    const { reply } = this.step([], (view) => decideRelease(view, call, policyDefault, this.of(id)));
    assert.ok("released" in reply.outcome);
    return this.#told(id, reply)
      .heirs.map((heir) => heir.claim.leaseId)
      .join();
  }

  sweep(id: string): string {
    const { reply } = this.step([], (view) => decideSweep(view, policyDefault, this.of(id)));
    return this.#told(id, reply)
      .heirs.map((heir) => heir.claim.leaseId)
      .join();
  }

  get turns(): string {
    return this.record(lineKey(space, "k"))?.turns.map(peerOf).join("") ?? "";
  }

  get holder(): string {
    return this.record(lockKey(space, "k"))?.lease?.id ?? "nobody";
  }

  /** Types of events since the last time it was asked. */
  told(): string {
    return this.events
      .splice(0)
      .map(({ type }) => type)
      .join();
  }

  #told<Reply extends { readonly heirs: readonly { readonly claim: Claim }[] }>(
    id: string,
    reply: Reply,
  ): Reply {
    const served = new Set(reply.heirs.map((heir) => heir.claim));
    this.waiters.set(
      id,
      (this.waiters.get(id) ?? []).filter((waiter) => !served.has(waiter)),
    );
    return reply;
  }
}

const scene = (...waits: readonly (readonly [id: string, leaseId: string])[]): Servers => {
  const servers = new Servers();
  servers.acquire("A", "holder");
  for (const [id, leaseId] of waits) servers.wait(id, leaseId);
  servers.told();
  return servers;
};

describe("the line of several servers", () => {
  test("has a turn for each waiter, in the order in which they came", () => {
    const servers = scene(["A", "a1"], ["B", "b1"], ["A", "a2"]);
    assert.equal(servers.turns, "ABA");
    assert.equal(
      servers.step([], (view) => decideInspect(view, space, "k", policyDefault, servers.of("B"))).reply
        .elsewhere,
      2,
    );
  });

  test("a release grants in the same step if the turn is its own server's", () => {
    const servers = scene(["A", "a1"], ["B", "b1"]);
    assert.equal(servers.release("A", "holder"), "a1");
    assert.equal(servers.told(), "released,acquired");
    assert.equal(servers.turns, "B");
  });

  test("a release leaves the name free for another server's turn, which takes it when it hears", () => {
    const servers = scene(["B", "b1"], ["A", "a1"]);
    assert.equal(servers.release("A", "holder"), "");
    assert.equal(servers.told(), "released");
    assert.equal(servers.serve("A"), "", "not its turn");
    assert.equal(servers.serve("B"), "b1");
    assert.equal(servers.turns, "A");
  });

  test("nobody passes it; the one whose turn it is, is told that somebody asks", () => {
    const servers = scene(["B", "b1"]);
    servers.release("A", "holder");
    servers.told();
    const { outcome, line } = servers.acquire("A", "passer");
    assert.ok("refused" in outcome && outcome.refused === "queued");
    assert.deepEqual(line?.turns, ["B.b1"]);
    assert.equal(servers.told(), "line");
  });

  test("a server whose waiters have left passes its turn on and says so", () => {
    const servers = scene(["B", "b1"], ["A", "a1"]);
    servers.waiters.set("B", []); // it left, and its server could not give up its turn
    servers.release("A", "holder");
    servers.told();
    assert.equal(servers.serve("B"), "");
    assert.equal(servers.told(), "line");
    assert.equal(servers.serve("A"), "a1");
    assert.equal(servers.turns, "");
  });

  test("who leaves gives up its own turn, and the next is told if the name is free", () => {
    const servers = scene(["A", "a1"], ["B", "b1"], ["A", "a2"], ["B", "b2"]);
    assert.equal(servers.leaveLine("A", "a2"), 3);
    assert.equal(servers.turns, "ABB");
    assert.equal(servers.told(), "", "nobody's turn came by it");
    servers.waiters.set("A", servers.waiters.get("A")?.slice(0, 1) ?? []);
    servers.release("B", "holder");
    servers.told();
    assert.equal(servers.leaveLine("A", "a1"), 1);
    assert.equal(servers.told(), "line");
    assert.equal(servers.serve("B"), "b1");
  });

  test("who left gives up its own turn and no other, also to a count before it says so", () => {
    const servers = scene(["A", "a1"], ["B", "b1"], ["A", "a2"]);
    servers.waiters.set("A", servers.waiters.get("A")?.slice(0, 1) ?? []);
    servers.serve("A");
    assert.equal(servers.turns, "AB");
    assert.equal(servers.leaveLine("A", "a2"), 0, "it stands nowhere");
    assert.equal(servers.turns, "AB");
  });

  test("a waiter that lost its turn stands at the end when it is counted again", () => {
    const servers = scene(["A", "a1"], ["B", "b1"]);
    servers.put(lineKey(space, "k"), { kind: "line", space, name: "k", turns: ["B.b1"] });
    assert.equal(servers.serve("A"), "");
    assert.equal(servers.turns, "BA");
  });

  test("an audit of a free name tells the one whose turn it is; of a held one nobody", () => {
    const servers = scene(["B", "b1"], ["A", "a1"]);
    servers.serve("A", true);
    assert.equal(servers.told(), "");
    servers.release("A", "holder");
    servers.told();
    servers.serve("A", true);
    assert.equal(servers.told(), "line");
  });

  test("who is away keeps its place, and nobody who came later to its server has the use of it", () => {
    const servers = scene(["B", "ticket"], ["A", "a1"], ["A", "a2"], ["B", "b2"]);
    servers.away.add("ticket");
    servers.release("A", "holder");
    assert.equal(servers.told(), "released");
    assert.equal(servers.serve("B"), "", "b2 came after those of the other server");
    assert.equal(servers.told(), "line");
    assert.equal(servers.serve("A"), "a1");
    assert.equal(servers.turns, "BAB");
    servers.away.delete("ticket");
    const back = claim("k", { leaseId: "ticket" });
    servers.waiters.set("B", [back, ...(servers.waiters.get("B") ?? []).slice(1)]);
    servers.step([], (view) => decideAcquire(view, back, policyDefault, servers.of("B"), true));
    assert.equal(servers.release("B", "a1"), "ticket", "it came back to its place");
    assert.equal(servers.turns, "AB");
  });

  test("who is away is not counted among those who wait, nor in the place of those after it", () => {
    const servers = scene(["B", "ticket"], ["A", "a1"]);
    servers.away.add("ticket");
    servers.serve("B");
    const { reply } = servers.step([], (view) =>
      decideInspect(view, space, "k", policyDefault, servers.of("A")),
    );
    assert.equal(reply.elsewhere, 0);
    assert.equal(servers.leaveLine("A", "a1"), 1);
  });

  test("a waiter that can never be granted leaves its turn to the next, wherever that one stands", () => {
    const servers = scene();
    servers.wait("A", "over", { request: { id: "r", fingerprint: "f" } });
    servers.wait("B", "b1");
    servers.wait("A", "a2");
    const request = { space, principal: "runner-1", requestId: "r", fingerprint: "f", name: "k" };
    servers.put(requestKey(space, "runner-1", "r"), {
      kind: "request",
      ...request,
      leaseId: "old",
      token: 1,
      over: true,
      gcAt: 9e9,
    });
    assert.equal(servers.release("A", "holder"), "over", "told that its request was granted before");
    assert.equal(servers.serve("B"), "b1");
    assert.equal(servers.turns, "A");
  });

  test("who stood in line and is answered with what it was granted before gives up its turn", () => {
    const request = { id: "r", fingerprint: "f" };
    const servers = scene();
    servers.release("A", "holder");
    servers.acquire("A", "first", { request });
    servers.put(lineKey(space, "k"), { kind: "line", space, name: "k", turns: ["B.again", "A.a1"] });
    servers.told();
    const { outcome } = servers.wait("B", "again", { request });
    assert.ok("granted" in outcome && outcome.granted.lock.lease.id === "first");
    assert.equal(servers.turns, "A");
    assert.equal(servers.told(), "line");
  });

  test("has room for so many and no more", () => {
    const servers = scene();
    const turns = Array.from({ length: turnsMax }, (_, nth) => `B.${nth}`);
    servers.put(lineKey(space, "k"), { kind: "line", space, name: "k", turns });
    assert.equal(servers.wait("A", "a1").line?.isFull, true);
    assert.equal(servers.record(lineKey(space, "k"))?.turns.length, turnsMax);
  });
});

describe("a server that is gone", () => {
  test("loses its turns once it has said nothing for its time and the clock's lag, and all others are told", () => {
    const servers = scene(["B", "b1"], ["A", "a1"]);
    servers.release("A", "holder");
    servers.now += peerTtlMs + servers.lagMs;
    servers.beat("A");
    assert.equal(servers.serve("A"), "", "at its last instant it is still there");
    servers.now += 1;
    servers.told();
    servers.sweep("A");
    assert.equal(servers.record(peerKey("B")), null);
    assert.equal(servers.told(), "line");
    assert.equal(servers.serve("A"), "a1");
  });

  test("is passed over by whoever looks, also before it was swept", () => {
    const servers = scene(["B", "b1"]);
    servers.release("A", "holder");
    servers.now += peerTtlMs + servers.lagMs + 1;
    servers.beat("A");
    const { outcome } = servers.acquire("A", "next");
    assert.ok("granted" in outcome);
    assert.equal(servers.turns, "");
  });

  test("and comes back hears of it, and takes its turns again", () => {
    const servers = scene(["B", "b1"]);
    assert.equal(servers.beat("B"), false);
    servers.now += peerTtlMs + servers.lagMs + 1;
    servers.beat("A");
    servers.sweep("A");
    assert.equal(servers.beat("B"), true);
    assert.equal(servers.serve("B"), "");
    assert.equal(servers.turns, "B");
  });

  test("in order says so itself", () => {
    const servers = scene(["B", "b1"], ["A", "a1"]);
    servers.step([], (view) => decideLeave(view, "B", policyDefault));
    assert.equal(servers.told(), "line");
    assert.equal(servers.release("A", "holder"), "a1");
  });
});

describe("a clock that is coarse", () => {
  test("ends nothing before it is surely past, and grants from the latest that it can be", () => {
    const servers = scene();
    const end = servers.record(lockKey(space, "k"))?.lease?.expiresAt ?? 0;
    assert.equal(end, servers.now + 60_000);
    servers.now = end + servers.lagMs;
    assert.ok("refused" in servers.acquire("B", "early").outcome);
    const renewal = { space, name: "k", principal: "runner-1", leaseId: "holder", ttlMs: null };
    const tried = new World();
    tried.put(lockKey(space, "k"), servers.record(lockKey(space, "k")) ?? assert.fail());
    Object.assign(tried, { now: servers.now, lagMs: servers.lagMs });
    const { outcome } = tried.step([], (view) => decideRenew(view, renewal, policyDefault)).reply;
    assert.ok("renewed" in outcome, "until then its holder may renew it");
    servers.now += 1;
    assert.ok("granted" in servers.acquire("B", "next").outcome);
    assert.equal(servers.record(lockKey(space, "k"))?.previous?.endedAt, end);
  });
});

describe("a lease that was told of again", () => {
  const request = { id: "r", fingerprint: "f" };
  const told = (servers: Servers) => servers.record(lockKey(space, "k"))?.lease?.told;
  const takeBack = (servers: Servers, ...calls: string[]): void => {
    const call = {
      ...{ space, name: "k", principal: "runner-1", leaseId: "first" },
      ...{ outcome: null, note: null, repeatable: false, unheard: { calls, isTold: () => false } },
    };
    servers.step([], (view) => decideRelease(view, call, policyDefault, servers.of("A")));
  };
  const toldTwice = (): Servers => {
    const servers = new Servers();
    servers.acquire("A", "first", { request });
    assert.equal(told(servers), undefined);
    const again = servers.acquire("B", "second", { request });
    assert.ok("granted" in again.outcome && again.outcome.granted.lock.lease.id === "first");
    assert.deepEqual(told(servers), ["first", "second"]);
    return servers;
  };

  for (const lost of ["first", "second"])
    test(`is not taken back because one of the two calls did not hear: ${lost}`, () => {
      const servers = toldTwice();
      takeBack(servers, lost);
      assert.equal(servers.holder, "first");
      takeBack(servers, lost);
      assert.equal(servers.holder, "first");
      assert.equal(servers.release("A", "first"), "");
      assert.equal(servers.holder, "nobody", "its holder may give it back all the same");
    });

  test("is taken back when neither heard, whoever says so", () => {
    const apart = toldTwice();
    takeBack(apart, "second");
    takeBack(apart, "first");
    assert.equal(apart.holder, "nobody");
    const together = toldTwice();
    takeBack(together, "first", "second");
    assert.equal(together.holder, "nobody");
  });

  test("is not taken back once its holder has named it, or after very many calls", () => {
    const renewed = toldTwice();
    const renewal = { space, name: "k", principal: "runner-1", leaseId: "first", ttlMs: null };
    renewed.step([], (view) => decideRenew(view, renewal, policyDefault));
    const many = toldTwice();
    const calls = Array.from({ length: 20 }, (_, i) => `call-${i}`);
    for (const call of calls) many.acquire("B", call, { request });
    for (const servers of [renewed, many]) {
      assert.deepEqual(told(servers), ["holder"]);
      takeBack(servers, "first", "second", ...calls);
      assert.equal(servers.holder, "first");
    }
  });

  test("and one that nobody heard of is taken back", () => {
    const servers = new Servers();
    servers.acquire("A", "first", { request });
    takeBack(servers, "first");
    assert.equal(servers.holder, "nobody");
  });
});
