/**
 * The one seam between the lease rules and whatever keeps them: a `Store` makes decisions atomic and durable.
 * Engines differ only in the facts they state, never in what a verb means.
 */
import type { Decide, Range } from "../core/decision.js";
import type { Key } from "../core/keys.js";
import type { AnyRecord, FeedEvent } from "../core/records.js";

/** Facts of an engine that callers may show or plan by. */
export interface StoreFacts {
  readonly engine: string;
  /** Where the data is, for people. */
  readonly location: string;
  /** How queues and feeds of several nodes are ordered: one node only, or across nodes. */
  readonly order: "node" | "cluster";
  /** How far the true time may be ahead of what decides that something is over, in ms: it is due so much later. */
  readonly clockLagMs: number;
  /** How much longer than it was told to a lease may last while all is well, in ms. */
  readonly lateMs: number;
  /** How far the wall clock is ahead of engine time at an instant, where that is kept; else as it is now on this machine. */
  readonly offsetAt?: (engineAt: number) => number;
  /** Most keys one transact may name. */
  readonly keysMax: number;
  /** Most locks that one transact may change; one that changes more is refused with `SeveralNamesError`. */
  readonly locksMax: number;
  /**
   * Aborted, with the `MovedError` that everybody is told from then on, once it is noticed that the data was moved elsewhere. Not
   * stated where that is only done while no server runs.
   */
  readonly moved?: AbortSignal;
}

/** Of an engine that keeps everything in one place. */
export const noBounds: Pick<StoreFacts, "clockLagMs" | "lateMs" | "keysMax" | "locksMax"> = {
  clockLagMs: 0,
  lateMs: 0,
  keysMax: Number.MAX_SAFE_INTEGER,
  locksMax: Number.MAX_SAFE_INTEGER,
};

/** A place in the change feed; opaque, comparable only by the store that gave it. */
export type Cursor = string;

/** One event of the feed, or the word that the asked-for place is no longer known and events may be missing. */
export type Change =
  | { readonly cursor: Cursor; readonly event: FeedEvent }
  | { readonly cursor: Cursor; readonly reset: true };

export interface ListRow {
  readonly sort: string;
  readonly record: AnyRecord;
}

export interface Store {
  readonly facts: StoreFacts;
  /**
   * Runs `decide` over one consistent view of `keys` (and of what it asks for) and makes its writes durable, all
   * or nothing, strictly serializable. Resolves only once that is done; `decide` may run more than once.
   */
  transact<Reply>(keys: readonly Key[], decide: Decide<Reply>, signal?: AbortSignal): Promise<Reply>;
  /** Records in index order. What it returns is durable. */
  list(range: Range): Promise<readonly ListRow[]>;
  /**
   * Every event after `after`, in order, without gaps or repeats, until `signal` aborts. undefined: from now on; of a
   * cluster, events of shortly before may come first.
   */
  changes(after: Cursor | undefined, signal: AbortSignal): AsyncIterable<Change>;
  /** The place in the feed after everything that is durable now. */
  head(): Promise<Cursor>;
  /** Engine time now, in whole ms. */
  now(): number;
  /** Resolves if the store can answer; rejects with why not. */
  ping(): Promise<void>;
  /** Numbers about the store for the metrics page. */
  gauges(): Promise<Readonly<Record<string, number>>>;
  /** Writes a consistent, stamped copy to a new file. */
  backup(path: string): Promise<void>;
  close(): Promise<void>;
}

export type StoreErrorKind =
  /** Certainly not written. */
  | "unavailable"
  /** Certainly not written: others kept winning. */
  | "contended"
  /** May have been written: repeat with the same request id. */
  | "unknown"
  /** The data cannot be trusted. */
  | "corrupt"
  /** This handle was closed. */
  | "closed"
  /** This engine cannot do that, and says so. */
  | "unsupported";

export class StoreError extends Error {
  override readonly name = "StoreError";
  constructor(
    readonly kind: StoreErrorKind,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** The data has gone to another place, for ever. Certainly not written. */
export class MovedError extends StoreError {
  constructor(why: string) {
    super("unavailable", why);
  }
}

/** The store's URL makes no sense: a matter of settings, found before anything was asked of a store. */
export class StoreUrlError extends StoreError {
  constructor(
    /** Without where it stood: whoever was given the URL knows. Never with the password. */
    readonly why: string,
  ) {
    super("unsupported", `the store's URL: ${why}`);
  }
}

/** There is nothing of Holdfast where data was expected. */
export class NoDataError extends StoreError {
  constructor(location: string) {
    super("unsupported", `there is no data of Holdfast in ${location}: correct the URL`);
  }
}

/** One step would rely on, or change, more than this engine takes at once. Certainly not written. */
export class StepTooLargeError extends StoreError {
  constructor(why: string) {
    super("unsupported", why);
  }
}

/** The decision changes more locks than this engine can change at once. Certainly not written. */
export class SeveralNamesError extends StoreError {
  constructor(readonly locks: readonly { readonly space: string; readonly name: string }[]) {
    super("unsupported", `this store changes one name at a time, not ${locks.length} in one step`);
  }
}
