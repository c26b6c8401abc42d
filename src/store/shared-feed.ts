/**
 * The feed of data that several servers share. Each server reads every event once and keeps the newest for all who follow;
 * who resumes further back reads from the data itself.
 */
import type { Stop, Timer } from "./clock.js";
import { Bell, type FeedSource, type NumberedEvent } from "./feed.js";
import type { SharedData } from "./shared-data.js";
import { StoreError } from "./store.js";

/** Events kept in memory for followers: what a slow one may be behind before it reads for itself. */
const keptMax = 8192;
const pageSize = 512;
/** Pause after the data could not be read, in ms. */
const retryMs = 250;
const never = new AbortController().signal;

export class SharedFeed implements FeedSource {
  readonly #bell = new Bell();
  /** Every event above `#from` and up to `#through`. */
  #kept: NumberedEvent[] = [];
  #from = 0;
  #through = 0;
  #isReading = false;
  #isRung = false;
  /** Why nothing more is read. */
  #over: StoreError | null = null;
  #retry: Stop | undefined;

  constructor(
    readonly data: SharedData,
    readonly after: Timer,
    readonly failed: (error: unknown) => void,
  ) {}

  get epoch(): string {
    return this.data.epoch;
  }

  async start(): Promise<void> {
    this.#from = this.#through = await this.data.lastEvent();
    this.data.listen(
      () => this.ring(),
      (error) => this.#over === null && this.failed(error),
    );
  }

  /** There may be more. */
  ring(): void {
    this.#isRung = true;
    if (!this.#isReading && this.#over === null) void this.#readOn();
  }

  last(): number {
    return this.#through;
  }

  /** Resolves once `last` is no older than this call. */
  async catchUp(): Promise<void> {
    if (this.#over !== null) throw this.#over;
    const last = await this.data.lastEvent();
    this.ring();
    const isThere = (): boolean => this.#over !== null || this.#through >= last;
    while (!isThere()) await this.#bell.wait(isThere, never);
  }

  async read(after: number, limit: number): Promise<readonly NumberedEvent[] | null> {
    if (this.#over !== null) throw this.#over;
    if (after >= this.#through) return [];
    if (after < this.#from) return this.data.events(after, limit);
    const start = firstAbove(this.#kept, after);
    return this.#kept.slice(start, start + limit);
  }

  more(after: number, signal: AbortSignal): Promise<void> {
    if (this.#over !== null) return Promise.reject(this.#over);
    return this.#bell.wait(() => this.#through > after, signal);
  }

  /** Whoever follows is told why. */
  close(why = new StoreError("closed", "the store was closed")): void {
    this.#over ??= why;
    this.#retry?.();
    this.#bell.close();
  }

  async #readOn(): Promise<void> {
    this.#isReading = true;
    try {
      while (this.#isRung && this.#over === null) {
        this.#isRung = false;
        const events = await this.data.events(this.#through, pageSize);
        if (events === null) await this.#skip();
        else if (events.length > 0) this.#take(events);
      }
    } catch (error) {
      this.#isReading = false;
      if (this.#over !== null) return;
      this.failed(error);
      this.#retry = this.after(retryMs, () => this.ring());
    }
    this.#isReading = false;
  }

  #take(events: readonly NumberedEvent[]): void {
    this.#kept.push(...events);
    if (this.#kept.length > keptMax * 1.25)
      this.#from = this.#kept.splice(0, this.#kept.length - keptMax).at(-1)?.number ?? this.#from;
    this.#through = events.at(-1)?.number ?? this.#through;
    this.#isRung ||= events.length === pageSize;
    this.#bell.ring();
  }

  /** Too far behind: whoever follows finds out by its own place. */
  async #skip(): Promise<void> {
    this.#from = this.#through = await this.data.lastEvent();
    this.#kept = [];
    this.#bell.ring();
  }
}

/** Where in a list in order the first number above `after` stands. */
function firstAbove(events: readonly NumberedEvent[], after: number): number {
  let [low, high] = [0, events.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((events[middle]?.number ?? 0) > after) high = middle;
    else low = middle + 1;
  }
  return low;
}
