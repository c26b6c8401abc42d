/**
 * Changes of the locks, found by looking again: nobody tells. What this process does itself is told as it happens; of
 * what others do, only what stands at a look is seen, so a lock that was taken and given back between two looks is not.
 */
import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { FeedEvent, LeaseEvent, LockRecord } from "../../core/records.js";
import { Bell, cursorOf, type FeedSource, type NumberedEvent } from "../../store/feed.js";
import type { Cursor } from "../../store/store.js";
import { lockPrefix, type Swap } from "./authority.js";
import { refOfLock } from "./key-refs.js";
import type { MachineClock } from "./machine-clock.js";
import type { Records } from "./records.js";

/** Between two looks, in ms: soon after a change, else ever more slowly. */
const pauseFirstMs = 100;
const pauseMaxMs = 2000;
/** Events that are kept for a follower that is behind. */
const eventsMax = 10_000;

interface Told {
  readonly oid: string;
  readonly lock: LockRecord | null;
}

export class Feed implements FeedSource {
  readonly epoch = randomBytes(6).toString("hex");
  readonly #bell = new Bell();
  readonly #events: NumberedEvent[] = [];
  /** By reference, as told so far; null: no look has ended yet. */
  #told: Map<string, Told> | null = null;
  /** What this process wrote since the look under way began: it may have looked before. */
  readonly #meanwhile = new Map<string, Told | null>();
  #last = 0;
  #isAsked = false;
  #isLooking = false;
  readonly #closing = new AbortController();
  #begun: Promise<void> | null = null;
  #looked: Promise<void> = Promise.resolve();

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
    this.#isAsked = true;
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
    this.#closing.abort();
    this.#bell.close();
  }

  #begin(): Promise<void> {
    this.#isAsked = true;
    this.#begun ??= this.#look().catch(() => {
      this.#begun = null;
    });
    return this.#begun;
  }

  /** For as long as somebody waits. */
  async #keepLooking(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    const { signal } = this.#closing;
    let pauseMs = pauseFirstMs;
    while (!signal.aborted && this.#bell.isAwaited) {
      const before = this.#last;
      // Out of reach for now: the next look may succeed.
      await this.#look().catch(() => undefined);
      pauseMs = this.#last > before ? pauseFirstMs : Math.min(pauseMaxMs, pauseMs * 1.5);
      await delay(pauseMs * (0.75 + Math.random() / 2), undefined, { signal }).catch(() => undefined);
    }
    this.#isLooking = false;
  }

  /** One that begins after the call, when those before it have ended: an older one must not speak last. */
  #look(): Promise<void> {
    const look = this.#looked.then(() => this.#lookNow());
    this.#looked = look.catch(() => undefined);
    return look;
  }

  async #lookNow(): Promise<void> {
    if (this.#closing.signal.aborted) return;
    this.#meanwhile.clear();
    const found = await (await this.records.lookAtAll()).locks();
    const told = this.#told;
    const now = new Map<string, Told>(found.map(({ ref, oid, lock }) => [ref, { oid, lock }] as const));
    for (const [ref, own] of this.#meanwhile)
      if (own === null) now.delete(ref);
      else now.set(ref, own);
    this.#told = now;
    if (told === null) return;
    const events: FeedEvent[] = [];
    for (const [ref, { oid, lock }] of now) {
      const before = told.get(ref);
      if (lock !== null && before?.oid !== oid)
        events.push(...between(before?.lock ?? null, lock, this.clock.now()));
    }
    this.#append(events);
  }

  #wrote(swaps: readonly Swap[], lock: LockRecord | null, events: readonly FeedEvent[]): void {
    let isNews = true;
    for (const { ref, fresh } of swaps) {
      if (!ref.startsWith(lockPrefix)) continue;
      const before = this.#told?.get(ref);
      const isLock = lock !== null && refOfLock(lock) === ref;
      const own = fresh === null ? null : { oid: fresh, lock: isLock ? lock : (before?.lock ?? null) };
      // A look may have been faster than the word that it is done.
      if (isLock && before?.oid === fresh) isNews = false;
      this.#meanwhile.set(ref, own);
      if (own === null) this.#told?.delete(ref);
      else this.#told?.set(ref, own);
    }
    if (isNews && this.#isAsked) this.#append(events);
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
