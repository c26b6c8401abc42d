/** The calls of a batch: what they ask for together, and what they want committed together. */
import type { Ask, Decide, Decided, Range, RangeRow, View } from "../core/decision.js";
import type { Key } from "../core/keys.js";
import { type BatchView, rowsAhead } from "./batch-view.js";
import type { Reading } from "./shared-data.js";
import { anchorsKey } from "./wall-anchors.js";

export interface Call {
  readonly decide: Decide<unknown>;
  readonly signal: AbortSignal | undefined;
  readonly resolve: (reply: unknown) => void;
  readonly reject: (error: unknown) => void;
  /** Everything it asked for so far. */
  readonly keys: Set<Key>;
  readonly ranges: Map<string, Range>;
  /** The name that it is about: calls about the same one are not put into two batches at once. */
  readonly lane: Key | undefined;
  readonly until: number;
  /** How often it asked for more of data that nobody has changed since. */
  rounds: number;
  /** Of the reading that it asked for more by. */
  revision: number;
  /** It is at least so late: the same in all rounds, so that the same ranges are asked for. null: not read yet. */
  earliest: number | null;
  /** What it is told that it may rely on and change. */
  room: NonNullable<View["room"]>;
}

export interface Pending {
  readonly call: Call;
  readonly view: BatchView;
  readonly decided: Decided<unknown>;
}

/** What the calls need, each thing once, and how the ranges are found in what was read. */
export function asksOf(calls: readonly Call[]) {
  const keys = new Set<Key>();
  const ranges = new Map<string, Range>();
  for (const call of calls) {
    for (const key of call.keys) keys.add(key);
    for (const [name, range] of call.ranges)
      if (!ranges.has(name)) ranges.set(name, { ...range, limit: range.limit + rowsAhead });
  }
  const asks: Ask[] = [...keys.add(anchorsKey), ...ranges.values()];
  const named = function* (reading: Reading): Generator<[string, readonly RangeRow[]]> {
    for (const [name, range] of ranges) yield [name, reading.ranges.get(range) ?? []];
  };
  return { asks, named };
}
