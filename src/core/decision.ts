/**
 * The shape of a decision: a pure function of a view. It either answers, with what to write, or asks for more
 * and is run again. The engine makes it atomic and durable; nothing here knows how.
 */
import type { IndexEntry, IndexName, Key } from "./keys.js";
import type { AnyRecord, FeedEvent } from "./records.js";

/** Rows with `from` ≤ sort < `to`, in order, at most `limit`. */
export interface Range {
  readonly index: IndexName;
  readonly from: string;
  readonly to: string;
  readonly limit: number;
}

export interface RangeRow {
  readonly sort: string;
  readonly key: Key;
}

/** What a decision sees: one consistent state and the engine's clock. */
export interface View {
  /** Engine time, whole milliseconds: no later than this. What begins now is counted from here. */
  readonly now: number;
  /**
   * Engine time is at least this: what ended before it is over. The same as `now` where one clock decides; where several
   * servers share one, it is coarse, and the truth lies between the two.
   */
  readonly earliest: number;
  /** Several servers decide over the same records, and none knows what another has told its callers. */
  readonly isShared?: boolean;
  /**
   * Most records and rows that one step can rely on, and most records and entries that it can change; undefined: as many as it
   * likes. A step over many stops before that.
   */
  readonly room?: { readonly relies: number; readonly changes: number };
  /** The record; null: there is none; undefined: not loaded, ask for it. */
  get<R extends AnyRecord>(key: Key<R>): R | null | undefined;
  /** The rows; undefined: not loaded, ask for it. */
  range(range: Range): readonly RangeRow[] | undefined;
}

export interface Write {
  readonly key: Key;
  /** null deletes. */
  readonly record: AnyRecord | null;
  readonly drop: readonly IndexEntry[];
  readonly add: readonly IndexEntry[];
}

export type Ask = Key | Range;

export interface Decided<Reply> {
  readonly reply: Reply;
  readonly writes: readonly Write[];
  readonly events: readonly FeedEvent[];
}

export interface Need {
  readonly need: readonly Ask[];
}

export type Decision<Reply> = Decided<Reply> | Need;

export type Decide<Reply> = (view: View) => Decision<Reply>;
