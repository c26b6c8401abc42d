/**
 * The change feed of the embedded engine: the newest events from memory, older ones from the file. Numbers have no
 * gaps; what is no longer kept is said, never skipped.
 */
import type { FeedEvent } from "../../core/records.js";
import { Bell, type FeedSource, type NumberedEvent } from "../../store/feed.js";
import type { Reader } from "./reader.js";

/** Events kept in memory for followers that are up to date. */
const recentMax = 8192;

export class FeedTail implements FeedSource {
  readonly #bell = new Bell();
  #epoch = "";
  #last = 0;
  #trimmed = 0;
  #recent: NumberedEvent[] = [];

  /** `reader` throws if the file cannot be read now. */
  constructor(readonly reader: () => Reader) {}

  get epoch(): string {
    return this.#epoch;
  }

  last(): number {
    return this.#last;
  }

  /** Begins anew with what the file holds. */
  reset(epoch: string, last: number): void {
    this.#epoch = epoch;
    this.#last = last;
    this.#recent = [];
    this.#bell.ring();
  }

  /** These events are durable now. */
  append(events: readonly FeedEvent[]): void {
    if (events.length === 0) return;
    for (const event of events) this.#recent.push({ number: ++this.#last, event });
    if (this.#recent.length > 2 * recentMax) this.#recent.splice(0, this.#recent.length - recentMax);
  }

  /** Tells followers; apart from `append`, so that replies go out first. */
  ring(): void {
    this.#bell.ring();
  }

  /** Events up to this number are no longer in the file. */
  trim(number: number): void {
    this.#trimmed = number;
  }

  read(after: number, limit: number): readonly NumberedEvent[] | null {
    const reader = this.reader();
    if (after >= this.#last) return [];
    const first = this.#recent[0]?.number;
    if (first !== undefined && after + 1 >= first)
      return this.#recent.slice(after + 1 - first, after + 1 - first + limit);
    if (after < this.#trimmed) return null;
    return reader.events(after, limit)?.filter((event) => event.number <= this.#last) ?? null;
  }

  more(after: number, signal: AbortSignal): Promise<void> {
    return this.#bell.wait(() => this.#last > after, signal);
  }

  close(): void {
    this.#bell.close();
  }
}
