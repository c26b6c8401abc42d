/**
 * The feed on etcd: each commit with events overwrites one key with them, and the history of that key is the feed. A watch tells
 * of every change of it; what is older than the watch is read by another one from there, unless etcd has forgotten it by compaction.
 */
import { setTimeout as delay } from "node:timers/promises";
import type { FeedEvent } from "../../core/records.js";
import { decodeEvents, encodeEvents } from "../../store/codec.js";
import type { NumberedEvent } from "../../store/feed.js";
import { StoreError } from "../../store/store.js";
import type { Cluster } from "./cluster.js";
import type { CallError } from "./connection.js";
import { storeError } from "./failure.js";
import { decodeWatch, encodeWatch, type KeyValue, methods } from "./messages.js";

/** Events of one commit: a place in the feed is the commit's revision times this, and the event's own place in it. */
export const eventsMax = 1024;
/** Events kept here; the store above keeps more, and asks for each of them once. */
const keptMax = 4096;
/** Pause before a watch that ended is begun again, in ms. */
const retryMs = 100;
/** How long reading what is older may take, in ms. */
const historyMaxMs = 5_000;

export const encodeFeed = (events: readonly FeedEvent[]): string => encodeEvents(events);

const numbered = ({ value, revision }: KeyValue): NumberedEvent[] =>
  decodeEvents(value).map((event, i) => ({ number: revision * eventsMax + i, event }));

export class EtcdFeed {
  /** Every event above `#from` and up to the revision `#seen`. */
  #kept: NumberedEvent[] = [];
  #from = 0;
  #last = 0;
  #seen = 0;
  #ring: () => void = () => undefined;
  #failed: (error: unknown) => void = () => undefined;
  #isClosed = false;
  #cancel: () => void = () => undefined;

  constructor(
    readonly cluster: Cluster,
    readonly key: string,
    /** The revision that the data began with: before it there is no event. */
    readonly beginning: number,
  ) {}

  /** The number of the last event now, and the revision that this is true of. */
  async newest(): Promise<{ number: number; revision: number }> {
    const { found, revision } = await this.cluster.look({ reads: [{ key: this.key }] });
    const value = found[0]?.[0];
    const last = value === undefined ? undefined : numbered(value).at(-1);
    return { number: last?.number ?? this.beginning * eventsMax, revision };
  }

  /** Begins to watch. */
  async start(): Promise<void> {
    const { number, revision } = await this.newest();
    this.#from = this.#last = number;
    this.#seen = revision;
    void this.#watch();
  }

  listen(ring: () => void, failed: (error: unknown) => void): void {
    this.#ring = ring;
    this.#failed = failed;
  }

  /** As `SharedData.events`. */
  async events(after: number, limit: number): Promise<readonly NumberedEvent[] | null> {
    if (after < this.#from) return this.#history(after, limit);
    const start = this.#kept.findLastIndex(({ number }) => number <= after) + 1;
    return this.#kept.slice(start, start + limit);
  }

  close(): void {
    this.#isClosed = true;
    this.#cancel();
  }

  async #watch(): Promise<void> {
    while (!this.#isClosed) {
      try {
        await this.#watchOnce();
      } catch (error) {
        if (this.#isClosed) return;
        this.#failed(error);
      }
      if (!this.#isClosed) await delay(retryMs, undefined, { ref: false });
    }
  }

  /** Until the watch ends, for whatever reason. */
  async #watchOnce(): Promise<void> {
    let isForgotten = false;
    let cancel = (): void => undefined;
    const told = (message: Buffer): void => {
      const { events, compacted, cancelled } = decodeWatch(message);
      this.#take(events);
      isForgotten ||= compacted > 0;
      if (cancelled !== null) cancel();
    };
    await new Promise<void>((resolve, reject) => {
      this.cluster
        .stream(methods.watch, encodeWatch(this.key, this.#seen + 1), told, () => resolve())
        .then((stream) => {
          cancel = this.#cancel = stream.cancel;
          if (this.#isClosed) cancel();
        }, reject);
    });
    if (isForgotten) await this.#skip();
  }

  #take(changes: readonly KeyValue[]): void {
    for (const change of changes) {
      if (change.revision <= this.#seen) continue;
      const events = numbered(change);
      this.#kept.push(...events);
      this.#last = events.at(-1)?.number ?? this.#last;
      this.#seen = change.revision;
    }
    if (this.#kept.length > keptMax * 1.25)
      this.#from = this.#kept.splice(0, this.#kept.length - keptMax).at(-1)?.number ?? this.#from;
    if (changes.length > 0) this.#ring();
  }

  /** The place that we were at is compacted. If nothing has happened since, nothing was missed. */
  async #skip(): Promise<void> {
    const { number, revision } = await this.newest();
    if (number > this.#last) {
      this.#kept = [];
      this.#from = this.#last = number;
    }
    this.#seen = revision;
    this.#ring();
  }

  /** From the commit that `after` is in, up to where the watch began. */
  #history(after: number, limit: number): Promise<readonly NumberedEvent[] | null> {
    const until = this.#from;
    const found: NumberedEvent[] = [];
    return new Promise((resolve, reject) => {
      let cancel = (): void => undefined;
      const end = (settle: () => void): void => {
        clearTimeout(timer);
        settle();
        cancel();
      };
      const timer = setTimeout(
        () => end(() => reject(new StoreError("unavailable", "etcd: reading the older feed took too long"))),
        historyMaxMs,
      );
      const told = (message: Buffer): void => {
        const { events, compacted, cancelled } = decodeWatch(message);
        for (const event of events.flatMap(numbered)) if (event.number > after) found.push(event);
        if (compacted > 0) end(() => resolve(null));
        else if (cancelled !== null) end(() => reject(new StoreError("unavailable", `etcd: ${cancelled}`)));
        else if (found.length >= limit || (found.at(-1)?.number ?? 0) >= until)
          end(() => resolve(found.slice(0, limit)));
      };
      const ended = (why: CallError): void => end(() => reject(storeError(why, "unavailable")));
      this.cluster
        .stream(methods.watch, encodeWatch(this.key, Math.max(1, Math.floor(after / eventsMax))), told, ended)
        .then(
          (stream) => {
            cancel = stream.cancel;
          },
          (error: unknown) => end(() => reject(error)),
        );
    });
  }
}
