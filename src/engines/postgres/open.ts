/** Opening the engine for several servers: connect, refuse what would break a promise, bring the tables up to date. */
import type { Report } from "../../store/report.js";
import { SharedStore } from "../../store/shared-store.js";
import { StoreError } from "../../store/store.js";
import { checkDatabase } from "./checks.js";
import { PostgresData } from "./data.js";
import { openFailure } from "./failures.js";
import { Pool } from "./pool.js";
import { migrate } from "./schema.js";
import { type PostgresPlace, readUrl } from "./url.js";

export interface PostgresOptions {
  readonly feedEventsMax?: number;
  readonly feedAgeMaxMs?: number;
  /** Told what works, and may not be what was meant. */
  readonly onWarning?: (what: string) => void;
  readonly onFailure?: Report;
}

export async function openPostgres(url: string, options: PostgresOptions = {}): Promise<SharedStore> {
  const data = await openData(url, options);
  const store = new SharedStore(data, options.onFailure);
  try {
    await store.open();
  } catch (error) {
    await store.close();
    throw error;
  }
  return store;
}

export async function openData(url: string, options: PostgresOptions = {}): Promise<PostgresData> {
  const place = readUrl(url);
  const pool = new Pool(place.client, place.connectionsMax, place.deadlineMs);
  try {
    const warnings = await checkDatabase(pool, place.location);
    await migrate(pool, place.schema, place.location);
    const epoch = await epochOf(pool, place);
    const { feedEventsMax = 100_000, feedAgeMaxMs = 3_600_000, onWarning = () => undefined } = options;
    for (const warning of warnings) onWarning(warning);
    return new PostgresData(pool, place, epoch, { feedEventsMax, feedAgeMaxMs }, onWarning);
  } catch (error) {
    await pool.close();
    throw openFailure(place.location, error);
  }
}

async function epochOf(pool: Pool, { schema, location }: PostgresPlace): Promise<string> {
  const { rows } = await pool.query(`SELECT epoch FROM ${schema}.state`);
  const epoch = rows[0]?.[0];
  if (typeof epoch !== "string")
    throw new StoreError("corrupt", `the table ${schema}.state in ${location} has lost its row`);
  return epoch;
}
