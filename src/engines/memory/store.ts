/**
 * The memory engine: one process, nothing kept. For tests, simulations and trying things out. Handles of the
 * same `MemoryData` share it as two processes share a database.
 */
import { randomBytes } from "node:crypto";
import type { Ask, Decide, Range } from "../../core/decision.js";
import type { Key } from "../../core/keys.js";
import type { AnyRecord } from "../../core/records.js";
import { type Clocks, systemClocks } from "../../store/clock.js";
import { Bell, cursorOf, type FeedSource, follow, type NumberedEvent } from "../../store/feed.js";
import { Ordered } from "../../store/ordered.js";
import { decideInRounds, LoadedView } from "../../store/rounds.js";
import {
  type Change,
  type Cursor,
  type ListRow,
  noBounds,
  type Store,
  StoreError,
  type StoreFacts,
} from "../../store/store.js";

/** What handles share. */
export class MemoryData {
  readonly ordered = new Ordered();
  readonly bell = new Bell();
  readonly #events: NumberedEvent[] = [];
  #last = 0;

  constructor(
    readonly clocks: Clocks = systemClocks,
    readonly eventsMax = 100_000,
    readonly epoch = randomBytes(6).toString("hex"),
  ) {}

  last(): number {
    return this.#last;
  }

  read(after: number, limit: number): readonly NumberedEvent[] | null {
    const first = this.#events[0]?.number ?? this.#last + 1;
    if (after + 1 < first) return null;
    return this.#events.slice(after + 1 - first, after + 1 - first + limit);
  }

  append(events: readonly NumberedEvent["event"][]): void {
    for (const event of events) this.#events.push({ number: ++this.#last, event });
    if (this.#events.length > this.eventsMax * 1.1)
      this.#events.splice(0, this.#events.length - this.eventsMax);
    if (events.length > 0) this.bell.ring();
  }
}

export class MemoryStore implements Store, FeedSource {
  readonly facts: StoreFacts = {
    engine: "memory",
    location: "memory of this process; gone when it stops",
    order: "node",
    ...noBounds,
  };
  #closed = false;

  constructor(readonly data: MemoryData = new MemoryData()) {}

  async transact<Reply>(keys: readonly Key[], decide: Decide<Reply>, signal?: AbortSignal): Promise<Reply> {
    this.#check(signal);
    const { ordered } = this.data;
    const view = new LoadedView(this.now());
    const decision = decideInRounds(view, keys, decide, (ask: Ask) => {
      if (typeof ask === "string") view.addRecord(ask, this.#record(ask));
      else view.addRange(ask, ordered.range(ask));
    });
    ordered.apply(decision.writes, 0);
    ordered.forgetGone(decision.writes);
    this.data.append(decision.events);
    return decision.reply;
  }

  async list(range: Range): Promise<readonly ListRow[]> {
    this.#check();
    return this.data.ordered.range(range).flatMap(({ sort, key }) => {
      const record = this.#record(key);
      return record === null ? [] : [{ sort, record }];
    });
  }

  changes(after: Cursor | undefined, signal: AbortSignal): AsyncIterable<Change> {
    return follow(this, after, signal);
  }

  get epoch(): string {
    return this.data.epoch;
  }

  last(): number {
    return this.data.last();
  }

  read(after: number, limit: number): readonly NumberedEvent[] | null {
    this.#check();
    return this.data.read(after, limit);
  }

  more(after: number, signal: AbortSignal): Promise<void> {
    return this.data.bell.wait(() => this.#closed || this.data.last() > after, signal);
  }

  async head(): Promise<Cursor> {
    this.#check();
    return cursorOf(this.data.epoch, this.data.last());
  }

  now(): number {
    return Math.floor(this.data.clocks.monotonic());
  }

  async ping(): Promise<void> {
    this.#check();
  }

  async gauges(): Promise<Readonly<Record<string, number>>> {
    return { records: this.data.ordered.records.size };
  }

  async backup(): Promise<void> {
    throw new StoreError("unsupported", "the memory store cannot be backed up; serve from a file instead");
  }

  async close(): Promise<void> {
    this.#closed = true;
    // Wakes the followers of this handle to find it closed; the others go on waiting.
    this.data.bell.ring();
  }

  #record(key: Key): AnyRecord | null {
    return this.data.ordered.records.get(key)?.value ?? null;
  }

  #check(signal?: AbortSignal): void {
    if (this.#closed) throw new StoreError("closed", "the store was closed");
    if (signal?.aborted) throw new StoreError("unavailable", "the request was cancelled before it began");
  }
}
