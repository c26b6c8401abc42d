/**
 * The tables, and how they come to be. Migrations run in one transaction, under a lock that ends with it, so that several
 * servers can start at once; a database that a newer program has changed is left alone.
 */
import { randomBytes } from "node:crypto";
import { StoreError } from "../../store/store.js";
import type { Connection } from "./connection.js";
import { functionsOf } from "./functions.js";
import type { Pool } from "./pool.js";

/** How long a migration may take, in ms; others that start wait for it. */
const migrateMs = 60_000;

/** By version: what leads from the one before to it. */
const migrations: readonly ((schema: string) => readonly string[])[] = [
  (schema) => [...tablesOf(schema), ...functionsOf(schema)],
];

/** What rows are changed all the time: cleaned up long before a fifth of a table is dead. */
const busy = "autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000";

const tablesOf = (schema: string): readonly string[] => [
  // Everything that a commit counts on, in one row. system/timeline: the database that was written to last.
  // moved: why it must not be used; origin: the migration that filled it (store/archive.ts).
  `CREATE TABLE ${schema}.state (
    one boolean PRIMARY KEY DEFAULT true CHECK (one), epoch text NOT NULL, revision bigint NOT NULL,
    last_event bigint NOT NULL, token_high bigint NOT NULL, system text NOT NULL, timeline bigint NOT NULL,
    moved text, origin text) WITH (${busy})`,
  // Apart from it, so that moving the clock and committing do not wait for one another.
  `CREATE TABLE ${schema}.clock (one boolean PRIMARY KEY DEFAULT true CHECK (one),
    value bigint NOT NULL, wall_at timestamptz NOT NULL) WITH (${busy})`,
  `CREATE TABLE ${schema}.records (key text COLLATE "C" PRIMARY KEY, record text NOT NULL, rev bigint NOT NULL)
    WITH (fillfactor = 85, ${busy})`,
  `CREATE TABLE ${schema}.entries (entry text COLLATE "C" PRIMARY KEY, key text COLLATE "C" NOT NULL) WITH (${busy})`,
  // One row for the events of each commit; last: the number of the last of them.
  `CREATE TABLE ${schema}.feed (last bigint PRIMARY KEY, count int NOT NULL, at bigint NOT NULL, events text NOT NULL)
    WITH (${busy})`,
];

/** Brings the tables up to date, or throws: `unsupported` if they are of a newer program. */
export async function migrate(pool: Pool, schema: string, location: string): Promise<void> {
  await pool.with(async (connection, until) => {
    const run = (text: string, values: readonly unknown[] = []) =>
      connection.query(text, values, until - performance.now());
    const version = await versionOf(run, schema);
    if (version === migrations.length) return;
    refuseNewer(version, location);
    await run("BEGIN ISOLATION LEVEL READ COMMITTED");
    try {
      await run("SELECT pg_advisory_xact_lock(hashtext($1), 2)", [schema]);
      await upgrade(run, schema, location);
      await run("COMMIT");
    } catch (error) {
      if (connection.isOpen) await run("ROLLBACK");
      throw error;
    }
  }, migrateMs);
}

type Run = (text: string, values?: readonly unknown[]) => ReturnType<Connection["query"]>;

async function upgrade(run: Run, schema: string, location: string): Promise<void> {
  // Before anything else: a table that is read for the first time brings the names up to date that were looked up before the wait.
  const [there] = await run("SELECT 1 FROM pg_namespace WHERE nspname = $1", [schema]);
  const version = await versionOf(run, schema);
  refuseNewer(version, location);
  if (version === migrations.length) return;
  // Where it is there, the right to make one is not needed.
  if (there === undefined) await run(`CREATE SCHEMA ${schema}`);
  if (version === 0) await run(`CREATE TABLE ${schema}.schema_version (version int NOT NULL)`);
  for (const step of migrations.slice(version)) for (const text of step(schema)) await run(text);
  if (version === 0) await fill(run, schema);
  await run(`DELETE FROM ${schema}.schema_version`);
  await run(`INSERT INTO ${schema}.schema_version VALUES ($1)`, [migrations.length]);
}

/** The clock begins at the time of day, so that its numbers look like instants; from then on it goes its own way. */
async function fill(run: Run, schema: string): Promise<void> {
  await run(
    `INSERT INTO ${schema}.state (epoch, revision, last_event, token_high, system, timeline)
      SELECT $1, 1, 0, 0, h.system, h.timeline FROM ${schema}.here() h`,
    [randomBytes(6).toString("hex")],
  );
  await run(
    `INSERT INTO ${schema}.clock (value, wall_at)
      SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint, clock_timestamp()`,
  );
}

/** 0: nothing is there. */
async function versionOf(run: Run, schema: string): Promise<number> {
  const [[table] = []] = await run("SELECT to_regclass($1)::text", [`${schema}.schema_version`]);
  if (table === null || table === undefined) return 0;
  const [[version] = []] = await run(`SELECT version FROM ${schema}.schema_version`);
  return Number(version ?? 0);
}

function refuseNewer(version: number, location: string): void {
  if (version > migrations.length)
    throw new StoreError(
      "unsupported",
      `the tables in ${location} are of version ${version}, made by a newer Holdfast; this one knows version ${migrations.length}: start the newer program`,
    );
}
