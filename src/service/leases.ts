/**
 * The lease service: what every face calls. It turns calls into steps; waiting and upkeep stand beside it. No
 * lease rule is here; they are in core/.
 */
import { randomBytes } from "node:crypto";
import { setMaxListeners } from "node:events";
import { type AcquireFirstReply, decideAcquireFirst } from "../core/acquire.js";
import type { Decision, Range, View } from "../core/decision.js";
import { acquireKeys } from "../core/heirs.js";
import { decideInspect, type InspectReply } from "../core/inspect.js";
import { afterPrefix, everySpace, floorKey, type Key, lockKey, sessionKey, sortable } from "../core/keys.js";
import { type Claim, holdingOf, quietUntil, type Unheard } from "../core/lease.js";
import type { Policy } from "../core/limits.js";
import type { NodeEvent } from "../core/nodes/records.js";
import type { FeedEvent, LockRecord, SessionRecord } from "../core/records.js";
import { type Holding, isUndecided } from "../core/refusal.js";
import {
  decideForceRelease,
  decideRelease,
  type ForceRelease,
  type ForceReleaseReply,
  type Release,
  type ReleaseReply,
} from "../core/release.js";
import {
  decideExtend,
  decideRenew,
  decideRenewMany,
  type LeaseCall,
  leaseCallKeys,
  type Renewal,
  type RenewReply,
} from "../core/renew.js";
import { systemTimer, type Timer } from "../store/clock.js";
import type { Report } from "../store/report.js";
import { StepTooLargeError, type Store } from "../store/store.js";
import { bySteps, stepMaxOf } from "./bulk.js";
import { Lines } from "./lines.js";
import { type QueueLimits, Queues } from "./queues.js";
import { ReadyPlaces } from "./ready-places.js";
import { SessionCalls } from "./session-calls.js";
import { heirsOf, Steps } from "./steps.js";
import { Upkeep } from "./upkeep.js";
import { type Acquired, type Wait, Waiting } from "./waiting.js";

export interface ListQuery {
  readonly space: string;
  readonly prefix: string;
  readonly after: string | null;
  readonly limit: number;
  readonly accept: (lock: LockRecord) => boolean;
}

export interface ListPage {
  readonly holdings: readonly Holding[];
  /** Where the next page begins, or null. */
  readonly next: string | null;
}

/** Held names looked at for one page of a filtered list; a page may be short, its cursor goes on. */
const listScanMax = 4096;
const listChunk = 512;
/** A lease, and perhaps its session. */
const reliesOfRenewal = 2;

export class Leases {
  readonly queues: Queues;
  readonly sessions: SessionCalls;
  readonly upkeep: Upkeep;
  readonly counters = { granted: 0, refused: 0, released: 0 };
  readonly readyPlaces = new ReadyPlaces();
  /** Told when a node can be taken from now on; null: any of them may be. */
  whenReady: (event: NodeEvent | null) => void = () => undefined;
  readonly #steps: Steps;
  readonly #waiting: Waiting;
  readonly #lines: Lines;
  readonly #closing = new AbortController();
  #quietUntil = 0;

  constructor(
    readonly store: Store,
    readonly policy: Policy,
    limits: QueueLimits,
    readonly report: Report,
    after: Timer = systemTimer,
  ) {
    const stopping = this.#closing.signal;
    setMaxListeners(0, stopping); // every waiter listens
    const { moved } = store.facts;
    moved?.addEventListener("abort", () => this.#closing.abort(moved.reason));
    const isShared = store.facts.order === "cluster";
    this.queues = new Queues(limits, after, isShared ? randomBytes(4).toString("hex") : null);
    this.#steps = new Steps(store, this.queues, {
      due: (index, at) => this.upkeep.notice(index, at),
      ghost: (heir) => this.#waiting.unheard.ghost(heir),
      ready: (sort) => this.readyPlaces.put(sort),
      failed: () => this.readyPlaces.forget(),
      unserved: (claim) => this.#lines.recount(claim),
    });
    const ready = (event: NodeEvent | null): void => this.whenReady(event);
    this.#lines = new Lines(this.#steps, this.queues, policy, stopping, report, after, (space, name) =>
      this.upkeep.serve(space, name, true),
    );
    this.upkeep = new Upkeep(
      store,
      this.#steps,
      this.queues,
      this.#lines,
      policy,
      stopping,
      report,
      after,
      ready,
    );
    this.#waiting = new Waiting(
      this.#steps,
      this.queues,
      policy,
      stopping,
      (claim, unheard) => this.#giveBack(claim, unheard),
      (at) => this.upkeep.quietUntil(at),
      after,
      (claim) => this.#lines.placeOf(claim),
    );
    this.sessions = new SessionCalls(this.#steps, policy);
  }

  /** Begins to look after what is in the store already; on a cluster, once it counts as one of its servers. */
  start(): Promise<void> {
    if (this.queues.peerId !== null) return this.#lines.start().then(() => this.upkeep.start());
    this.upkeep.start();
    return Promise.resolve();
  }

  /** On a cluster: nobody has to wait until this server counts as gone. */
  leave(): Promise<void> {
    return this.store.facts.moved?.aborted ? Promise.resolve() : this.#lines.leave();
  }

  /**
   * A step that no waiter for a name is served by: the work graph's, whose names none can wait for. What it granted and
   * ended is counted by its events, since many kinds of steps do either, and a repeat does neither.
   */
  run<Reply>(keys: readonly Key[], decide: (view: View) => Decision<Reply>): Promise<Reply> {
    let events: readonly FeedEvent[] = [];
    const noting = (view: View): Decision<Reply> => {
      const decision = decide(view);
      if (!("need" in decision)) events = decision.events;
      return decision;
    };
    return this.#steps
      .run(keys, noting, () => [])
      .then((reply) => {
        for (const { type } of events)
          if (type === "acquired") this.counters.granted++;
          else if (type === "released") this.counters.released++;
        return reply;
      });
  }

  /** Aborted when the server stops, or its data was moved: who waits or listens is sent away. */
  get stopping(): AbortSignal {
    return this.#closing.signal;
  }

  /** Learns whether the data was restored: once, since that is only done while no server runs. */
  async noticeRestore(): Promise<void> {
    const key = floorKey(everySpace);
    const floor = await this.store.transact([key], (view) => ({
      reply: view.get(key) ?? null,
      writes: [],
      events: [],
    }));
    this.#quietUntil = quietUntil(floor, this.store.now());
  }

  /** How long nothing is granted yet in some space after a restore, in ms. */
  quietMs(): number {
    return Math.max(0, this.#quietUntil - this.store.now());
  }

  /** Acquires, waiting if asked to. */
  async acquire(claim: Claim, wait: Wait | null): Promise<Acquired> {
    const acquired = await this.#waiting.acquire(claim, wait);
    if ("granted" in acquired.outcome) this.counters.granted++;
    else this.counters.refused++;
    return acquired;
  }

  /** The reply to a granted waiter could not be written: the grant is taken back. */
  unheard(claim: Claim, granted: Holding): void {
    this.#waiting.unheard.unwritten(claim, granted);
  }

  /** Tries the claims in order; grants at most one. */
  async acquireFirst(claims: readonly Claim[]): Promise<AcquireFirstReply> {
    const reply = await this.#firstOf(claims);
    if (reply.granted !== null) this.counters.granted++;
    else this.counters.refused++;
    return reply;
  }

  /** In one step; candidates that are too many for one are tried half of them after the other. */
  async #firstOf(claims: readonly Claim[]): Promise<AcquireFirstReply> {
    try {
      const reply = await this.#steps.run(
        claims.flatMap(acquireKeys),
        (view, successors) => decideAcquireFirst(view, claims, this.policy, successors),
        heirsOf,
      );
      const isOpen = reply.refusals.some(({ refusal }) => isUndecided(refusal));
      return isOpen ? await this.#firstOf(claims) : reply;
    } catch (error) {
      if (!(error instanceof StepTooLargeError) || claims.length < 2) throw error;
      const half = Math.ceil(claims.length / 2);
      const first = await this.#firstOf(claims.slice(0, half));
      const isOver = first.refusals.some(({ refusal }) => refusal.refused.startsWith("request_"));
      if (first.granted !== null || isOver) return first;
      const second = await this.#firstOf(claims.slice(half));
      return { ...second, refusals: [...first.refusals, ...second.refusals] };
    }
  }

  async renew(call: Renewal): Promise<RenewReply["outcome"]> {
    this.#waiting.unheard.named(call.leaseId);
    return (
      await this.#steps.run(
        leaseCallKeys(call),
        (view, heirs) => decideRenew(view, call, this.policy, heirs),
        heirsOf,
      )
    ).outcome;
  }

  async renewMany(calls: readonly Renewal[]): Promise<readonly RenewReply["outcome"][]> {
    const replies = await bySteps(calls, stepMaxOf(this.store, reliesOfRenewal), (some) =>
      this.#steps.run(
        some.flatMap(leaseCallKeys),
        (view, heirs) => decideRenewMany(view, some, this.policy, heirs),
        (many) => many.flatMap((reply) => reply.heirs),
      ),
    );
    return replies.map((reply) => reply.outcome);
  }

  async extend(call: LeaseCall & { readonly ttlMs: number }): Promise<RenewReply["outcome"]> {
    return (
      await this.#steps.run(
        leaseCallKeys(call),
        (view, heirs) => decideExtend(view, call, this.policy, heirs),
        heirsOf,
      )
    ).outcome;
  }

  async release(call: Release): Promise<ReleaseReply["outcome"]> {
    const { outcome } = await this.#steps.run(
      leaseCallKeys(call),
      (view, heirs) => decideRelease(view, call, this.policy, heirs),
      heirsOf,
    );
    if ("released" in outcome) this.counters.released++;
    return outcome;
  }

  async forceRelease(call: ForceRelease): Promise<ForceReleaseReply> {
    const reply = await this.#steps.run(
      [lockKey(call.space, call.name), floorKey(call.space), floorKey(everySpace)],
      (view, heirs) => decideForceRelease(view, call, this.policy, heirs),
      heirsOf,
    );
    if (reply.ended !== null) this.counters.released++;
    return reply;
  }

  inspect(space: string, name: string): Promise<InspectReply> {
    return this.#steps.run(
      [lockKey(space, name), floorKey(space), floorKey(everySpace)],
      (view, heirs) => decideInspect(view, space, name, this.policy, heirs),
      heirsOf,
    );
  }

  /** Held names in order. What is over is settled first, so the list never shows it. */
  async list(query: ListQuery): Promise<ListPage> {
    await this.upkeep.settleDue();
    const prefix = `${query.space}/${sortable(query.prefix)}`;
    const holdings: Holding[] = [];
    // A cursor of another list must not lead out of the prefix.
    let from = query.after === null || query.after < prefix ? prefix : `${query.after}\u0000`;
    for (let scanned = 0; scanned < listScanMax; ) {
      const range: Range = {
        index: "held",
        from,
        to: afterPrefix(prefix),
        limit: Math.min(listChunk, query.limit + 1),
      };
      const rows = await this.store.list(range);
      const sessions = await this.#sessionsOf(
        rows.flatMap(({ record }) => (record.kind === "lock" ? [record] : [])),
      );
      for (const { sort, record } of rows) {
        if (holdings.length === query.limit) return { holdings, next: from.slice(0, -1) };
        from = `${sort}\u0000`;
        scanned++;
        if (record.kind !== "lock" || record.lease === null || !query.accept(record)) continue;
        const session =
          record.lease.sessionId === null ? null : (sessions.get(record.lease.sessionId) ?? null);
        holdings.push(holdingOf(record, session, this.store.now()));
      }
      if (rows.length < range.limit) return { holdings, next: null };
    }
    return { holdings, next: from.slice(0, -1) };
  }

  async #sessionsOf(locks: readonly LockRecord[]): Promise<Map<string, SessionRecord>> {
    const wanted = new Map<string, string>();
    for (const { lease, space } of locks) if (lease?.sessionId) wanted.set(lease.sessionId, space);
    const found = new Map<string, SessionRecord>();
    if (wanted.size === 0) return found;
    const keys = [...wanted].map(([id, space]) => sessionKey(space, id));
    await this.store.transact(keys, (view) => {
      for (const key of keys) {
        const session = view.get(key);
        if (session) found.set(session.id, session);
      }
      return { reply: undefined, writes: [], events: [] };
    });
    return found;
  }

  #giveBack({ space, name, principal, leaseId }: Claim, unheard: Unheard): void {
    const call: Release = {
      ...{ space, name, principal, leaseId, unheard },
      ...{ outcome: null, note: null, repeatable: false },
    };
    this.release(call).catch((error: unknown) => this.report("taking back a grant", error));
  }

  /** Tells waiters to come back; stops the timers. */
  close(): void {
    this.#closing.abort();
  }
}
