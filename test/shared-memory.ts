// Shared data in memory, with the turns of the event loop that a database takes: what `SharedStore` is tested on apart from
// any engine. Faults are asked for by tests.
import type { Ask, Range, RangeRow } from "../src/core/decision.js";
import type { Key } from "../src/core/keys.js";
import { refuseClosed } from "../src/store/archive.js";
import type { NumberedEvent } from "../src/store/feed.js";
import { Ordered } from "../src/store/ordered.js";
import type { Commit, Reading, SharedData, SharedFacts, Versioned } from "../src/store/shared-data.js";
import { StoreError } from "../src/store/store.js";

/** What handles share. */
export class SharedMemory {
  readonly ordered = new Ordered();
  readonly versions = new Map<Key, number>();
  readonly events: NumberedEvent[] = [];
  readonly rings = new Set<() => void>();
  revision = 1;
  clock = 1_000_000;
  /** Where the data has gone: found by whoever reads. */
  moved: string | null = null;
  /** The value that the clock had, and when it got it, by `performance.now()`. */
  readonly ticks: { readonly value: number; readonly at: number }[] = [];
}

export class SharedMemoryData implements SharedData {
  readonly epoch = "aa";
  readonly facts: SharedFacts;
  /** What the next commit does instead: it is refused, or written and its answer lost. */
  fault: "unavailable" | "unknown" | null = null;
  /** More writes than these are too many bytes. */
  writesMax = Number.POSITIVE_INFINITY;
  /** Called before a commit is looked at: what another did in between. */
  beforeCommit: () => Promise<void> | void = () => undefined;
  #ring: (() => void) | undefined;
  readonly reads: (readonly Ask[])[] = [];
  readonly commits: Commit[] = [];

  constructor(
    readonly memory: SharedMemory,
    facts: Partial<SharedFacts> = {},
  ) {
    this.facts = {
      engine: "shared-memory",
      location: "memory that handles share",
      changesMax: 1000,
      comparesMax: 1000,
      lanesMax: 2,
      ...facts,
    };
  }

  async read(asks: readonly Ask[]): Promise<Reading> {
    await turn();
    this.reads.push(asks);
    refuseClosed(this.facts.location, this.memory.moved);
    const { ordered, clock, revision } = this.memory;
    const records = new Map<Key, Versioned>();
    const ranges = new Map<Range, readonly RangeRow[]>();
    for (const ask of asks)
      if (typeof ask === "string") records.set(ask, this.#record(ask));
      else ranges.set(ask, ordered.range(ask));
    await turn();
    return { clock, revision, records, ranges };
  }

  async commit(commit: Commit): Promise<"done" | "changed" | "too large"> {
    await turn();
    await this.beforeCommit();
    this.commits.push(commit);
    if (this.fault === "unavailable") throw this.#failure("unavailable");
    if (commit.writes.length > this.writesMax) return "too large";
    const { ordered, versions } = this.memory;
    for (const [key, version] of commit.versions) if (this.#record(key).version !== version) return "changed";
    for (const { index, from, to, rows } of commit.guarded) {
      const now = ordered.range({ index, from, to, limit: Number.MAX_SAFE_INTEGER });
      if (JSON.stringify(now) !== JSON.stringify(rows)) return "changed";
    }
    const revision = ++this.memory.revision;
    for (const write of commit.writes) versions.set(write.key, write.record === null ? 0 : revision);
    ordered.apply(commit.writes, 0);
    ordered.forgetGone(commit.writes);
    for (const event of commit.events)
      this.memory.events.push({ number: this.memory.events.length + 1, event });
    for (const ring of this.memory.rings) ring();
    if (this.fault === "unknown") throw this.#failure("unknown");
    await turn();
    return "done";
  }

  async tick(from: number, to: number): Promise<number> {
    await turn();
    if (this.memory.clock === from) {
      this.memory.clock = to;
      this.memory.ticks.push({ value: to, at: performance.now() });
    }
    return this.memory.clock;
  }

  async lastEvent(): Promise<number> {
    await turn();
    return this.memory.events.length;
  }

  async events(after: number, limit: number): Promise<readonly NumberedEvent[] | null> {
    await turn();
    return this.memory.events.slice(after, after + limit);
  }

  listen(ring: () => void): void {
    this.memory.rings.add(ring);
    this.#ring = ring;
  }

  async gauges(): Promise<Readonly<Record<string, number>>> {
    return { records: this.memory.ordered.records.size };
  }

  async close(): Promise<void> {
    if (this.#ring !== undefined) this.memory.rings.delete(this.#ring);
  }

  #record(key: Key): Versioned {
    const record = this.memory.ordered.records.get(key)?.value ?? null;
    return { record, version: record === null ? 0 : (this.memory.versions.get(key) ?? 0) };
  }

  #failure(kind: "unavailable" | "unknown"): StoreError {
    this.fault = null;
    return new StoreError(kind, `the commit was made to fail as ${kind}`);
  }
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
