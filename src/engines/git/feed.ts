/**
 * Changes of the locks, found by looking again: nobody tells. What this process does itself is told as it happens; of
 * what others do, only what stands at a look is seen, so a lock that was taken and given back between two looks is not.
 */
import { randomBytes } from "node:crypto";
import type { FeedEvent, LeaseEvent, LockRecord } from "../../core/records.js";
import { Bell, cursorOf, type FeedSource, type NumberedEvent } from "../../store/feed.js";
import type { Cursor } from "../../store/store.js";
import { lockPrefix, type Swap } from "./authority.js";
import type { MachineClock } from "./machine-clock.js";
import type { Records } from "./records.js";

/** Between two looks, in ms: soon after a change, else ever more slowly. */
const pauseFirstMs = 100;
const pauseMaxMs = 2000;
/** Events that are kept for a follower that is behind. */
const eventsMax = 10_000;

export class Feed implements FeedSource {
  readonly epoch = randomBytes(6).toString("hex");
  readonly #bell = new Bell();
  readonly #events: NumberedEvent[] = [];
  /** By reference, as told so far; null: nobody has asked yet. */
  #told: Map<string, { readonly oid: string; readonly lock: LockRecord | null }> | null = null;
  #last = 0;
  #isLooking = false;
  #isClosed = false;
  #looked: Promise<void> | null = null;

  constructor(
    readonly records: Records,
    readonly clock: MachineClock,
  ) {
    records.whenWritten = (swaps, lock, events) => this.#wrote(swaps, lock, events);
  }

  last(): number {
    // Whoever follows from now on needs to know what was there.
    void this.#begin();
    return this.#last;
  }

  async head(): Promise<Cursor> {
    await this.#begin();
    await this.#look();
    return cursorOf(this.epoch, this.#last);
  }

  read(after: number, limit: number): readonly NumberedEvent[] | null {
    const first = this.#events[0]?.number ?? this.#last + 1;
    if (after + 1 < first) return null;
    return this.#events.slice(after + 1 - first, after + 1 - first + limit);
  }

  async more(after: number, signal: AbortSignal): Promise<void> {
    await this.#begin();
    const more = this.#bell.wait(() => this.#last > after, signal);
    // After that: it looks only while somebody waits.
    void this.#keepLooking();
    await more;
  }

  close(): void {
    this.#isClosed = true;
    this.#bell.close();
  }

  #begin(): Promise<void> {
    this.#looked ??= this.#look().catch(() => {
      this.#looked = null;
    });
    return this.#looked;
  }

  /** For as long as somebody waits. */
  async #keepLooking(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    let pauseMs = pauseFirstMs;
    while (!this.#isClosed && this.#bell.isAwaited) {
      const before = this.#last;
      // Out of reach for now: the next look may succeed.
      await this.#look().catch(() => undefined);
      pauseMs = this.#last > before ? pauseFirstMs : Math.min(pauseMaxMs, pauseMs * 1.5);
      await new Promise((resolve) => setTimeout(resolve, pauseMs * (0.75 + Math.random() / 2)));
    }
    this.#isLooking = false;
  }

  async #look(): Promise<void> {
    const found = await (await this.records.lookAtAll()).locks();
    const told = this.#told;
    const now = new Map(found.map(({ ref, oid, lock }) => [ref, { oid, lock }] as const));
    this.#told = now;
    if (told === null) return;
    const events: FeedEvent[] = [];
    for (const [ref, { oid, lock }] of now) {
      const before = told.get(ref);
      if (before?.oid !== oid) events.push(...between(before?.lock ?? null, lock, this.clock.now()));
    }
    this.#append(events);
  }

  #wrote(swaps: readonly Swap[], lock: LockRecord | null, events: readonly FeedEvent[]): void {
    if (this.#told === null) return;
    for (const { ref, fresh } of swaps) {
      if (!ref.startsWith(lockPrefix)) continue;
      if (fresh === null) this.#told.delete(ref);
      else this.#told.set(ref, { oid: fresh, lock });
    }
    this.#append(events);
  }

  #append(events: readonly FeedEvent[]): void {
    for (const event of events) this.#events.push({ number: ++this.#last, event });
    if (this.#events.length > eventsMax) this.#events.splice(0, this.#events.length - eventsMax);
    if (events.length > 0) this.#bell.ring();
  }
}

/** What must have happened from one record to the next. */
export function between(before: LockRecord | null, after: LockRecord, at: number): LeaseEvent[] {
  const events: LeaseEvent[] = [];
  const had = before?.lease ?? null;
  const has = after.lease;
  if (has !== null && had?.id === has.id) return [eventOf(after, "renewed", at)];
  if (before !== null && had !== null) {
    const isReleased = after.previous?.leaseId === had.id && after.previous.how !== "expired";
    events.push({ ...eventOf(before, isReleased ? "released" : "expired", at), expiresAt: at });
  }
  if (has !== null) events.push(eventOf(after, "acquired", at));
  return events;
}

function eventOf(
  { space, name, token, lease }: LockRecord,
  type: LeaseEvent["type"],
  at: number,
): LeaseEvent {
  return {
    type,
    space,
    name,
    token,
    principal: lease?.principal ?? "",
    owner: lease?.owner ?? null,
    sessionHash: lease?.sessionHash ?? null,
    since: lease?.since ?? at,
    metadata: lease?.metadata ?? null,
    expiresAt: lease?.expiresAt ?? null,
    at,
  };
}
