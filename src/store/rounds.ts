/**
 * Runs a decision against an engine that can load what it asks for: again and again with more, until it answers.
 */
import type { Ask, Decide, Decided, Range, RangeRow, View } from "../core/decision.js";
import type { Key } from "../core/keys.js";
import { roundsMax } from "../core/limits.js";
import type { AnyRecord } from "../core/records.js";
import { StoreError } from "./store.js";

/** A view of exactly what was loaded. */
export class LoadedView implements View {
  readonly #records = new Map<Key, AnyRecord | null>();
  readonly #ranges = new Map<string, readonly RangeRow[]>();

  constructor(
    readonly now: number,
    readonly earliest = now,
    readonly isShared = false,
  ) {}

  get<R extends AnyRecord>(key: Key<R>): R | null | undefined {
    return this.#records.get(key) as R | null | undefined;
  }

  range(range: Range): readonly RangeRow[] | undefined {
    return this.#ranges.get(rangeName(range));
  }

  addRecord(key: Key, record: AnyRecord | null): void {
    this.#records.set(key, record);
  }

  addRange(range: Range, rows: readonly RangeRow[]): void {
    this.#ranges.set(rangeName(range), rows);
  }
}

const rangeName = (range: Range): string => `${range.index} ${range.from} ${range.to} ${range.limit}`;

/** Decides with a synchronous loader. */
export function decideInRounds<Reply>(
  view: LoadedView,
  keys: readonly Key[],
  decide: Decide<Reply>,
  load: (ask: Ask) => void,
): Decided<Reply> {
  for (const key of keys) load(key);
  for (let round = 0; round < roundsMax; round++) {
    const decision = decide(view);
    if (!("need" in decision)) return decision;
    for (const ask of decision.need) load(ask);
  }
  throw new StoreError("unsupported", `a decision asked for more than ${roundsMax} rounds of records`);
}
