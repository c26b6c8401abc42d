/**
 * A store on data that several servers share. Calls that come in while a batch is on its way make up the next one: what all of
 * them need is read at one moment, they are decided one after the other, each seeing what those before it wrote, and what they
 * decided is committed in one step if nothing that they relied on has changed since. If something has, they are decided anew.
 */
import type { Ask, Decide, Decided, Range, RangeRow } from "../core/decision.js";
import type { Key } from "../core/keys.js";
import { roundsMax } from "../core/limits.js";
import { asksOf, type Call, type Pending } from "./batch.js";
import { BatchRoom, tooMuch } from "./batch-room.js";
import { BatchView, commitOf, decideList, Overlay, rangeName, Stale } from "./batch-view.js";
import { type Clocks, systemClocks, systemTimer, type Timer } from "./clock.js";
import { cursorOf, follow } from "./feed.js";
import { Gathering } from "./gathering.js";
import { Attempts, type Report, theStore } from "./report.js";
import { clockLagMs, clockLateMs, SharedClock } from "./shared-clock.js";
import type { Reading, SharedData } from "./shared-data.js";
import { SharedFeed } from "./shared-feed.js";
import {
  type Change,
  type Cursor,
  type ListRow,
  MovedError,
  type Store,
  StoreError,
  type StoreFacts,
} from "./store.js";
import { anchored, anchorsKey, WallAnchors } from "./wall-anchors.js";

/** Calls decided together at most: a batch must not take long to decide. */
const callsMax = 256;
/** A step that does not fit is decided again with half the room, down to this: one that works through many takes fewer then. */
const reliesLeast = 8;
/** How long a call is decided anew while others keep changing what it relies on, in ms. */
const contendMaxMs = 10_000;

export class SharedStore implements Store {
  readonly facts: StoreFacts;
  readonly #clock: SharedClock;
  readonly #feed: SharedFeed;
  readonly #anchors = new WallAnchors();
  #asked: Call[] = [];
  readonly #lanes = new Set<Key>();
  readonly #gathering = new Gathering();
  readonly #attempts: Attempts;
  readonly #moved = new AbortController();
  /** Some of those asked were decided before. */
  #hasAgain = false;
  #flying = 0;
  #isScheduled = false;
  #isClosed = false;
  #idle: (() => void) | undefined;
  /** Calls in the next batch at most: fewer after a commit of too many bytes. */
  #callsMax = callsMax;
  readonly #counts = { commits: 0, conflicts: 0, calls: 0 };

  constructor(
    readonly data: SharedData,
    report: Report = () => undefined,
    readonly clocks: Clocks = systemClocks,
    after: Timer = systemTimer,
  ) {
    const { engine, location, changesMax, comparesMax } = data.facts;
    this.#attempts = new Attempts(theStore, report);
    this.facts = {
      engine,
      location,
      order: "cluster",
      clockLagMs,
      lateMs: clockLateMs,
      keysMax: comparesMax,
      locksMax: changesMax,
      moved: this.#moved.signal,
      offsetAt: (at) => this.#anchors.offsetAt(at) ?? Math.round(clocks.wall()) - this.#clock.now(),
    };
    this.#clock = new SharedClock(
      clocks.monotonic,
      after,
      (from, to) => this.#tick(from, to),
      (error) => this.#failed(error),
    );
    this.#feed = new SharedFeed(data, after, (error) => this.#failed(error));
  }

  /** Resolves when the data can be used. */
  async open(): Promise<void> {
    const { clock, records } = await this.data.read([anchorsKey]);
    this.#clock.start(clock);
    this.#anchors.learn(records.get(anchorsKey)?.record ?? null);
    await this.#feed.start();
    if (this.#anchors.isEmpty) await this.#anchor(Math.round(this.clocks.wall()) - this.now());
  }

  async #tick(from: number, to: number): Promise<number> {
    const value = await this.data.tick(from, to);
    this.#attempts.worked();
    const offset = this.#clock.offset(this.clocks.wall());
    if (offset !== null && this.#anchors.isOff(offset) && !this.#isClosed) void this.#anchor(offset);
    return value;
  }

  /** The wall clock was set, or the clock has lost time: what is shown of times from now on follows it. */
  async #anchor(offset: number): Promise<void> {
    try {
      await this.transact([anchorsKey], (view) => {
        const record = anchored(view.get(anchorsKey) ?? null, view.now, offset);
        return { reply: undefined, writes: [{ key: anchorsKey, record, drop: [], add: [] }], events: [] };
      });
    } catch {
      // Tried again after the next move.
    }
  }

  /** The data does not answer, or not as it should. If it was moved, nothing more is asked of it, and everybody is told. */
  #failed(error: unknown): void {
    if (this.#isClosed || this.#moved.signal.aborted) return;
    this.#attempts.failed(error);
    if (!(error instanceof MovedError)) return;
    this.#moved.abort(error);
    this.#clock.close();
    this.#feed.close(error);
  }

  /** Why nothing can be asked here, or null. */
  #refusal(): StoreError | null {
    if (this.#isClosed) return closed();
    return this.#moved.signal.aborted ? this.#moved.signal.reason : null;
  }

  transact<Reply>(keys: readonly Key[], decide: Decide<Reply>, signal?: AbortSignal): Promise<Reply> {
    const refusal = this.#refusal() ?? (signal?.aborted ? cancelled() : null);
    if (refusal !== null) return Promise.reject(refusal);
    return new Promise((resolve, reject) => {
      this.#asked.push({
        decide,
        signal,
        resolve,
        reject,
        keys: new Set(keys),
        ranges: new Map(),
        lane: keys[0],
        until: this.clocks.monotonic() + contendMaxMs,
        rounds: 0,
        revision: 0,
        earliest: null,
        room: { relies: this.data.facts.comparesMax, changes: this.data.facts.changesMax },
      } as Call);
      this.#schedule();
    });
  }

  /** All that arrive in this turn of the event loop go together. */
  #schedule(): void {
    if (this.#isScheduled || this.#flying >= this.data.facts.lanesMax) return;
    if (this.#gathering.isFor(this.#asked.length)) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#launch();
    });
  }

  #launch(): void {
    const calls = this.#takeCalls();
    if (calls.length === 0) {
      if (this.#flying === 0) this.#idle?.();
      return;
    }
    this.#flying++;
    for (const { lane } of calls) if (lane !== undefined) this.#lanes.add(lane);
    const began = this.clocks.monotonic();
    void this.#run(calls).finally(() => {
      this.#flying--;
      // Not when no more can come, and nobody waits for others who is to be decided anew.
      const answered = this.#isClosed || this.#hasAgain ? 0 : calls.length;
      const tookMs = this.clocks.monotonic() - began;
      this.#gathering.begin(answered, tookMs, this.#asked.length, () => this.#schedule());
      for (const { lane } of calls) if (lane !== undefined) this.#lanes.delete(lane);
      if (this.#asked.length > 0) this.#schedule();
      else if (this.#flying === 0) this.#idle?.();
    });
    if (this.#asked.length > 0) this.#schedule();
  }

  #takeCalls(): Call[] {
    const taken: Call[] = [];
    const left: Call[] = [];
    const now = this.clocks.monotonic();
    for (const call of this.#asked)
      if (now > call.until) call.reject(late());
      else if (taken.length < this.#callsMax && (call.lane === undefined || !this.#lanes.has(call.lane)))
        taken.push(call);
      else left.push(call);
    this.#asked = left;
    this.#hasAgain = false;
    return taken;
  }

  /** One batch, from reading to its end. Never rejects. */
  async #run(calls: readonly Call[]): Promise<void> {
    let pending: readonly Pending[] = [];
    try {
      const { asks, named } = asksOf(calls);
      const reading = await this.#read(asks);
      this.#anchors.learn(reading.records.get(anchorsKey)?.record ?? null);
      pending = this.#decideAll(calls, reading, new Map(named(reading)));
      if (pending.length === 0) return;
      const end = await this.data.commit(commitOf(pending, reading));
      if (end === "too large") return this.#smaller(pending);
      if (end === "changed") {
        this.#counts.conflicts++;
        this.#again(pending.map(({ call }) => Object.assign(call, { rounds: 0, earliest: null })));
        return;
      }
      this.#callsMax = Math.min(callsMax, this.#callsMax * 2);
      this.#counts.commits++;
      for (const { call, decided } of pending) call.resolve(decided.reply);
      if (pending.some(({ decided }) => decided.events.length > 0)) this.#feed.ring();
    } catch (error) {
      const isOfStep = error instanceof StoreError && error.kind === "unsupported" && pending.length > 0;
      if (!isOfStep) this.#failed(error);
      // Those that were answered already, or put back, are not touched by a second answer.
      for (const { reject } of pending.length > 0 ? pending.map(({ call }) => call) : calls) reject(error);
    }
  }

  /** An answer that is late tells of the past, and what is decided by it counts from long after: it is asked for once more. */
  async #read(asks: readonly Ask[]): Promise<Reading> {
    for (let isAgain = false; ; isAgain = true) {
      const askedAt = this.clocks.monotonic();
      const reading = await this.data.read(asks);
      if (!isAgain && this.clocks.monotonic() - askedAt > clockLagMs) continue;
      this.#attempts.worked();
      this.#clock.heard(reading.clock, askedAt);
      return reading;
    }
  }

  /** Returns those that a commit must make true; the others were answered, or wait for the next batch. */
  #decideAll(
    calls: readonly Call[],
    reading: Reading,
    ranges: ReadonlyMap<string, readonly RangeRow[]>,
  ): Pending[] {
    const overlay = new Overlay();
    const pending: Pending[] = [];
    const later: Call[] = [];
    const room = new BatchRoom(this.data.facts.changesMax, this.data.facts.comparesMax);
    for (const call of calls) {
      this.#counts.calls++;
      const earliest = Math.min(call.earliest ?? reading.clock, reading.clock);
      call.earliest = earliest;
      const view = new BatchView(reading, ranges, overlay, call.room, this.#clock.now(), earliest);
      const decided = this.#decide(call, view, later);
      if (decided === null) continue;
      const isQuiet = decided.writes.length === 0 && decided.events.length === 0;
      if (isQuiet && !view.hasSeenOverlay) {
        call.resolve(decided.reply);
        continue;
      }
      if (room.take(decided, view) || (pending.length === 0 && this.#fitsAlone(decided, view))) {
        overlay.apply(decided.writes);
        pending.push({ call, view, decided });
      } else if (pending.length > 0) later.push(call);
      else this.#halve(call, later);
    }
    this.#again(later);
    return pending;
  }

  #fitsAlone(decided: Decided<unknown>, view: BatchView): boolean {
    const { changesMax, comparesMax, absentSpans } = this.data.facts;
    const isPossible = absentSpans !== undefined;
    return isPossible && new BatchRoom(changesMax, comparesMax).take(decided, view, absentSpans);
  }

  /** It does not fit alone: a step that works through many takes fewer when it may rely on less. */
  #halve(call: Call, later: Call[]): void {
    const { comparesMax, changesMax } = this.data.facts;
    const { relies, changes } = call.room;
    call.rounds = 0; // it asks for other ranges now
    call.room = { relies: Math.floor(relies / 2), changes: Math.floor(changes / 2) };
    if (call.room.relies < reliesLeast) call.reject(tooMuch(comparesMax, changesMax));
    else later.push(call);
  }

  /** Too many bytes for one commit: in smaller batches. */
  #smaller(pending: readonly Pending[]): void {
    this.#callsMax = Math.max(1, Math.floor(pending.length / 2));
    const later: Call[] = [];
    if (pending.length > 1) later.push(...pending.map(({ call }) => call));
    else for (const { call } of pending) this.#halve(call, later);
    this.#again(later);
  }

  /** null: it was refused, or must wait for more. */
  #decide(call: Call, view: BatchView, later: Call[]): Decided<unknown> | null {
    try {
      if (call.signal?.aborted) throw cancelled();
      const decision = call.decide(view);
      if (!("need" in decision)) return decision;
      // What others left it, in this batch or since the last, may be another row each time: that is no round of its own.
      if (view.reading.revision !== call.revision) call.rounds = 0;
      call.revision = view.reading.revision;
      if (!view.hasSeenOverlay && ++call.rounds >= roundsMax)
        throw new StoreError("unsupported", `a decision asked for more than ${roundsMax} rounds of records`);
      for (const ask of decision.need)
        if (typeof ask === "string") call.keys.add(ask);
        else call.ranges.set(rangeName(ask), ask);
      later.push(call);
    } catch (error) {
      if (error instanceof Stale) later.push(call);
      else call.reject(error);
    }
    return null;
  }

  /** Decided anew in the next batch, before what came later. */
  #again(calls: readonly Call[]): void {
    const now = this.clocks.monotonic();
    const isLate = ({ until }: Call): boolean => now > until;
    for (const { reject } of calls.filter(isLate))
      reject(new StoreError("contended", "others kept changing the same records: try again"));
    this.#hasAgain ||= calls.length > 0;
    this.#asked.unshift(...calls.filter((call) => !isLate(call)));
  }

  async list(range: Range): Promise<readonly ListRow[]> {
    return this.transact([], decideList(range));
  }

  changes(after: Cursor | undefined, signal: AbortSignal): AsyncIterable<Change> {
    return after === undefined ? follow(this.#feed, after, signal) : this.#resumed(after, signal);
  }

  /** The place may be one that another server told, of an event that this one has not read yet. */
  async *#resumed(after: Cursor, signal: AbortSignal): AsyncGenerator<Change> {
    await this.#feed.catchUp();
    yield* follow(this.#feed, after, signal);
  }

  async head(): Promise<Cursor> {
    const refusal = this.#refusal();
    if (refusal !== null) throw refusal;
    return cursorOf(this.data.epoch, await this.data.lastEvent());
  }

  now(): number {
    return this.#clock.now();
  }

  async ping(): Promise<void> {
    const refusal = this.#refusal();
    if (refusal !== null) throw refusal;
    await this.data.read([]).catch((error) => {
      this.#failed(error);
      throw error;
    });
  }

  async gauges(): Promise<Readonly<Record<string, number>>> {
    const { commits, conflicts, calls } = this.#counts;
    return {
      commits_total: commits,
      conflicts_total: conflicts,
      decided_total: calls,
      clock_lag_ms: clockLagMs,
      ...(await this.data.gauges()),
    };
  }

  async backup(): Promise<void> {
    throw new StoreError(
      "unsupported",
      `data in ${this.facts.engine} is backed up with its own tools: see docs/operations.md`,
    );
  }

  /** Finishes what was asked for and takes nothing new. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    if (this.#flying > 0 || this.#asked.length > 0)
      await new Promise<void>((resolve) => {
        this.#idle = resolve;
      });
    this.#clock.close();
    this.#feed.close();
    await this.data.close();
  }
}

/** Those before it took their time: the data hardly answers, or not at all. */
const late = (): StoreError => new StoreError("unavailable", "its turn did not come in time: try again");
const closed = (): StoreError => new StoreError("closed", "the store was closed");
const cancelled = (): StoreError => new StoreError("unavailable", "cancelled before it was decided");
