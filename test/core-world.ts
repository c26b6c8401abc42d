/**
 * A world for testing the rules alone: records in memory, a clock that only moves when told, and a queue per
 * name. Each decision runs three times (what the service names is loaded, nothing is loaded, everything is found
 * at once) and twice on each view: all must agree, so a decision is pure and asks for what it reads. After each
 * step the stored index is compared with the one that the records ask for.
 */
import assert from "node:assert/strict";
import type { Ask, Decide, Decided, RangeRow, View } from "../src/core/decision.js";
import type { Heir, Successors } from "../src/core/heirs.js";
import { type IndexName, indexEntries, type Key } from "../src/core/keys.js";
import type { Claim } from "../src/core/lease.js";
import { type Policy, policyDefault } from "../src/core/limits.js";
import type { AnyRecord, FeedEvent } from "../src/core/records.js";
import { Ordered } from "../src/store/ordered.js";
import { decideInRounds, LoadedView } from "../src/store/rounds.js";

const indexes = Object.keys({
  held: 0,
  due: 0,
  gc: 0,
  session: 0,
  token: 0,
  audit: 0,
  node: 0,
  ready: 0,
  taken: 0,
  assigned: 0,
  parked: 0,
} satisfies Record<IndexName, 0>) as IndexName[];

/** What one step did. */
export interface Step<Reply> extends Decided<Reply> {
  readonly heirs: readonly Heir[];
}

export class World {
  now = 0;
  /** How coarse the clock is: what is over is judged so much earlier. */
  lagMs = 0;
  isShared = false;
  /** All events, in order. */
  readonly events: FeedEvent[] = [];
  /** Waiters by space and name, first come first. */
  readonly queues = new Map<string, Claim[]>();
  readonly #ordered = new Ordered();

  constructor(readonly policy: Policy = policyDefault) {}

  readonly successors: Successors = (space, name, nth) => this.queues.get(`${space}/${name}`)?.[nth];

  join(claim: Claim): void {
    const queue = `${claim.space}/${claim.name}`;
    this.queues.set(queue, [...(this.queues.get(queue) ?? []), deepFreeze(claim)]);
  }

  leave(claim: Claim): void {
    const queue = `${claim.space}/${claim.name}`;
    const rest = (this.queues.get(queue) ?? []).filter((waiter) => waiter !== claim);
    if (rest.length === 0) this.queues.delete(queue);
    else this.queues.set(queue, rest);
  }

  /** Decides, applies, and tells the waiters whose wait is over. `keys` are those that the service would name. */
  step<Reply>(
    keys: readonly Key[],
    decide: Decide<Reply>,
    heirsOf: (reply: Reply) => readonly Heir[] = () => [],
  ): Step<Reply> {
    const decided = this.#decide(keys, decide);
    const asked = this.#decide([], decide);
    assert.deepEqual(asked, decided, "a decision depends on what was loaded before it asked");
    assert.deepEqual(this.#decideLazily(decide), decided, "a decision depends on how the engine loads");
    for (const { record } of decided.writes) if (record !== null) deepFreeze(record);
    this.#ordered.apply(decided.writes, 0);
    this.#ordered.forgetGone(decided.writes);
    this.events.push(...decided.events);
    this.#checkIndex();
    const heirs = heirsOf(decided.reply);
    for (const { claim } of heirs) this.leave(claim);
    return { ...decided, heirs };
  }

  /** Writes a record as an engine's own tools would (a restore, a migration). */
  put<R extends AnyRecord>(key: Key<R>, record: R): void {
    const before = this.record(key);
    this.#ordered.apply(
      [
        {
          key,
          record,
          drop: before === null ? [] : indexEntries(key, before),
          add: indexEntries(key, record),
        },
      ],
      0,
    );
    deepFreeze(record);
  }

  record<R extends AnyRecord>(key: Key<R>): R | null {
    return (this.#ordered.records.get(key)?.value ?? null) as R | null;
  }

  *records(): Generator<readonly [Key, AnyRecord]> {
    for (const [key, { value }] of this.#ordered.records) if (value !== null) yield [key, value];
  }

  rows(index: IndexName): readonly RangeRow[] {
    return this.#ordered.range({ index, from: "", to: "\x7f", limit: Number.MAX_SAFE_INTEGER });
  }

  #decide<Reply>(keys: readonly Key[], decide: Decide<Reply>): Decided<Reply> {
    const view = new LoadedView(this.now, this.now - this.lagMs, this.isShared);
    return decideInRounds(view, keys, twice(decide), (ask: Ask) => {
      if (typeof ask === "string") view.addRecord(ask, this.record(ask));
      else view.addRange(ask, this.#ordered.range(ask));
    });
  }

  /** As an engine does that can look while it decides. */
  #decideLazily<Reply>(decide: Decide<Reply>): Decided<Reply> {
    const view: View = {
      now: this.now,
      earliest: this.now - this.lagMs,
      isShared: this.isShared,
      get: (key) => this.record(key),
      range: (range) => this.#ordered.range(range),
    };
    const decision = twice(decide)(view);
    assert.ok(!("need" in decision), "asked for something that was there");
    return decision;
  }

  #checkIndex(): void {
    const wanted: string[] = [];
    for (const [key, record] of this.records())
      for (const { index, sort } of indexEntries(key, record)) wanted.push(`${index} ${sort} → ${key}`);
    const stored = indexes.flatMap((index) =>
      this.rows(index).map(({ sort, key }) => `${index} ${sort} → ${key}`),
    );
    assert.deepEqual(stored.sort(), wanted.sort(), "the index differs from what the records ask for");
  }
}

function twice<Reply>(decide: Decide<Reply>): Decide<Reply> {
  return (view) => {
    const decision = decide(view);
    assert.deepEqual(decide(view), decision, "a decision is not a pure function of its view");
    return decision;
  };
}

export function deepFreeze<Value>(value: Value): Value {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const inner of Object.values(value)) deepFreeze(inner);
  }
  return value;
}
