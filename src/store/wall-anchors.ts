/**
 * What the wall clock said at which instants of a shared clock, so that all servers show the same time for the same event, for
 * ever: the shared clock can lose time, and wall clocks are set. Only for people; nothing is decided by it.
 */
import type { Key } from "../core/keys.js";
import type { AnchorsRecord, AnyRecord } from "../core/records.js";

export const anchorsKey: Key<AnchorsRecord> = "anchors/time";

/** Below this what is shown is as good as right, in ms. */
const toleranceMs = 250;
/** Anchors kept: beyond these, the times of older events are shown as if they were of the oldest. */
const anchorsMax = 128;

/** From an instant on the wall clock is so far ahead, in addition to what was before. */
export function anchored(before: AnchorsRecord | null, from: number, offset: number): AnchorsRecord {
  const rows = (before?.rows ?? []).filter(([at]) => at < from);
  return { kind: "anchors", rows: [...rows, [from, offset] as const].slice(-anchorsMax) };
}

export class WallAnchors {
  #rows: AnchorsRecord["rows"] = [];

  learn(record: AnyRecord | null): void {
    if (record?.kind === "anchors") this.#rows = record.rows;
  }

  get isEmpty(): boolean {
    return this.#rows.length === 0;
  }

  isOff(offset: number): boolean {
    const last = this.#rows.at(-1);
    return last === undefined || Math.abs(last[1] - offset) > toleranceMs;
  }

  /** undefined: nothing is known yet. */
  offsetAt(at: number): number | undefined {
    return (this.#rows.findLast(([from]) => from <= at) ?? this.#rows[0])?.[1];
  }
}
