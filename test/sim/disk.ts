// A disk that survives its server, and a store on it that can fail and be cut off at any moment. The memory engine
// carries out every decision; what it did becomes durable in commits, one after the other, each of which gathers
// what was decided while the one before was on its way. A reply leaves when everything it rests on is durable. A
// commit that fails takes along all that was built on it, and memory is made anew from the disk.
import type { Decide, Decided, Range } from "../../src/core/decision.js";
import { indexEntries, type Key } from "../../src/core/keys.js";
import { MemoryData, MemoryStore } from "../../src/engines/memory/store.js";
import { EngineClock } from "../../src/engines/sqlite/engine-clock.js";
import type { Clocks } from "../../src/store/clock.js";
import { Bell, cursorOf, type FeedSource, follow, type NumberedEvent } from "../../src/store/feed.js";
import {
  type Change,
  type Cursor,
  type ListRow,
  noBounds,
  type Store,
  StoreError,
  type StoreErrorKind,
  type StoreFacts,
} from "../../src/store/store.js";

/** What becomes of a commit. */
export type Fate = "durable" | "unknown, written" | "unknown, not written" | "refused";

/** What the run does to the disk, asked at each commit. */
export interface DiskWeather {
  readonly commitMs: () => number;
  readonly fate: () => Fate;
  readonly reopenMs: () => number;
  /** Whether a commit on its way when the server dies reaches the disk. */
  readonly survives: () => boolean;
}

/** A decision with what called for it. */
export interface Deed {
  readonly decided: Decided<unknown>;
  readonly cause: unknown;
  /** When it was decided, in the run's time. */
  readonly at: number;
}

/** Told of every deed in the moment before it is durable, and of what became of commits. */
export interface DiskWitness {
  readonly deed: (deed: Deed, disk: Disk) => void;
  readonly fate: (fate: Fate) => void;
  readonly crash: (kept: boolean) => void;
}

/** How often the clock pair is stored while nothing is committed. */
const tickMs = 1000;

/** What is there after a crash. */
export class Disk {
  readonly data: MemoryData;
  pair = { engineAt: 0, wallAt: 0 };

  constructor(
    readonly witness: DiskWitness,
    eventsMax: number,
  ) {
    this.data = new MemoryData(undefined, eventsMax, "sim");
  }

  write(deeds: readonly Deed[]): void {
    for (const deed of deeds) {
      this.witness.deed(deed, this);
      this.data.ordered.apply(deed.decided.writes, 0);
      this.data.ordered.forgetGone(deed.decided.writes);
      this.data.append(deed.decided.events);
    }
  }

  /** Memory as a server makes it from this disk. */
  load(clocks: Clocks): MemoryData {
    const data = new MemoryData(clocks, this.data.eventsMax, "sim");
    for (const [key, { value }] of this.data.ordered.records)
      if (value !== null)
        data.ordered.apply([{ key, record: value, drop: [], add: indexEntries(key, value) }], 0);
    return data;
  }
}

/** The server process that a store runs in: gone with it. */
export interface Host {
  readonly clocks: Clocks;
  /** Runs something in the process after so many milliseconds, if it still lives. */
  readonly later: (ms: number, run: () => void) => void;
  /** The run's time. */
  readonly now: () => number;
  /** What the process is doing right now. */
  readonly cause: () => unknown;
  /** Told while it cannot do its work. */
  readonly unwell: () => void;
}

class Batch {
  readonly deeds: Deed[] = [];
  readonly waiting: { readonly resolve: () => void; readonly reject: (error: StoreError) => void }[] = [];
}

export class CrashingStore implements Store, FeedSource {
  readonly facts: StoreFacts = {
    engine: "simulated",
    location: "a simulated disk",
    order: "node",
    ...noBounds,
  };
  readonly #clock: EngineClock;
  readonly #bell = new Bell();
  #live: MemoryStore;
  #state: "open" | "failed" | "closed" = "open";
  #gathering = new Batch();
  #flying: Batch | null = null;

  constructor(
    readonly disk: Disk,
    readonly host: Host,
    readonly weather: DiskWeather,
  ) {
    this.#clock = new EngineClock(host.clocks);
    this.#clock.start(disk.pair.engineAt, disk.pair.wallAt);
    this.#live = this.#load();
    this.#tick();
  }

  /** Whether it takes calls now. */
  get isOpen(): boolean {
    return this.#state === "open";
  }

  /** Whether nothing is on its way to the disk. */
  get isIdle(): boolean {
    return this.#flying === null && this.#gathering.deeds.length === 0;
  }

  /** What the server believes, durable or not. */
  get memory(): MemoryData {
    return this.#live.data;
  }

  #load(): MemoryStore {
    return new MemoryStore(
      this.disk.load({ monotonic: () => this.#clock.now(), wall: this.host.clocks.wall }),
    );
  }

  #tick(): void {
    this.#storePair();
    this.host.later(tickMs, () => this.#tick());
  }

  #storePair(): void {
    this.disk.pair = { engineAt: this.#clock.now(), wallAt: this.#clock.wall() };
  }

  transact<Reply>(keys: readonly Key[], decide: Decide<Reply>, signal?: AbortSignal): Promise<Reply> {
    if (this.#state !== "open") return Promise.reject(this.#refusal());
    const made: Decided<Reply>[] = [];
    const reply = this.#live.transact(
      keys,
      (view) => {
        const decision = decide(view);
        if (!("need" in decision)) made.push(decision);
        return decision;
      },
      signal,
    );
    const [decided] = made;
    return decided === undefined ? reply : this.#whenDurable(decided, reply);
  }

  /** Holds the reply back until all that it may rest on is on the disk. */
  #whenDurable<Reply>(decided: Decided<unknown>, reply: Promise<Reply>): Promise<Reply> {
    const reads = decided.writes.length === 0 && decided.events.length === 0;
    if (!reads) this.#gathering.deeds.push({ decided, cause: this.host.cause(), at: this.host.now() });
    const batch = this.#gathering.deeds.length > 0 ? this.#gathering : this.#flying;
    if (batch === null) return reply;
    const durable = new Promise<void>((resolve, reject) => batch.waiting.push({ resolve, reject }));
    this.#flush();
    return durable.then(() => reply);
  }

  #flush(): void {
    if (this.#flying !== null || this.#gathering.deeds.length === 0) return;
    const batch = this.#gathering;
    this.#flying = batch;
    this.#gathering = new Batch();
    this.#storePair();
    const fate = this.weather.fate();
    this.host.later(this.weather.commitMs(), () => {
      this.disk.witness.fate(fate);
      if (fate === "durable") this.#committed(batch);
      else this.#failed(batch, fate);
    });
  }

  #committed(batch: Batch): void {
    this.disk.write(batch.deeds);
    this.#flying = null;
    this.#flush();
    for (const waiting of batch.waiting) waiting.resolve();
    this.#bell.ring();
  }

  #failed(batch: Batch, fate: Fate): void {
    if (fate === "unknown, written") this.disk.write(batch.deeds);
    const behind = this.#gathering;
    this.#flying = null;
    this.#gathering = new Batch();
    if (this.#state === "open") this.#state = "failed";
    const refuse = (refused: Batch, kind: StoreErrorKind): void => {
      for (const waiting of refused.waiting)
        waiting.reject(new StoreError(kind, "the simulated disk failed"));
    };
    refuse(batch, fate === "refused" ? "unavailable" : "unknown");
    refuse(behind, "unavailable");
    this.host.later(this.weather.reopenMs(), () => {
      if (this.#state !== "failed") return;
      this.#live = this.#load();
      this.#state = "open";
      this.host.unwell();
      this.#bell.ring();
    });
  }

  /** The server dies: what was on its way to the disk may have got there. */
  crash(): void {
    if (this.#flying === null) return;
    const kept = this.weather.survives();
    if (kept) this.disk.write(this.#flying.deeds);
    this.disk.witness.crash(kept);
  }

  async list(range: Range): Promise<readonly ListRow[]> {
    if (this.#state !== "open") throw this.#refusal();
    return this.#whenDurable({ reply: null, writes: [], events: [] }, this.#live.list(range));
  }

  changes(after: Cursor | undefined, signal: AbortSignal): AsyncIterable<Change> {
    return follow(this, after, signal);
  }

  get epoch(): string {
    return this.disk.data.epoch;
  }

  last(): number {
    return this.disk.data.last();
  }

  read(after: number, limit: number): readonly NumberedEvent[] | null {
    if (this.#state !== "open") throw this.#refusal();
    return this.disk.data.read(after, limit);
  }

  more(after: number, signal: AbortSignal): Promise<void> {
    return this.#bell.wait(() => this.last() > after, signal);
  }

  async head(): Promise<Cursor> {
    if (this.#state === "closed") throw this.#refusal();
    return cursorOf(this.epoch, this.last());
  }

  now(): number {
    return this.#clock.now();
  }

  async ping(): Promise<void> {
    if (this.#state !== "open") throw this.#refusal();
  }

  async gauges(): Promise<Readonly<Record<string, number>>> {
    return {};
  }

  async backup(): Promise<void> {
    throw new StoreError("unsupported", "a simulated disk cannot be backed up");
  }

  /** Finishes what is on its way and takes nothing new. */
  async close(): Promise<void> {
    this.#state = "closed";
    const ends = [this.#flying, this.#gathering].map((batch) =>
      batch === null || batch.deeds.length === 0
        ? undefined
        : new Promise<void>((resolve) => batch.waiting.push({ resolve, reject: () => resolve() })),
    );
    await Promise.all(ends);
    this.#bell.close();
  }

  #refusal(): StoreError {
    return this.#state === "closed"
      ? new StoreError("closed", "the store was closed")
      : new StoreError("unavailable", "the simulated disk is being opened again");
  }
}
