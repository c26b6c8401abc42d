/**
 * The lease service: what every face calls. It turns calls into steps, lets callers wait their turn, and sees to
 * it that what is over is settled in time. No lease rule is here; they are in core/.
 */
import { type AcquireFirstReply, decideAcquire, decideAcquireFirst } from "../core/acquire.js";
import type { Range } from "../core/decision.js";
import { acquireKeys, type Heir } from "../core/heirs.js";
import { decideInspect, decideServe, type InspectReply } from "../core/inspect.js";
import { afterPrefix, floorKey, lockKey, sessionKey, sortable } from "../core/keys.js";
import { type Claim, holdingOf } from "../core/lease.js";
import type { Policy } from "../core/limits.js";
import { hasOverlap } from "../core/names.js";
import type { LockRecord, SessionRecord } from "../core/records.js";
import type { Holding, Refusal } from "../core/refusal.js";
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
import { decideClean, decideSweep } from "../core/sweep.js";
import { type Store, StoreError } from "../store/store.js";
import { Alarm } from "./alarm.js";
import { type QueueLimits, Queues, type Waiter, type WaitOutcome } from "./queues.js";
import { SessionCalls } from "./session-calls.js";
import { Steps } from "./steps.js";

/** How long a caller will wait, and how it says that it left. */
export interface Wait {
  readonly ms: number;
  /** Aborted when nobody listens any more. */
  readonly gone: AbortSignal;
}

export interface Acquired {
  readonly outcome: { readonly granted: Holding } | Refusal;
  readonly waiters: number;
  /** Place in line that a waiter with a request id keeps. */
  readonly position?: number;
}

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

interface Turn {
  readonly over: Promise<WaitOutcome | Error | "timeout">;
  readonly stop: () => void;
  /** False once a repeat of the request took the place over. */
  readonly isMine: () => boolean;
}

export interface LeaseCounters {
  granted: number;
  refused: number;
  expired: number;
  released: number;
  cleaned: number;
}

/** Held names looked at for one page of a filtered list; a page may be short, its cursor goes on. */
const listScanMax = 4096;
const listChunk = 512;

export class Leases {
  readonly queues: Queues;
  readonly sessions: SessionCalls;
  readonly counters: LeaseCounters = { granted: 0, refused: 0, expired: 0, released: 0, cleaned: 0 };
  readonly #steps: Steps;
  readonly #sweep: Alarm;
  readonly #clean: Alarm;
  readonly #closing = new AbortController();
  /** Grants that reached nobody, by ticket: taken back unless the request is repeated. */
  readonly #ghosts = new Map<string, NodeJS.Timeout>();

  constructor(
    readonly store: Store,
    readonly policy: Policy,
    limits: QueueLimits,
    readonly report: (what: string, error: unknown) => void,
  ) {
    this.queues = new Queues(limits);
    const now = (): number => store.now();
    this.#sweep = new Alarm(
      now,
      () => this.#runSweep(),
      (error) => report("settling what is over failed; will try again", error),
    );
    this.#clean = new Alarm(
      now,
      () => this.#runClean(),
      (error) => report("cleaning up failed; will try again", error),
    );
    this.#steps = new Steps(
      store,
      this.queues,
      (index, at) => (index === "due" ? this.#sweep : this.#clean).set(at),
      (heir) => this.#ghost(heir),
    );
    this.sessions = new SessionCalls(this.#steps, policy);
  }

  /** Begins to look after what is in the store already. */
  start(): void {
    this.#sweep.set(0);
    this.#clean.set(0);
    void this.#followFrees();
  }

  /** Acquires, waiting if asked to. */
  async acquire(claim: Claim, wait: Wait | null): Promise<Acquired> {
    this.#unghost(claim);
    if (wait === null || wait.ms === 0) return this.#acquireNow(claim);
    const earlier = this.queues.withTicketOf(claim);
    if (earlier === undefined) {
      const full = this.queues.full(claim);
      if (full !== null) {
        const now = await this.#acquireNow(claim);
        if ("granted" in now.outcome) return now;
        throw new StoreError("unavailable", `${full}: try again later, or without wait_seconds`);
      }
    } else if (earlier.claim.request?.fingerprint !== claim.request?.fingerprint)
      return { outcome: { refused: "request_reused" }, waiters: 0 };
    return this.#wait(claim, wait);
  }

  async #acquireNow(claim: Claim): Promise<Acquired> {
    const { outcome } = await this.#steps.run(
      acquireKeys(claim),
      (view, successors) => decideAcquire(view, claim, this.policy, successors),
      heirsOf,
    );
    return this.#answer(claim, outcome);
  }

  #answer(claim: Claim, outcome: Acquired["outcome"]): Acquired {
    if ("granted" in outcome) this.counters.granted++;
    else this.counters.refused++;
    return { outcome, waiters: "granted" in outcome ? 0 : this.queues.count(claim.space, claim.name) };
  }

  /** Stands in line before it looks, so that no release can slip through in between. */
  async #wait(asked: Claim, wait: Wait): Promise<Acquired> {
    const waiter = this.#standInLine(asked);
    const { claim } = waiter;
    const turn = this.#turnOf(waiter, wait);
    try {
      const { outcome } = await this.#steps.run(
        acquireKeys(claim),
        (view, successors) => decideAcquire(view, claim, this.policy, successors, true),
        heirsOf,
      );
      if (!isWaitable(outcome)) return this.#answer(claim, outcome);
      const result = await turn.over;
      if (result === "timeout") return await this.#timedOut(waiter);
      if (result instanceof Error) throw result;
      return this.#answer(claim, result);
    } finally {
      turn.stop();
      // Only a place that is kept for a ticket outlives the call.
      if (!waiter.gone && turn.isMine()) this.queues.leave(waiter);
    }
  }

  /** A new place, or the one that the same request id took before. */
  #standInLine(claim: Claim): Waiter {
    const waiter = this.queues.withTicketOf(claim);
    if (waiter === undefined) return this.queues.join(claim);
    clearTimeout(waiter.forgetTimer);
    waiter.settle(
      new StoreError("unavailable", "the same request id came again and took over the place in line"),
    );
    waiter.gone = false;
    if (waiter.presence === "absent") waiter.presence = "present";
    return waiter;
  }

  /** Resolves when the waiter was served, its time is up, it left, or the server stops. */
  #turnOf(waiter: Waiter, wait: Wait): Turn {
    const stopping = this.#closing.signal;
    let stop = (): void => undefined;
    const over = new Promise<WaitOutcome | Error | "timeout">((resolve) => {
      const timer = setTimeout(() => {
        // A grant that is on its way arrives with the next commit.
        if (waiter.presence !== "offered") resolve("timeout");
      }, wait.ms);
      const left = (): void => {
        this.queues.abandon(waiter);
        resolve(new StoreError("unavailable", "the caller left"));
      };
      const stopped = (): void =>
        resolve(new StoreError("unavailable", "the server is stopping: repeat with the same request id"));
      wait.gone.addEventListener("abort", left, { once: true });
      stopping.addEventListener("abort", stopped, { once: true });
      waiter.settle = resolve;
      stop = () => {
        clearTimeout(timer);
        wait.gone.removeEventListener("abort", left);
        stopping.removeEventListener("abort", stopped);
      };
      if (wait.gone.aborted) left();
      if (stopping.aborted) stopped();
    });
    const settle = waiter.settle;
    return { over, stop, isMine: () => waiter.settle === settle };
  }

  /** The wait was in vain: one last look, and a ticket keeps its place. */
  async #timedOut(waiter: Waiter): Promise<Acquired> {
    const position = this.queues.position(waiter);
    this.queues.abandon(waiter);
    const last = await this.#acquireNow(waiter.claim);
    if ("granted" in last.outcome) this.queues.leave(waiter);
    return this.queues.of(waiter.claim) === undefined ? last : { ...last, position };
  }

  /** Tries the claims in order; grants at most one. */
  async acquireFirst(claims: readonly Claim[]): Promise<AcquireFirstReply> {
    const reply = await this.#steps.run(
      claims.flatMap(acquireKeys),
      (view, successors) => decideAcquireFirst(view, claims, this.policy, successors),
      heirsOf,
    );
    if (reply.granted !== null) this.counters.granted++;
    else this.counters.refused++;
    return reply;
  }

  async renew(call: Renewal): Promise<RenewReply["outcome"]> {
    return (
      await this.#steps.run(
        leaseCallKeys(call),
        (view, heirs) => decideRenew(view, call, this.policy, heirs),
        heirsOf,
      )
    ).outcome;
  }

  async renewMany(calls: readonly Renewal[]): Promise<readonly RenewReply["outcome"][]> {
    const replies = await this.#steps.run(
      calls.flatMap(leaseCallKeys),
      (view, heirs) => decideRenewMany(view, calls, this.policy, heirs),
      (many) => many.flatMap((reply) => reply.heirs),
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

  forceRelease(call: ForceRelease): Promise<ForceReleaseReply> {
    return this.#steps.run(
      [lockKey(call.space, call.name), floorKey(call.space)],
      (view, heirs) => decideForceRelease(view, call, this.policy, heirs),
      heirsOf,
    );
  }

  inspect(space: string, name: string): Promise<InspectReply> {
    return this.#steps.run(
      [lockKey(space, name), floorKey(space)],
      (view, heirs) => decideInspect(view, space, name, this.policy, heirs),
      heirsOf,
    );
  }

  /** Held names in order. What is over is settled first, so the list never shows it. */
  async list(query: ListQuery): Promise<ListPage> {
    await this.#settleDue();
    const prefix = `${query.space}/${sortable(query.prefix)}`;
    const holdings: Holding[] = [];
    let from = query.after === null ? prefix : `${query.after}\u0000`;
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

  async #settleDue(): Promise<void> {
    for (let more = true; more; ) {
      const reply = await this.#steps.run(
        [],
        (view, heirs) => decideSweep(view, this.policy, heirs),
        heirsOf,
      );
      this.counters.expired += reply.settled;
      more = reply.more;
    }
  }

  async #runSweep(): Promise<number | null> {
    await this.#settleDue();
    return this.#firstInstant("due");
  }

  async #runClean(): Promise<number | null> {
    for (let more = true; more && !this.#closing.signal.aborted; ) {
      const reply = await this.store.transact([], (view) => decideClean(view, this.policy));
      this.counters.cleaned += reply.removed;
      more = reply.more;
    }
    return this.#firstInstant("gc");
  }

  async #firstInstant(index: "due" | "gc"): Promise<number | null> {
    const [row] = await this.store.list({ index, from: "", to: "\x7f", limit: 1 });
    return row === undefined ? null : Number(row.sort.slice(0, 16));
  }

  /** Serves queues whose names others' steps freed: names that overlap, and on a cluster every name. */
  async #followFrees(): Promise<void> {
    const { signal } = this.#closing;
    try {
      for await (const change of this.store.changes(undefined, signal)) {
        if (this.queues.size === 0) continue;
        if ("reset" in change) await this.#serveAll();
        else if (change.event.type === "released" || change.event.type === "expired")
          await this.#serveAfter(change.event.space, change.event.name);
      }
    } catch (error) {
      if (signal.aborted) return;
      this.report("following the change feed failed; will try again", error);
      setTimeout(() => void this.#followFrees(), 250).unref();
    }
  }

  async #serveAfter(space: string, freed: string): Promise<void> {
    if (this.store.facts.order === "cluster" && this.queues.count(space, freed) > 0)
      await this.#serve(space, freed);
    if (!hasOverlap(freed)) return;
    for (const name of this.queues.overlapping(space, freed)) await this.#serve(space, name);
  }

  async #serveAll(): Promise<void> {
    const names = new Map<string, Claim>();
    for (const waiter of this.queues.all()) names.set(waiter.queueName, waiter.claim);
    for (const claim of names.values()) await this.#serve(claim.space, claim.name);
  }

  async #serve(space: string, name: string): Promise<void> {
    await this.#steps.run(
      [lockKey(space, name), floorKey(space)],
      (view, heirs) => decideServe(view, space, name, this.policy, heirs),
      (heirs) => heirs,
    );
  }

  /** A grant whose waiter has left: taken back at once, or when its request id does not come again. */
  #ghost(heir: Heir): void {
    if ("refused" in heir.outcome) return;
    const { claim } = heir;
    const ticket = ticketOf(claim);
    if (ticket === null) void this.giveBack(claim);
    else
      this.#ghosts.set(
        ticket,
        setTimeout(() => void this.giveBack(claim), this.queues.limits.ticketMs).unref(),
      );
  }

  #unghost(claim: Claim): void {
    const ticket = ticketOf(claim);
    if (ticket === null) return;
    clearTimeout(this.#ghosts.get(ticket));
    this.#ghosts.delete(ticket);
  }

  /** Releases a lease that its claimer never learnt of. */
  async giveBack(claim: Claim): Promise<void> {
    this.#unghost(claim);
    const { space, name, principal, leaseId } = claim;
    await this.release({
      space,
      name,
      principal,
      leaseId,
      outcome: null,
      note: null,
      repeatable: false,
    }).catch((error: unknown) => this.report("taking back a grant failed; it will expire", error));
  }

  /** The reply to a granted waiter could not be written. */
  unheard(claim: Claim, granted: Holding): void {
    if (granted.lock.lease.id === claim.leaseId) this.#ghost({ claim, outcome: { granted } });
  }

  /** Tells waiters to come back; stops the timers. */
  close(): void {
    this.#closing.abort();
    this.#sweep.close();
    this.#clean.close();
    for (const timer of this.#ghosts.values()) clearTimeout(timer);
  }
}

const heirsOf = (reply: { readonly heirs: readonly Heir[] }): readonly Heir[] => reply.heirs;

const ticketOf = (claim: Claim): string | null =>
  claim.request === null ? null : `${claim.space}/${claim.principal}/${claim.request.id}`;

const isWaitable = (outcome: object): boolean =>
  "refused" in outcome &&
  (outcome.refused === "held" || outcome.refused === "delayed" || outcome.refused === "queued");
