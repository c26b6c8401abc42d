/**
 * This engine's data as it is carried to another engine, or from one. What stands in `state.moved` stops every server at its next
 * reading or commit; what is put into a target is put only while the migration's own word stands there.
 */
import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { indexEntries, type Key } from "../../core/keys.js";
import {
  type Arrived,
  disturbed,
  type Found,
  incomplete,
  ownPrefixes,
  type Source,
  type Stored,
  type Target,
} from "../../store/archive.js";
import { decodeRecord, encodeRecord } from "../../store/codec.js";
import { NoDataError } from "../../store/store.js";
import type { Row } from "./connection.js";
import type { PostgresData } from "./data.js";
import { commitFailure, openFailure, readFailure } from "./failures.js";
import { openData } from "./open.js";
import { Pool } from "./pool.js";
import { type PostgresPlace, readUrl } from "./url.js";
import { entryOf } from "./values.js";

/** A page may be large and the disk busy: longer than a call of a server may take, in ms. */
const deadlineMs = 60_000;
/** A clock that stands still for so long is moved by nobody, in ms. */
const watchMs = 1500;

/** Throws `NoDataError` if there is none. */
export async function openPostgresSource(url: string): Promise<Source> {
  const place = readUrl(url);
  await refuseNothing(place);
  const archive = new PostgresArchive(await openData(url), place);
  try {
    // What a server does first: a database that took over from another is made sure of before its data is trusted.
    if ((await archive.closed()) === null) await archive.data.read([]);
    return archive;
  } catch (error) {
    await archive.close();
    throw error;
  }
}

export async function openPostgresTarget(url: string): Promise<Target> {
  return new PostgresArchive(await openData(url), readUrl(url));
}

/** Before tables are made: a place without any is named by mistake. */
async function refuseNothing({
  client,
  schema,
  location,
  deadlineMs: withinMs,
}: PostgresPlace): Promise<void> {
  const pool = new Pool(client, 1, withinMs);
  try {
    const { rows } = await pool.query("SELECT to_regclass($1)::text", [`${schema}.state`]);
    if (rows[0]?.[0] === null) throw new NoDataError(location);
  } catch (error) {
    throw openFailure(location, error);
  } finally {
    await pool.close();
  }
}

type Run = (text: string, values?: readonly unknown[]) => Promise<readonly Row[]>;
type Telling = (location: string, error: unknown) => unknown;

export class PostgresArchive implements Source, Target {
  readonly location: string;
  readonly epoch: string;
  readonly #schema: string;

  constructor(
    readonly data: PostgresData,
    { location, schema }: PostgresPlace,
  ) {
    this.location = location;
    this.epoch = data.epoch;
    this.#schema = schema;
  }

  async closed(): Promise<string | null> {
    const [[moved = null] = []] = await this.#rows(`SELECT moved FROM ${this.#schema}.state`);
    return moved;
  }

  seal(word: string): Promise<string> {
    return this.data.seal(word);
  }

  /** Servers that still run may move it on; it is never ahead of time. */
  async clock(): Promise<number> {
    const [[value] = []] = await this.#rows(`SELECT value FROM ${this.#schema}.clock`);
    return Number(value);
  }

  async page(after: Key, limit: number): Promise<readonly Stored[]> {
    const rows = await this.#rows(
      `SELECT key, record FROM ${this.#schema}.records WHERE key > $1 ORDER BY key LIMIT $2`,
      [after, limit],
    );
    return rows.map(([key, record]) => ({ key: key ?? "", record: decodeRecord(record ?? "") }));
  }

  async look(): Promise<Found> {
    const [[closed = null, origin = null, occupant = null, own] = []] = await this.#rows(
      `SELECT moved, origin, (SELECT key FROM ${this.#schema}.records WHERE NOT ${ownKeys} ORDER BY key LIMIT 1),
        (SELECT count(*) FROM ${this.#schema}.records WHERE ${ownKeys}) FROM ${this.#schema}.state`,
    );
    return { closed, origin, occupant, isServed: own !== "0" && (await this.#isServed()) };
  }

  /** What a server leaves behind when it is killed looks like one that runs; but only those that run move the clock. */
  async #isServed(): Promise<boolean> {
    const before = await this.clock();
    await delay(watchMs);
    return (await this.clock()) !== before;
  }

  /** After all commits that are under way, and before any other: a server may have started here since somebody looked. */
  async begin(word: string): Promise<void> {
    const text = `WITH s AS (UPDATE ${this.#schema}.state SET moved = $1 WHERE moved IS NULL
          AND NOT EXISTS (SELECT 1 FROM ${this.#schema}.records WHERE NOT ${ownKeys}) RETURNING 1),
        r AS (DELETE FROM ${this.#schema}.records WHERE EXISTS (SELECT 1 FROM s)),
        e AS (DELETE FROM ${this.#schema}.entries WHERE EXISTS (SELECT 1 FROM s))
        SELECT count(*) FROM s`;
    const [[begun] = []] = await this.#onOne(async (run) => {
      await run("BEGIN ISOLATION LEVEL READ COMMITTED");
      // A statement of its own: what the next one sees is of the moment after the wait.
      await run("SELECT pg_advisory_xact_lock(hashtext($1), 1)", [this.#schema]);
      const rows = await run(text, [word]);
      await run("COMMIT");
      return rows;
    }, commitFailure);
    if (begun !== "1") throw disturbed(this.location);
  }

  async put(word: string, records: readonly Stored[]): Promise<void> {
    const entries = records.flatMap(({ key, record }) =>
      indexEntries(key, record).map(({ index, sort }) => [entryOf(index, sort), key] as const),
    );
    const [[there] = []] = await this.#change(
      `WITH s AS (SELECT revision FROM ${this.#schema}.state WHERE moved = $1 FOR SHARE),
        r AS (INSERT INTO ${this.#schema}.records (key, record, rev)
          SELECT p.key, p.record, s.revision FROM s, unnest($2::text[], $3::text[]) p(key, record)
          ON CONFLICT (key) DO UPDATE SET record = excluded.record, rev = excluded.rev),
        e AS (INSERT INTO ${this.#schema}.entries (entry, key)
          SELECT p.entry, p.key FROM s, unnest($4::text[], $5::text[]) p(entry, key)
          ON CONFLICT (entry) DO UPDATE SET key = excluded.key)
        SELECT count(*) FROM s`,
      [
        word,
        records.map(({ key }) => key),
        records.map(({ record }) => encodeRecord(record)),
        entries.map(([entry]) => entry),
        entries.map(([, key]) => key),
      ],
    );
    if (there !== "1") throw disturbed(this.location);
  }

  async finish(word: string, arrived: Arrived): Promise<void> {
    const { clock, tokenHigh, records } = arrived;
    const [[finished] = []] = await this.#change(
      `WITH s AS (UPDATE ${this.#schema}.state SET moved = NULL, origin = $1, epoch = $2, revision = revision + 1,
          token_high = greatest(token_high, $3)
          WHERE moved = $1 AND (SELECT count(*) FROM ${this.#schema}.records) = $5 RETURNING 1),
        c AS (UPDATE ${this.#schema}.clock SET value = $4, wall_at = clock_timestamp() WHERE EXISTS (SELECT 1 FROM s)),
        f AS (DELETE FROM ${this.#schema}.feed WHERE EXISTS (SELECT 1 FROM s))
        SELECT count(*) FROM s`,
      [word, randomBytes(6).toString("hex"), tokenHigh, clock, records],
    );
    if (finished !== "1") await this.#refuse(word, arrived);
    // Plans that were made for empty tables would be kept for a while.
    await this.#change(`ANALYZE ${this.#schema}.records, ${this.#schema}.entries`);
  }

  async #refuse(word: string, arrived: Arrived): Promise<never> {
    const [[found] = []] = await this.#rows(`SELECT count(*) FROM ${this.#schema}.records`);
    throw (await this.closed()) === word
      ? incomplete(this.location, Number(found), arrived)
      : disturbed(this.location);
  }

  close(): Promise<void> {
    return this.data.close();
  }

  #rows(text: string, values: readonly unknown[] = []): Promise<readonly Row[]> {
    return this.#run(text, values, readFailure);
  }

  #change(text: string, values: readonly unknown[] = []): Promise<readonly Row[]> {
    return this.#run(text, values, commitFailure);
  }

  #run(text: string, values: readonly unknown[], failure: Telling): Promise<readonly Row[]> {
    return this.#onOne((run) => run(text, values), failure);
  }

  /** Statements on one connection. Where one fails, the connection is dropped, and with it what it had begun. */
  async #onOne(body: (run: Run) => Promise<readonly Row[]>, failure: Telling): Promise<readonly Row[]> {
    try {
      return await this.data.pool.with(async (connection, until) => {
        try {
          return await body((text, values = []) => connection.query(text, values, until - performance.now()));
        } catch (error) {
          connection.destroy();
          throw error;
        }
      }, deadlineMs);
    } catch (error) {
      throw failure(this.location, error);
    }
  }
}

const ownKeys = `(${ownPrefixes.map((prefix) => `key LIKE '${prefix}%'`).join(" OR ")})`;
