/**
 * What a database that several servers share must do so that `SharedStore` can keep the lease rules on it: read at one
 * moment, and write if nothing that was read has changed since. Nothing else is asked of it, no locks and no clock of its own.
 */
import type { Ask, Range, RangeRow, Write } from "../core/decision.js";
import type { Key } from "../core/keys.js";
import type { AnyRecord, FeedEvent } from "../core/records.js";
import type { NumberedEvent } from "./feed.js";

/** A record and which of its states it is; 0: there is none. Any write makes another version, never one that was. */
export interface Versioned {
  readonly record: AnyRecord | null;
  readonly version: number;
}

/** What was asked for, as of one moment. */
export interface Reading {
  /** The shared clock at that moment. */
  readonly clock: number;
  readonly records: ReadonlyMap<Key, Versioned>;
  readonly ranges: ReadonlyMap<Range, readonly RangeRow[]>;
  /** Names the moment, for databases that compare with it. */
  readonly revision: number;
}

/** Index entries that a decision relied on: with `from` ≤ sort < `to` there are exactly these. */
export interface Guarded {
  readonly index: Range["index"];
  readonly from: string;
  readonly to: string;
  readonly rows: readonly RangeRow[];
}

export interface Commit {
  /** The moment of the reading that it is built on, and the clock then. */
  readonly revision: number;
  readonly clock: number;
  /** Must still have these versions. */
  readonly versions: ReadonlyMap<Key, number>;
  readonly guarded: readonly Guarded[];
  /** Applied in order: a key may be written more than once. */
  readonly writes: readonly Write[];
  readonly events: readonly FeedEvent[];
}

export interface SharedFacts {
  readonly engine: string;
  readonly location: string;
  /** Most changes (records and index entries) of one commit. */
  readonly changesMax: number;
  /** Most records, ranges and rows that one commit can compare. */
  readonly comparesMax: number;
  /**
   * Records that were not there can be compared as a few spans instead of each, at the price that others which change in between
   * count as well. Done only for a step that does not fit otherwise.
   */
  readonly absentSpans?: number;
  /** Commits under way at once. */
  readonly lanesMax: number;
}

export interface SharedData {
  readonly facts: SharedFacts;
  /** Tells the feed's places of this data from those of any other. */
  readonly epoch: string;
  /** As of one moment that is not before the call. Rejects within its deadline. */
  read(asks: readonly Ask[]): Promise<Reading>;
  /**
   * All or nothing; resolves once it is durable. `changed`: something that it relies on has changed, and nothing was written.
   * `too large`: these are more bytes than can be written at once, and nothing was.
   * Rejects within its deadline, with `unknown` if it may have been written.
   */
  commit(commit: Commit): Promise<"done" | "changed" | "too large">;
  /** Moves the shared clock if it still has the value `from`; resolves to what it says then. */
  tick(from: number, to: number): Promise<number>;
  /** The number of the last event that is durable now. */
  lastEvent(): Promise<number>;
  /** Events above `after` in order, at most `limit`, without gaps; null: some of them are no longer kept. */
  events(after: number, limit: number): Promise<readonly NumberedEvent[] | null>;
  /**
   * Calls `ring` when there may be more events, and at least now and then; `failed` when that cannot be told, and will be tried
   * again. Until `close`.
   */
  listen(ring: () => void, failed: (error: unknown) => void): void;
  gauges(): Promise<Readonly<Record<string, number>>>;
  close(): Promise<void>;
}
