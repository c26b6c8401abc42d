// A lease service in one file, correct and small: the real rules over the engine beside it, with queues and upkeep,
// on virtual time. It answers the calls of a history. What it is made of can be replaced part by part, which is how
// bugs are planted: in the rules, in the engine, or in the queue.
import { decideAcquire } from "../../src/core/acquire.js";
import type { Decision, View } from "../../src/core/decision.js";
import { acquireKeys, type Heir, type Successors } from "../../src/core/heirs.js";
import { decideInspect, decideServe } from "../../src/core/inspect.js";
import { floorKey, type Key, lockKey, sessionKey } from "../../src/core/keys.js";
import type { Claim } from "../../src/core/lease.js";
import { type Policy, policyDefault } from "../../src/core/limits.js";
import { hasOverlap, overlaps } from "../../src/core/names.js";
import { decideForceRelease, decideRelease } from "../../src/core/release.js";
import { decideRenew, leaseCallKeys } from "../../src/core/renew.js";
import {
  decideDrainSession,
  decideEndSession,
  decideKeepalive,
  decideStartSession,
} from "../../src/core/session.js";
import { decideClean, decideSweep } from "../../src/core/sweep.js";
import { StoreError } from "../../src/store/store.js";
import type { Call, Reply } from "../../src/verify/history.js";
import { claimOf, granted, holderOf, refused, space } from "./answers.js";
import type { About, Engine } from "./engine.js";
import type { Timeline } from "./timeline.js";

export const rules = {
  acquire: decideAcquire,
  renew: decideRenew,
  release: decideRelease,
  force: decideForceRelease,
  inspect: decideInspect,
  serve: decideServe,
  open: decideStartSession,
  keepalive: decideKeepalive,
  end: decideEndSession,
  drain: decideDrainSession,
  sweep: decideSweep,
  clean: decideClean,
};
export type Rules = typeof rules;

/** One request on its way through the service. */
export interface Request {
  readonly principal: string;
  readonly call: Call;
  /** The id of what it makes. */
  readonly id: string;
  readonly reply: (reply: Reply) => void;
}

export interface Waiter {
  readonly claim: Claim;
  request: Request;
}

/** Who waits for what, first come first served. */
export class Queue {
  readonly waiters: Waiter[] = [];

  /** The n-th in line for a name. */
  nth(name: string, nth: number): Waiter | undefined {
    return this.waiters.filter(({ claim }) => claim.name === name)[nth];
  }

  join(waiter: Waiter): void {
    this.waiters.push(waiter);
  }

  leave(waiter: Waiter): boolean {
    const place = this.waiters.indexOf(waiter);
    if (place >= 0) this.waiters.splice(place, 1);
    return place >= 0;
  }

  /** Its time is up. */
  giveUp(waiter: Waiter): boolean {
    return this.leave(waiter);
  }
}

/** How long a grant that nobody heard of is kept for its request id. */
const ticketMs = 1500;
const sweepsMax = 20;

export class Service {
  /** By request id: the request that came last. */
  readonly #latest = new Map<string, Request>();
  /** Leases that were given again to who repeated the request or proved to be the holder. */
  readonly #heard = new Set<string>();

  constructor(
    readonly engine: Engine,
    readonly rules: Rules,
    readonly queue: Queue,
    readonly timeline: Timeline,
    readonly policy: Policy = policyDefault,
  ) {}

  answer(request: Request): void {
    const { call } = request;
    try {
      if (call.op === "acquire") this.#acquire(request, call);
      else request.reply(this.#answer(request, call));
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      request.reply({ kind: "refused", code: error.kind });
    }
  }

  #answer({ principal, id }: Request, call: Exclude<Call, { op: "acquire" }>): Reply {
    const { rules, policy } = this;
    switch (call.op) {
      case "renew": {
        const renewal = { ...lease(principal, call), ttlMs: call.ttlMs };
        const { outcome } = this.#step("renew", leaseCallKeys(renewal), (view, heirs) =>
          rules.renew(view, renewal, policy, heirs),
        );
        return "refused" in outcome ? refused(outcome, call.name) : granted(outcome.renewed);
      }
      case "release": {
        const release = { ...lease(principal, call), outcome: null, note: null, repeatable: false };
        const { outcome } = this.#step("release", leaseCallKeys(release), (view, heirs) =>
          rules.release(view, release, policy, heirs),
        );
        return "refused" in outcome ? refused(outcome, call.name) : { kind: "done" };
      }
      case "force": {
        const force = { space, name: call.name, by: principal, reason: "stuck", auditId: id, wallAt: 0 };
        this.#step("force", [lockKey(space, call.name)], (view, heirs) =>
          rules.force(view, force, policy, heirs),
        );
        return { kind: "done" };
      }
      case "read": {
        const { holding, token } = this.#step(
          "read",
          [lockKey(space, call.name), floorKey(space)],
          (view, heirs) => rules.inspect(view, space, call.name, policy, heirs),
        );
        const state = { kind: "state", held: holding !== null, token } as const;
        return holding === null ? state : { ...state, holder: holderOf(holding) };
      }
      case "node":
        throw new Error("there are no nodes here");
      default:
        return this.#session(principal, id, call);
    }
  }

  #session(principal: string, id: string, call: Extract<Call, { op: "open" | "keepalive" | "end" }>): Reply {
    const { rules, policy } = this;
    if (call.op === "open") {
      const start = { id, hash: id, space, principal, metadata: null, ttlMs: call.ttlMs };
      const { session, now } = this.#step("session", [sessionKey(space, id)], (view) =>
        rules.open(view, start, policy),
      );
      return { kind: "opened", session: id, leftMs: session.expiresAt - now };
    }
    const key = sessionKey(space, call.session);
    const named = { space, principal, id: call.session };
    const decide = call.op === "end" ? rules.end : rules.keepalive;
    const reply = this.#step("session", [key], (view) => decide(view, named, policy));
    if (call.op === "end")
      this.#step("session", [key], (view, heirs) => rules.drain(view, key, policy, heirs));
    const isOver = "refused" in reply && reply.refused === "session_expired";
    if ("refused" in reply && !(call.op === "end" && isOver)) return refused(reply, "");
    const isKept = call.op === "keepalive" && "session" in reply;
    return isKept ? { kind: "done", leftMs: reply.session.expiresAt - reply.now } : { kind: "done" };
  }

  #acquire(request: Request, call: Extract<Call, { op: "acquire" }>): void {
    const claim = claimOf(request.principal, call, request.id);
    const ticket = ticketOf(claim);
    const earlier =
      ticket === null ? undefined : this.queue.waiters.find((waiter) => ticketOf(waiter.claim) === ticket);
    if (ticket !== null) this.#latest.set(ticket, request);
    if (call.waitMs === 0) request.reply(this.#take(claim, false));
    else if (earlier !== undefined && earlier.claim.request?.fingerprint !== claim.request?.fingerprint)
      request.reply({ kind: "reused" });
    else if (earlier !== undefined) {
      earlier.request.reply({ kind: "unknown", why: "the same request id took over the place in line" });
      earlier.request = request;
      this.#patience(earlier, request, call.waitMs);
    } else this.#wait({ claim, request }, call.waitMs);
  }

  /** Stands in line, then looks: no release can slip through in between. */
  #wait(waiter: Waiter, waitMs: number): void {
    this.queue.join(waiter);
    const reply = this.#take(waiter.claim, true);
    if (!this.queue.waiters.includes(waiter)) return;
    if (reply.kind === "held" || reply.kind === "delayed") this.#patience(waiter, waiter.request, waitMs);
    else {
      this.queue.leave(waiter);
      waiter.request.reply(reply);
    }
  }

  #patience(waiter: Waiter, request: Request, waitMs: number): void {
    this.timeline.after(waitMs, () => {
      if (waiter.request === request && this.queue.giveUp(waiter))
        request.reply(this.#take(waiter.claim, false));
    });
  }

  #take(claim: Claim, isQueued: boolean): Reply {
    const { outcome } = this.#step("acquire", acquireKeys(claim), (view, heirs) =>
      this.rules.acquire(view, claim, this.policy, heirs, isQueued),
    );
    if ("refused" in outcome) return refused(outcome, claim.name);
    const { id } = outcome.granted.lock.lease;
    if (id !== claim.leaseId) this.#heard.add(id);
    return granted(outcome.granted);
  }

  /** A waiting caller has closed its connection: what it was granted is taken back, unless it asks again. */
  gone(request: Request): void {
    const waiter = this.queue.waiters.find((one) => one.request === request);
    if (waiter !== undefined) this.queue.leave(waiter);
    const { call, id } = request;
    if (call.op !== "acquire" || waiter !== undefined) return;
    const ticket = ticketOf(claimOf(request.principal, call, request.id));
    const isGhost = (): boolean =>
      !this.#heard.has(id) && (ticket === null || this.#latest.get(ticket) === request);
    if (isGhost())
      this.timeline.after(ticket === null ? 0 : ticketMs, () => {
        if (isGhost()) this.#answer(request, { op: "release", name: call.name, lease: id });
      });
  }

  /** Settles what is over. */
  settle(): void {
    // A service with a planted bug may never be done.
    for (let more = true, steps = 0; more && steps < sweepsMax; steps++)
      more = this.#step("upkeep", [], (view, heirs) => this.rules.sweep(view, this.policy, heirs)).more;
  }

  /** Forgets what nobody needs any more. */
  clean(): void {
    this.#step("upkeep", [], (view) => this.rules.clean(view, this.policy));
  }

  /** Dies and comes back: whoever waited hears nothing more. */
  crash(): void {
    for (const { request } of this.queue.waiters.splice(0))
      request.reply({ kind: "unknown", why: "connection reset" });
    this.engine.crash();
  }

  /** One step of the engine; then whoever it served is told, and names that overlap a freed one are looked at. */
  #step<Reply>(
    about: About,
    keys: readonly Key[],
    decide: (view: View, heirs: Successors) => Decision<Reply>,
  ): Reply {
    const successors: Successors = (_, name, nth) => this.queue.nth(name, nth)?.claim;
    const { reply, events } = this.engine.transact(keys, (view) => decide(view, successors), about);
    if (typeof reply === "object" && reply !== null && "heirs" in reply)
      this.#serve(reply.heirs as readonly Heir[]);
    for (const event of events)
      if ((event.type === "released" || event.type === "expired") && hasOverlap(event.name))
        this.#afterFree(event.name);
    return reply;
  }

  #serve(heirs: readonly Heir[]): void {
    for (const { claim, outcome } of heirs) {
      const waiter = this.queue.waiters.find((one) => one.claim === claim);
      if (waiter === undefined) continue;
      this.queue.leave(waiter);
      waiter.request.reply("refused" in outcome ? refused(outcome, claim.name) : granted(outcome.granted));
    }
  }

  #afterFree(freed: string): void {
    const waited = new Set(this.queue.waiters.map(({ claim }) => claim.name));
    for (const name of waited)
      if (overlaps(name, freed) || overlaps(freed, name))
        this.#step("upkeep", [lockKey(space, name)], (view, successors) => {
          const decision = this.rules.serve(view, space, name, this.policy, successors);
          return "need" in decision ? decision : { ...decision, reply: { heirs: decision.reply } };
        });
  }
}

const lease = (principal: string, { name, lease }: { name: string; lease: string }) => ({
  space,
  name,
  principal,
  leaseId: lease,
});

const ticketOf = ({ principal, request }: Claim): string | null =>
  request === null ? null : `${principal} ${request.id}`;
