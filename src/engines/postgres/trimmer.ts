/** Removes what the feed no longer needs to keep, by number and by engine time, in the background and in small steps. */
import type { Pool } from "./pool.js";

/** Between two looks, in ms; servers on one database do not look at the same time. */
const lookMs = 10_000;
/** Rows removed at once, and the pause before the next, in ms: nothing else should notice. */
const rowsMax = 500;
const pauseMs = 50;

export class FeedTrimmer {
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;
  #removed = 0;

  constructor(
    readonly pool: Pool,
    readonly schema: string,
    readonly limits: { readonly feedEventsMax: number; readonly feedAgeMaxMs: number },
  ) {}

  start(): void {
    this.#next(lookMs * (0.5 + Math.random()));
  }

  get counts(): Readonly<Record<string, number>> {
    return { feed_rows_trimmed_total: this.#removed };
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  #next(ms: number): void {
    if (this.#isClosed) return;
    this.#timer = setTimeout(() => void this.#trim(), ms);
    this.#timer.unref();
  }

  /** What fails now is done later. */
  async #trim(): Promise<void> {
    let removed = 0;
    try {
      const { rows } = await this.pool.query(`SELECT ${this.schema}.trim_feed($1, $2, $3)`, [
        this.limits.feedEventsMax,
        this.limits.feedAgeMaxMs,
        rowsMax,
      ]);
      removed = Number(rows[0]?.[0] ?? 0);
      this.#removed += removed;
    } catch {
      // The database is away, and whoever calls is told.
    }
    this.#next(removed >= rowsMax / 2 ? pauseMs : lookMs * (0.5 + Math.random()));
  }
}
