/**
 * Plays a history of commands against the rules and holds every reply, event and record against the model. It
 * serves queues as the service does: by the steps themselves and, for names that overlap, after each event that
 * frees one.
 */
import assert from "node:assert/strict";
import { decideAcquire, decideAcquireFirst } from "../src/core/acquire.js";
import { acquireKeys } from "../src/core/heirs.js";
import { decideInspect, decideServe } from "../src/core/inspect.js";
import { floorKey, lockKey, sessionKey } from "../src/core/keys.js";
import type { Claim } from "../src/core/lease.js";
import { type Policy, policyDefault } from "../src/core/limits.js";
import { isLeaseEvent, type SessionRecord } from "../src/core/records.js";
import type { Refusal } from "../src/core/refusal.js";
import { decideForceRelease, decideRelease } from "../src/core/release.js";
import { decideExtend, decideRenew, decideRenewMany, leaseCallKeys } from "../src/core/renew.js";
import {
  decideDrainSession,
  decideEndSession,
  decideInspectSession,
  decideKeepalive,
  decideStartSession,
} from "../src/core/session.js";
import { decideClean, decideSweep } from "../src/core/sweep.js";
import { Judge } from "./core-judge.js";
import { type Cause, excludes, type KnownLease, Model } from "./core-model.js";
import { deepFreeze, type Step, World } from "./core-world.js";

export const names = ["k", "j", "path:p", "path:p/q", "repo:global"] as const;
export const principals = ["a", "b"] as const;

/** Short enough that a history of some hundred ms sees clean-up. */
export const hastyPolicy: Policy = {
  ...policyDefault,
  ttlMaxMs: 60,
  recordRetentionMs: 40,
  requestRetentionMs: 50,
  sessionRetentionMs: 20,
  auditRetentionMs: 60,
};

export interface ClaimCommand {
  readonly names: readonly string[];
  readonly principal: string;
  readonly ttlMs: number;
  readonly withTtl: boolean;
  /** Which of the known sessions or leases, counted from the newest; null: none. */
  readonly session: number | null;
  readonly proof: number | null;
  readonly request: number | null;
  readonly fingerprint: "one" | "two";
  readonly reentrant: boolean;
  readonly delayMs: number;
  readonly metadata: string | null;
}

export interface LeaseCommand {
  readonly lease: number;
  readonly ttlMs: number | null;
  readonly wrong: "nothing" | "id" | "principal" | "name";
  readonly repeatable: boolean;
}

export interface SessionCommand {
  readonly session: number;
  readonly wrong: boolean;
}

export type Command =
  | { readonly do: "tick"; readonly ms: number }
  | ({ readonly do: "acquire" | "wait" | "first" } & ClaimCommand)
  | ({ readonly do: "renew" | "renew twice" | "extend" | "release" } & LeaseCommand)
  | { readonly do: "force" | "inspect" | "serve"; readonly name: string }
  | { readonly do: "session"; readonly principal: string; readonly ttlMs: number }
  | ({ readonly do: "keepalive" | "look" | "end" | "drain" } & SessionCommand)
  | { readonly do: "sweep" | "clean" };

const space = "default";

export class History {
  readonly world = new World(hastyPolicy);
  readonly model = new Model(hastyPolicy.requestRetentionMs);
  readonly judge = new Judge(this.world, this.model);
  readonly #leases: KnownLease[] = [];
  readonly #sessions: string[] = [];
  /** Names whose end was told and whose neighbours were not served yet. */
  readonly #freed: string[] = [];
  #made = 0;

  constructor() {
    // At 0 and 1 "due at once" cannot be told from "not due".
    this.world.now = 10;
  }

  play(commands: readonly Command[]): void {
    for (const command of commands) {
      this.#do(command);
      for (let freed = this.#freed.shift(); freed !== undefined; freed = this.#freed.shift())
        this.#serveAfter(freed);
      this.judge.served();
    }
  }

  /** Everything ends, once; everything is cleaned up; and still no token comes back. */
  finish(): void {
    const { world, model } = this;
    world.queues.clear();
    world.now += 1000;
    this.#settleAll();
    assert.equal(model.open.size, 0, "a lease that was over was never settled");
    world.now += 100;
    this.#sweep();
    for (let days = 0; days < 3; days++, world.now += 1000) this.#do({ do: "clean" });
    const left = [...world.records()].map(([key]) => key);
    assert.deepEqual(left, left.includes(floorKey(space)) ? [floorKey(space)] : [], "left after clean-up");
    for (const name of names) {
      const last = model.tokens.get(name) ?? 0;
      this.#do({ ...plainClaim, do: "acquire", names: [name] });
      assert.ok((model.open.get(name)?.token ?? 0) > last);
      this.#do({ do: "force", name });
    }
  }

  #do(command: Command): void {
    switch (command.do) {
      case "tick":
        this.world.now += command.ms;
        return;
      case "acquire":
      case "wait":
        this.#acquire(command, command.do === "wait");
        return;
      case "first":
        this.#first(command);
        return;
      case "renew":
      case "renew twice":
      case "extend":
        this.#renew(command, command.do);
        return;
      case "release":
        this.#release(command);
        return;
      case "force":
        this.#force(command.name);
        return;
      case "inspect":
        this.#inspect(command.name);
        return;
      case "serve":
        this.#serve(command.name);
        return;
      case "session":
        this.#start(command.principal, command.ttlMs);
        return;
      case "sweep":
        this.#sweep();
        return;
      case "clean":
        this.#clean();
        return;
      default:
        this.#sessionCall(command, command.do);
    }
  }

  /** Takes one step, tells the model and checks the state. */
  #step<Reply>(take: () => Step<Reply>, cause: Cause = null): Step<Reply> {
    const { world, model } = this;
    const queues = new Map(world.queues);
    const step = take();
    for (const event of step.events) {
      if (!isLeaseEvent(event)) continue;
      model.hear(event, this.judge.stored(event.name), cause, world.now);
      const began = event.type === "acquired" ? model.open.get(event.name) : undefined;
      if (began !== undefined) this.#leases.push(began);
    }
    for (const heir of step.heirs) this.judge.heir(heir, queues.get(`${space}/${heir.claim.name}`) ?? []);
    this.judge.state();
    for (const event of step.events)
      if (event.type === "released" || event.type === "expired") this.#freed.push(event.name);
    return step;
  }

  #serveAfter(freed: string): void {
    for (const name of names)
      if (name.includes(":") && excludes(name, freed) && this.world.queues.has(`${space}/${name}`))
        this.#serve(name);
  }

  #claim(command: ClaimCommand, name: string): Claim {
    const { principal, metadata, delayMs, reentrant, request, fingerprint } = command;
    const sessionId = command.session === null ? null : (nth(this.#sessions, command.session) ?? null);
    const proof = command.proof === null ? null : (nth(this.#leases, command.proof)?.id ?? "made-up");
    return deepFreeze({
      space,
      name,
      principal,
      owner: null,
      metadata,
      ttlMs: command.withTtl || sessionId === null ? command.ttlMs : null,
      delayMs,
      sessionId,
      leaseId: `lease-${++this.#made}`,
      proof,
      reentrant,
      request: request === null ? null : { id: `r${request}`, fingerprint },
    });
  }

  #acquire(command: ClaimCommand, waits: boolean): void {
    const { world } = this;
    const claim = this.#claim(command, command.names[0] ?? "k");
    const open = new Map(this.model.open);
    const known = this.judge.known(claim);
    if (waits) world.join(claim);
    const waitable = ["held", "delayed", "queued"];
    const { reply, heirs } = this.#step(() => {
      const step = world.step(
        acquireKeys(claim),
        (view) => decideAcquire(view, claim, hastyPolicy, world.successors, waits),
        ({ heirs }) => heirs,
      );
      const { outcome } = step.reply;
      if (!("refused" in outcome && waitable.includes(outcome.refused))) world.leave(claim);
      return step;
    });
    const { outcome } = reply;
    if ("refused" in outcome) this.judge.refusal(claim, outcome, known);
    else this.judge.grant(claim, outcome, open, known);
    const passed = heirs.some(
      (heir) => "granted" in heir.outcome && heir.outcome.granted.lock.name === claim.name,
    );
    if (!waits && !("refused" in outcome) && outcome.how === "new")
      assert.ok(!passed, "an acquire passed a waiter");
  }

  #first(command: ClaimCommand): void {
    const { world } = this;
    const claims = command.names.map((name) => this.#claim(command, name));
    const open = new Map(this.model.open);
    const [first] = claims;
    if (first === undefined) return;
    const known = this.judge.known(first);
    const { reply } = this.#step(() =>
      world.step(
        claims.flatMap(acquireKeys),
        (view) => decideAcquireFirst(view, claims, hastyPolicy, world.successors),
        ({ heirs }) => heirs,
      ),
    );
    for (const { name, refusal } of reply.refusals) {
      const claim = claims.find((one) => one.name === name);
      if (claim !== undefined) this.judge.refusal(claim, refusal, known);
    }
    const granted = reply.granted;
    const claim = claims.find(({ name }) => name === granted?.granted.lock.name) ?? first;
    if (granted !== null) this.judge.grant(claim, granted, open, known);
  }

  #leaseCall(command: LeaseCommand) {
    const lease = nth(this.#leases, command.lease);
    const call = {
      space,
      name: lease?.name ?? "k",
      principal: lease?.principal ?? "a",
      leaseId: lease?.id ?? "none",
    };
    if (command.wrong === "id") call.leaseId = "made-up";
    if (command.wrong === "principal") call.principal = call.principal === "a" ? "b" : "a";
    if (command.wrong === "name") call.name = call.name === "k" ? "j" : "k";
    const live = this.model.liveOn(call.name, this.world.now);
    const mine = live !== undefined && live.id === call.leaseId && live.principal === call.principal;
    return { call, live, mine };
  }

  #renew(command: LeaseCommand, how: "renew" | "renew twice" | "extend"): void {
    const { world, model } = this;
    const { call, live, mine } = this.#leaseCall(command);
    const before = world.record(lockKey(space, call.name))?.lease;
    const ttlMs = command.ttlMs ?? 7;
    const step = this.#step(() =>
      how === "extend"
        ? world.step(
            leaseCallKeys(call),
            (view) => decideExtend(view, { ...call, ttlMs }, hastyPolicy, world.successors),
            ({ heirs }) => heirs,
          )
        : how === "renew"
          ? world.step(
              leaseCallKeys(call),
              (view) => decideRenew(view, { ...call, ttlMs: command.ttlMs }, hastyPolicy, world.successors),
              ({ heirs }) => heirs,
            )
          : this.#renewTwice({ ...call, ttlMs: command.ttlMs }),
    );
    const { outcome } = step.reply;
    if ("refused" in outcome) {
      assert.equal(outcome.refused, "not_current");
      assert.ok(!mine, "the live lease was refused");
      if (live !== undefined)
        assert.deepEqual([step.writes, step.events], [[], []], "a wrong lease id had an effect");
      return;
    }
    assert.ok(mine && before, "renewed by somebody who does not hold it");
    const was = before.expiresAt ?? Number.POSITIVE_INFINITY;
    const own = before.ttlMs === null ? was : Math.max(was, world.now + before.ttlMs);
    const wanted =
      how === "extend"
        ? Math.max(was, world.now + Math.min(ttlMs, hastyPolicy.ttlMaxMs))
        : command.ttlMs === null
          ? own
          : world.now + command.ttlMs;
    const after = model.open.get(call.name);
    assert.deepEqual([after?.expiresAt, after?.token], [wanted, live?.token]);
    assert.equal(outcome.renewed.expiresAt, after === undefined ? null : model.endOf(after));
  }

  /** Both in one step: the second finds what the first made. */
  #renewTwice(call: Parameters<typeof decideRenew>[1]) {
    const { world } = this;
    const step = world.step(
      leaseCallKeys(call),
      (view) => decideRenewMany(view, [call, call], hastyPolicy, world.successors),
      (replies) => replies.flatMap(({ heirs }) => heirs),
    );
    const [first, second] = step.reply;
    assert.ok(first !== undefined && second !== undefined);
    assert.equal("refused" in first.outcome, "refused" in second.outcome);
    return { ...step, reply: second };
  }

  #release(command: LeaseCommand): void {
    const { world, model } = this;
    const { call, live, mine } = this.#leaseCall(command);
    const release = { ...call, outcome: null, note: null, repeatable: command.repeatable };
    const step = this.#step(
      () =>
        world.step(
          leaseCallKeys(call),
          (view) => decideRelease(view, release, hastyPolicy, world.successors),
          ({ heirs }) => heirs,
        ),
      mine ? { released: call.leaseId } : null,
    );
    const { outcome } = step.reply;
    const released = "released" in outcome && !outcome.repeat;
    assert.equal(released, mine, "released by somebody who does not hold it, or not by its holder");
    if (released) assert.equal(model.ended.get(call.leaseId)?.how, "own release");
    else if (live !== undefined)
      assert.deepEqual([step.writes, step.events], [[], []], "it harmed a successor");
    if ("released" in outcome && outcome.repeat)
      assert.ok(command.repeatable && model.ended.get(call.leaseId)?.how === "own release");
  }

  #force(name: string): void {
    const { world } = this;
    const live = this.model.liveOn(name, world.now);
    const call = { space, name, by: "boss", reason: "stuck", auditId: `audit-${++this.#made}`, wallAt: 0 };
    const { reply } = this.#step(
      () =>
        world.step(
          [lockKey(space, name), floorKey(space)],
          (view) => decideForceRelease(view, call, hastyPolicy, world.successors),
          ({ heirs }) => heirs,
        ),
      { forced: name },
    );
    assert.equal(reply.ended?.leaseId, live?.id);
  }

  #inspect(name: string): void {
    const { world, model } = this;
    const { reply } = this.#step(() =>
      world.step(
        [lockKey(space, name), floorKey(space)],
        (view) => decideInspect(view, space, name, hastyPolicy, world.successors),
        ({ heirs }) => heirs,
      ),
    );
    assert.equal(reply.holding?.lock.lease.id, model.liveOn(name, world.now)?.id);
  }

  #serve(name: string): void {
    const { world } = this;
    this.#step(() =>
      world.step(
        [lockKey(space, name), floorKey(space)],
        (view) => decideServe(view, space, name, hastyPolicy, world.successors),
        (heirs) => heirs,
      ),
    );
  }

  #start(principal: string, ttlMs: number): void {
    const { world } = this;
    const id = `s${++this.#made}`;
    const start = { id, hash: `#${id}`, space, principal, metadata: null, ttlMs };
    this.model.sessions.set(id, { principal, expiresAt: world.now + ttlMs, deletedAt: null });
    this.#sessions.push(id);
    this.#step(() =>
      world.step([sessionKey(space, id), floorKey(space)], (view) =>
        decideStartSession(view, start, hastyPolicy),
      ),
    );
  }

  #sessionCall(command: SessionCommand, how: "keepalive" | "look" | "end" | "drain"): void {
    const { world, model } = this;
    const id = nth(this.#sessions, command.session);
    const session = id === undefined ? undefined : model.sessions.get(id);
    if (id === undefined || session === undefined) return;
    const principal = command.wrong ? "stranger" : session.principal;
    if (how === "drain") {
      this.#drain(id);
      return;
    }
    const live = model.isSessionLive(id, world.now);
    const decide = { keepalive: decideKeepalive, look: decideInspectSession, end: decideEndSession }[how];
    const take = (): Step<{ session: SessionRecord } | Refusal> =>
      world.step([sessionKey(space, id)], (view) => decide(view, { space, id, principal }, hastyPolicy));
    if (how === "end" && live && !command.wrong) model.sessions.set(id, { ...session, deletedAt: world.now });
    const { reply, writes } = this.#step(take);
    if ("refused" in reply) {
      this.judge.sessionRefusal(id, principal, reply.refused);
      return;
    }
    assert.ok(!command.wrong, "a stranger's session");
    if (how === "look") return;
    assert.ok(live, "a dead session went on");
    assert.equal(writes.length, 1, "a session call is one write");
    if (how === "keepalive")
      model.sessions.set(id, {
        ...session,
        expiresAt: Math.max(session.expiresAt, world.now + reply.session.ttlMs),
      });
    assert.equal(reply.session.expiresAt, model.sessions.get(id)?.expiresAt);
  }

  #drain(id: string): void {
    const { world } = this;
    const key = sessionKey(space, id);
    this.#step(() =>
      world.step(
        [key],
        (view) => decideDrainSession(view, key, hastyPolicy, world.successors),
        ({ heirs }) => heirs,
      ),
    );
  }

  /** Comes long after the sweep. */
  #clean(): void {
    this.#settleAll();
    const take = () => this.world.step([], (view) => decideClean(view, hastyPolicy));
    while (this.#step(take).reply.more);
  }

  #settleAll(): void {
    for (let steps = 0; this.#sweep(); steps++) assert.ok(steps < 20, "the sweep does not come to an end");
  }

  #sweep(): boolean {
    const { world, model } = this;
    const { reply } = this.#step(() =>
      world.step(
        [],
        (view) => decideSweep(view, hastyPolicy, world.successors),
        ({ heirs }) => heirs,
      ),
    );
    if (!reply.more)
      for (const lease of model.open.values())
        assert.ok(model.isLive(lease, world.now), `${lease.name} was overlooked`);
    return reply.more;
  }
}

/** Counted from the newest, around and around. */
const nth = <Item>(items: readonly Item[], back: number): Item | undefined =>
  items.length === 0 ? undefined : items[items.length - 1 - (back % items.length)];

export const plainClaim: ClaimCommand = {
  names: ["k"],
  principal: "a",
  ttlMs: 10,
  withTtl: true,
  session: null,
  proof: null,
  request: null,
  fingerprint: "one",
  reentrant: false,
  delayMs: 0,
  metadata: null,
};
