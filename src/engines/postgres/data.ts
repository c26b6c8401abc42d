/** Shared data in PostgreSQL: a reading is one statement, a commit one more, and neither outlives its deadline. */
import type { Ask } from "../../core/decision.js";
import { refuseClosed } from "../../store/archive.js";
import { decodeEvents } from "../../store/codec.js";
import type { NumberedEvent } from "../../store/feed.js";
import type { Commit, Reading, SharedData, SharedFacts } from "../../store/shared-data.js";
import { StoreError } from "../../store/store.js";
import { FeedBell } from "./bell.js";
import { Failure, type Row } from "./connection.js";
import { commitFailure, readFailure, settingsChanged } from "./failures.js";
import { Lineages } from "./lineage.js";
import type { Pool } from "./pool.js";
import { FeedTrimmer } from "./trimmer.js";
import type { PostgresPlace } from "./url.js";
import { askedOf, commitValues, toldOf } from "./values.js";

/** Changes of one commit, and what it compares: far above any batch, and a statement of some megabytes. */
const changesMax = 10_000;
const comparesMax = 20_000;
/** While one batch is on its way to the disk, the next is read and decided. Commits have one order, so more gain nothing. */
const lanesMax = 2;

export interface FeedLimits {
  readonly feedEventsMax: number;
  readonly feedAgeMaxMs: number;
}

export class PostgresData implements SharedData {
  readonly facts: SharedFacts;
  readonly #bell: FeedBell;
  readonly #trimmer: FeedTrimmer;
  readonly #lineages: Lineages;
  readonly #schema: string;
  readonly #location: string;
  #lastEvent = 0;

  constructor(
    readonly pool: Pool,
    place: PostgresPlace,
    readonly epoch: string,
    limits: FeedLimits,
    warn: (what: string) => void,
  ) {
    const { schema, location } = place;
    this.facts = { engine: "postgres", location, changesMax, comparesMax, lanesMax };
    this.#schema = schema;
    this.#location = location;
    this.#lineages = new Lineages(pool, schema, location, warn);
    this.#bell = new FeedBell(pool, schema, place.listen);
    this.#trimmer = new FeedTrimmer(pool, schema, limits);
  }

  async read(asks: readonly Ask[]): Promise<Reading> {
    const asked = askedOf(asks);
    const text = `SELECT kind, a, b, n FROM ${this.#schema}.read_batch($1, $2, $3, $4)`;
    try {
      for (;;) {
        const { revision } = this.#lineages;
        const told = toldOf(asked, await this.#read(text, asked.values));
        refuseClosed(this.#location, told.moved);
        if (await this.#lineages.accepts(told, revision)) return told.reading;
      }
    } catch (error) {
      throw readFailure(this.#location, error);
    }
  }

  /** A connection may have been cut while nobody looked: a reading is simply made again on another. */
  async #read(text: string, values: readonly unknown[]): Promise<readonly Row[]> {
    const query = () => this.pool.query(text, values);
    const { rows } = await query().catch((error) => {
      if (isCut(error)) return query();
      throw error;
    });
    return rows;
  }

  async commit(commit: Commit): Promise<"done" | "changed"> {
    const values = [this.#lineages.seen, ...commitValues(commit)];
    const places = values.map((_, i) => `$${i + 1}`).join(", ");
    try {
      const { rows, isWarned } = await this.pool.query(
        `SELECT ${this.#schema}.commit_batch(${places})`,
        values,
      );
      const end = rows[0]?.[0] ?? "";
      if (end !== "done") return this.#refused(end);
      // It waited for its standby, and was told not to: it is written here, and may be nowhere else.
      if (isWarned) throw new Failure("it stopped waiting for its standby", "", false, false);
    } catch (error) {
      throw commitFailure(this.#location, error);
    }
    this.#lineages.made(commit.revision + 1);
    if (commit.events.length > 0) this.#bell.call();
    return "done";
  }

  /** Nothing was written. A database that became another one is looked at when it is read again. */
  #refused(end: string): "changed" {
    if (end === "changed" || end === "lineage" || end === "moved") return "changed";
    if (end === "old") throw this.#lineages.oldPrimary();
    if (end === "fsync" || end === "isolation") throw settingsChanged(this.#location, end);
    throw new StoreError("corrupt", `the database ${this.#location} answered a commit with ${end}`);
  }

  async tick(from: number, to: number): Promise<number> {
    return this.#number(`SELECT ${this.#schema}.tick($1, $2)`, [from, to]);
  }

  async lastEvent(): Promise<number> {
    return this.#number(`SELECT last_event FROM ${this.#schema}.state`, []);
  }

  async #number(text: string, values: readonly unknown[]): Promise<number> {
    try {
      const [row] = await this.#read(text, values);
      return Number(row?.[0]);
    } catch (error) {
      throw readFailure(this.#location, error);
    }
  }

  async events(after: number, limit: number): Promise<readonly NumberedEvent[] | null> {
    const text = `SELECT last, count, events FROM ${this.#schema}.read_feed($1, $2)`;
    try {
      const [[last, , begin] = [], ...found] = await this.#read(text, [after, limit]);
      this.#lastEvent = Number(last);
      if (after < Number(begin)) return null;
      const events = found.flatMap(([end, count, told]) => {
        const first = Number(end) - Number(count) + 1;
        return decodeEvents(told ?? "[]").map((event, i) => ({ number: first + i, event }));
      });
      return events.filter(({ number }) => number > after).slice(0, limit);
    } catch (error) {
      throw readFailure(this.#location, error);
    }
  }

  listen(ring: () => void): void {
    this.#bell.start(ring);
    this.#trimmer.start();
  }

  /** Sends whoever uses this data elsewhere, for ever; resolves to where. The first word counts. */
  async seal(to: string): Promise<string> {
    try {
      const { rows } = await this.pool.query(`SELECT ${this.#schema}.seal($1)`, [to]);
      return rows[0]?.[0] ?? to;
    } catch (error) {
      throw commitFailure(this.#location, error);
    }
  }

  async gauges(): Promise<Readonly<Record<string, number>>> {
    return {
      feed_last_number: this.#lastEvent,
      failovers_total: this.#lineages.failovers,
      ...this.pool.counts,
      ...this.#bell.counts,
      ...this.#trimmer.counts,
    };
  }

  async close(): Promise<void> {
    this.#trimmer.close();
    await this.#bell.close();
    await this.pool.close();
  }
}

/** The connection ended, and not because of the deadline. */
const isCut = (error: unknown): boolean =>
  error instanceof Failure && !error.isCertain && !error.isOverdue && /^$|^E|^57P|^08/.test(error.code);
