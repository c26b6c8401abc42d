// The engine of the service under test: the real store structures, but synchronous and on a clock that is told the
// time. Everything that a planted bug of an engine may get wrong is one method.
import type { Decide, Decided } from "../../src/core/decision.js";
import { floorKey, indexEntries, type Key } from "../../src/core/keys.js";
import { noFloor } from "../../src/core/lease.js";
import { policyDefault } from "../../src/core/limits.js";
import { type AnyRecord, type FeedEvent, isLeaseEvent, type LeaseEvent } from "../../src/core/records.js";
import { endedByRestore, floorAfterRestore } from "../../src/core/restore.js";
import { Ordered } from "../../src/store/ordered.js";
import { decideInRounds, LoadedView } from "../../src/store/rounds.js";
import { space } from "./answers.js";

/** What a step is about: the call that it serves, or upkeep. */
export type About = "acquire" | "renew" | "release" | "force" | "read" | "session" | "upkeep";

export interface Told {
  readonly id: string;
  readonly event: LeaseEvent;
}

export type Records = readonly (readonly [Key, AnyRecord])[];

export class Engine {
  /** Every event, in order. */
  feed: Told[] = [];
  #ordered = new Ordered();
  #epoch = 0;

  constructor(
    /** Engine time, in whole ms. */
    readonly clock: () => number,
  ) {}

  /** What a decision takes for the present. */
  now(_about: About): number {
    return this.clock();
  }

  record<R extends AnyRecord>(key: Key<R>): R | null {
    return (this.#ordered.records.get(key)?.value ?? null) as R | null;
  }

  transact<Reply>(keys: readonly Key[], decide: Decide<Reply>, about: About): Decided<Reply> {
    const view = new LoadedView(this.now(about));
    const decided = decideInRounds(view, keys, decide, (ask) => {
      if (typeof ask === "string") view.addRecord(ask, this.load(ask, about));
      else view.addRange(ask, this.#ordered.range(ask));
    });
    this.commit(decided, about);
    return decided;
  }

  /** What a decision sees of a record. */
  protected load(key: Key, _about: About): AnyRecord | null {
    return this.record(key);
  }

  /** Makes it durable, and tells it. */
  protected commit({ writes, events }: Decided<unknown>, _about: About): void {
    this.#ordered.apply(writes, 0);
    this.#ordered.forgetGone(writes);
    this.tell(events);
  }

  protected tell(events: readonly FeedEvent[]): void {
    for (const event of events)
      if (isLeaseEvent(event)) this.feed.push({ id: `${this.#epoch}-${this.feed.length + 1}`, event });
  }

  /** The process died and is started again: what was committed is there. */
  crash(): void {}

  /** All there is. */
  backup(): Records {
    return [...this.#ordered.records].flatMap(([key, { value }]) =>
      value === null ? [] : [[key, value] as const],
    );
  }

  /** Has these records and no others. */
  protected become(records: Records): void {
    this.#ordered = new Ordered();
    for (const [key, record] of records)
      this.#ordered.apply([{ key, record, drop: [], add: indexEntries(key, record) }], 0);
  }

  /** Goes on from a backup, by the rules for that. Returns until when it grants nothing. */
  restore(records: Records, quietMs: number): number {
    const now = this.clock();
    const tokens = records.map(([, record]) => ("token" in record ? (record.token ?? 0) : 0));
    const highest = { ...noFloor(space), token: Math.max(0, ...tokens) };
    const floor = floorAfterRestore(highest, { wallNow: now, ageMs: now }, now, quietMs);
    const locks = records.flatMap(
      ([key, record]): Records =>
        record.kind === "lock"
          ? [[key, endedByRestore(record, now, "operator", policyDefault.recordRetentionMs)]]
          : [],
    );
    this.become([...locks, [floorKey(space), floor]]);
    this.feed = [];
    this.#epoch++;
    return floor.quietUntil;
  }
}
