/** Holds replies and records against the model: each check is one promise to a caller, or one of the store. */
import assert from "node:assert/strict";
import type { Heir } from "../src/core/heirs.js";
import { lockKey, sessionKey } from "../src/core/keys.js";
import type { Claim } from "../src/core/lease.js";
import type { LockRecord } from "../src/core/records.js";
import type { Holding, Refusal } from "../src/core/refusal.js";
import { excludes, type KnownLease, type KnownRequest, type Model } from "./core-model.js";
import type { World } from "./core-world.js";

const space = "default";

export class Judge {
  constructor(
    readonly world: World,
    readonly model: Model,
  ) {}

  stored(name: string) {
    const lease = this.world.record(lockKey(space, name))?.lease ?? null;
    return lease === null ? null : { ...lease, expiresAt: lease.expiresAt ?? Number.POSITIVE_INFINITY };
  }

  known(claim: Claim): KnownRequest | undefined {
    return claim.request === null
      ? undefined
      : this.model.remembered(`${claim.principal}/${claim.request.id}`, this.world.now);
  }

  grant(
    claim: Claim,
    { granted, how }: { granted: Holding; how: "new" | "again" | "repeat" },
    open: ReadonlyMap<string, KnownLease>,
    known: KnownRequest | undefined,
  ): void {
    const { lock } = granted;
    const { model, world } = this;
    const lease = model.liveOn(lock.name, world.now);
    assert.ok(lease !== undefined, "told that it holds what it does not");
    assert.deepEqual([lease.id, lease.token, lease.principal], [lock.lease.id, lock.token, claim.principal]);
    assert.equal(granted.expiresAt, model.endOf(lease));
    if (how === "new") this.#remember(claim, lease);
    else if (how === "repeat") {
      const before = known ?? model.requests.get(`${claim.principal}/${claim.request?.id}`);
      assert.deepEqual([before?.lease.id, before?.fingerprint], [lease.id, claim.request?.fingerprint]);
    } else {
      const before = open.get(lock.name);
      if (before?.id === lease.id) {
        assert.equal(before.token, lease.token);
        assert.ok(lease.expiresAt >= before.expiresAt || before.expiresAt === Number.POSITIVE_INFINITY);
      } else
        assert.equal(lock.lease.since, world.now, "neither held before nor granted to a waiter just now");
      const byProof = claim.proof === lease.id;
      const bySession =
        claim.proof === null && claim.sessionId !== null && claim.sessionId === lease.sessionId;
      const byMetadata = claim.reentrant && claim.metadata === lease.metadata && lease.sessionId === null;
      assert.ok(byProof || bySession || (claim.proof === null && claim.sessionId === null && byMetadata));
    }
  }

  /** At most one grant per request id, as long as it must be remembered. */
  #remember(claim: Claim, lease: KnownLease): void {
    assert.equal(lease.id, claim.leaseId);
    if (claim.request === null) return;
    const request = `${claim.principal}/${claim.request.id}`;
    const known = this.model.remembered(request, this.world.now);
    assert.ok(known === undefined || known.lease.id === lease.id, "a second grant for one request id");
    this.model.requests.set(request, { lease, fingerprint: claim.request.fingerprint });
  }

  refusal(claim: Claim, refusal: Refusal, known: KnownRequest | undefined): void {
    const { model, world } = this;
    const live = model.liveOn(claim.name, world.now);
    const request = known ?? model.requests.get(`${claim.principal}/${claim.request?.id}`);
    switch (refusal.refused) {
      case "held": {
        const { name, token, lease } = refusal.holding.lock;
        const holder = model.liveOn(name, world.now);
        assert.deepEqual([holder?.token, holder?.id], [token, lease.id], "told a holder that holds nothing");
        assert.ok(excludes(name, claim.name));
        assert.ok(
          claim.proof === null ||
            claim.proof !== lease.id ||
            lease.principal !== claim.principal ||
            name !== claim.name,
        );
        return;
      }
      case "delayed":
        assert.equal(refusal.availableAt, model.delays.get(claim.name));
        assert.ok(world.now <= refusal.availableAt && live === undefined);
        return;
      case "queued":
        assert.equal(live, undefined);
        return;
      case "request_spent":
        assert.ok(request !== undefined && request.fingerprint === claim.request?.fingerprint);
        assert.ok(model.ended.has(request.lease.id), "spent, and its lease is not over");
        return;
      case "request_reused":
        assert.ok(request !== undefined && request.fingerprint !== claim.request?.fingerprint);
        return;
      case "session_unknown":
      case "session_expired":
        this.sessionRefusal(claim.sessionId ?? "", claim.principal, refusal.refused);
        return;
      default:
        assert.fail(`refused as ${refusal.refused}`);
    }
  }

  sessionRefusal(id: string, principal: string, refused: string): void {
    const session = this.model.sessions.get(id);
    const foreign = session === undefined || session.principal !== principal;
    assert.ok(foreign || !this.model.isSessionLive(id, this.world.now), "a live session was refused");
    if (foreign) assert.equal(refused, "session_unknown");
  }

  heir({ claim, outcome }: Heir, queue: readonly Claim[]): void {
    const { model, world } = this;
    const ahead = queue.slice(0, queue.indexOf(claim));
    for (const earlier of ahead)
      assert.ok(!world.queues.get(`${space}/${claim.name}`)?.includes(earlier), "a waiter was passed");
    if ("granted" in outcome) {
      const { lock } = outcome.granted;
      const lease = model.liveOn(lock.name, world.now);
      assert.deepEqual([lease?.id, lease?.principal], [lock.lease.id, claim.principal]);
      if (lease !== undefined && lease.id === claim.leaseId) this.#remember(claim, lease);
    } else if (outcome.refused.startsWith("session"))
      this.sessionRefusal(claim.sessionId ?? "", claim.principal, outcome.refused);
    else this.refusal(claim, outcome, this.known(claim));
  }

  /** What is stored is what was told; nothing is due too late; no free name has a waiter. */
  state(): void {
    const { world, model } = this;
    const bound = new Map<string, number>();
    const held = new Set<string>();
    for (const [, record] of world.records()) {
      if (record.kind !== "lock") continue;
      this.#checkQueue(record);
      const told = model.open.get(record.name);
      const stored = this.stored(record.name);
      assert.deepEqual(
        [stored?.id, stored?.expiresAt],
        [told?.id, told?.expiresAt],
        `${record.name}: stored and told differ`,
      );
      if (record.lease === null || told === undefined) continue;
      assert.equal(record.token, told.token);
      held.add(record.name);
      if (record.lease.sessionId !== null)
        bound.set(record.lease.sessionId, (bound.get(record.lease.sessionId) ?? 0) + 1);
    }
    assert.deepEqual(held, new Set(model.open.keys()), "a held name has no record");
    for (const [id, count] of bound) this.#checkSession(id, count);
  }

  #checkSession(id: string, count: number): void {
    const record = this.world.record(sessionKey(space, id));
    assert.equal(record?.leases, count, "a session's count is not the number of its leases");
    const session = this.model.sessions.get(id);
    const end = session?.deletedAt ?? session?.expiresAt ?? 0;
    assert.ok(record.dueAt !== 0 && record.dueAt <= Math.max(1, end), "a session is due too late");
  }

  /** No lost wake-up: a free name has no waiter, unless a neighbour is in its way. */
  #checkQueue(lock: LockRecord): void {
    if (lock.lease !== null || lock.availableAt !== 0) return;
    const [head] = this.world.queues.get(`${space}/${lock.name}`) ?? [];
    if (head === undefined || lock.name.includes(":")) return;
    assert.fail(`${lock.name} is free and somebody waits for it`);
  }

  /** As above for names that overlap; to be asked between commands, when the service has served them. */
  served(): void {
    for (const [, waiters] of this.world.queues) {
      const [head] = waiters;
      const lock = head === undefined ? null : this.world.record(lockKey(space, head.name));
      if (head === undefined || lock?.lease || (lock !== null && lock.availableAt !== 0)) continue;
      assert.ok(
        this.model.inTheWay(head.name, head.sessionId),
        `${head.name} is free and somebody waits for it`,
      );
    }
  }
}
