/**
 * Following a numbered feed: read what there is after a place, then wait to be told of more. Shared by engines
 * whose feed is a sequence of numbered events in one process.
 */
import type { FeedEvent } from "../core/records.js";
import { type Change, type Cursor, StoreError } from "./store.js";

export interface NumberedEvent {
  readonly number: number;
  readonly event: FeedEvent;
}

/** What a follower reads from. Where it must be asked for elsewhere, the answer is a promise. */
export interface FeedSource {
  readonly epoch: string;
  /** Number of the last durable event, as far as it is known here. */
  last(): number;
  /** Events with a number above `after`, in order, at most `limit`; null: some of them are no longer kept. */
  read(
    after: number,
    limit: number,
  ): readonly NumberedEvent[] | null | Promise<readonly NumberedEvent[] | null>;
  /** Resolves when there is more than `after`, or the feed was closed. */
  more(after: number, signal: AbortSignal): Promise<void>;
}

const pageSize = 512;

export const cursorOf = (epoch: string, number: number): Cursor => `${epoch}-${number}`;

/** The number in a cursor of this epoch, or null. */
export function numberOf(epoch: string, cursor: Cursor): number | null {
  const match = /^([0-9a-z]+)-([0-9]{1,15})$/.exec(cursor);
  return match !== null && match[1] === epoch ? Number(match[2]) : null;
}

/**
 * Every event after a place; without one, from this call on (not from the first look at what it returns). Nothing after
 * the call is missed; where others write as well, events of shortly before it that were not known here yet are told, too.
 */
export function follow(
  source: FeedSource,
  after: Cursor | undefined,
  signal: AbortSignal,
): AsyncGenerator<Change> {
  return changesFrom(source, after === undefined ? source.last() : numberOf(source.epoch, after), signal);
}

async function* changesFrom(
  source: FeedSource,
  from: number | null,
  signal: AbortSignal,
): AsyncGenerator<Change> {
  let at = from;
  if (signal.aborted) return;
  if (at === null || at > source.last()) {
    at = source.last();
    yield { cursor: cursorOf(source.epoch, at), reset: true };
  }
  while (!signal.aborted) {
    const events = await source.read(at, pageSize);
    if (events === null) {
      at = source.last();
      yield { cursor: cursorOf(source.epoch, at), reset: true };
      continue;
    }
    for (const { number, event } of events) {
      if (signal.aborted) return;
      at = number;
      yield { cursor: cursorOf(source.epoch, number), event };
    }
    if (events.length === 0) await source.more(at, signal);
  }
}

/** Wakes whoever waits for a feed to grow. */
export class Bell {
  readonly #waiting = new Set<() => void>();
  #closed = false;

  /** Whether anybody waits. */
  get isAwaited(): boolean {
    return this.#waiting.size > 0;
  }

  ring(): void {
    if (this.#waiting.size === 0) return;
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const wake of waiting) wake();
  }

  close(): void {
    this.#closed = true;
    this.ring();
  }

  /** Resolves at the next ring, or at once if `ready()` already. */
  wait(ready: () => boolean, signal: AbortSignal): Promise<void> {
    if (this.#closed) return Promise.reject(new StoreError("closed", "the store was closed"));
    if (ready() || signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const done = (): void => {
        signal.removeEventListener("abort", done);
        this.#waiting.delete(done);
        resolve();
      };
      signal.addEventListener("abort", done, { once: true });
      this.#waiting.add(done);
    });
  }
}
