/**
 * The data file: its marks, its tables, its versions. Opening says clearly what it cannot use: a file of another
 * program, of a newer Holdfast, or a damaged one.
 */
import { randomBytes } from "node:crypto";
import { closeSync, openSync, statSync } from "node:fs";
import { StoreError } from "../../store/store.js";
import { type Database, openDatabase } from "./binding.js";
import { checksum, feedPlace, verified } from "./checksum.js";

/** "HOLD": marks the file as ours. */
const applicationId = 0x484f_4c44;
export const schemaVersion = 2;

/**
 * log: committed batches whose writes are not yet in `tree`. feed: events of committed batches, by the number of
 * their first. tree: every record and index entry, in key order. meta: a few facts, see below. sum: checksum.ts.
 */
const tablesV1 = `
  CREATE TABLE meta (key TEXT PRIMARY KEY, value ANY, sum INTEGER NOT NULL) STRICT, WITHOUT ROWID;
  CREATE TABLE log (seq INTEGER PRIMARY KEY, engine_at INTEGER NOT NULL, wall_at INTEGER NOT NULL, writes TEXT NOT NULL, sum INTEGER NOT NULL) STRICT;
  CREATE TABLE feed (first INTEGER PRIMARY KEY, count INTEGER NOT NULL, at INTEGER NOT NULL, events TEXT NOT NULL, sum INTEGER NOT NULL) STRICT;
  CREATE TABLE tree (key TEXT PRIMARY KEY, value TEXT NOT NULL, sum INTEGER NOT NULL) STRICT, WITHOUT ROWID;
`;

/** One step per version: what turns a file of version n into n + 1. */
const migrations: readonly ((database: Database) => void)[] = [
  (database) => {
    database.exec(tablesV1);
    setMeta(database, "epoch", newEpoch());
  },
  // Locks and events by position (store/codec.ts): what is there stays readable, an older program must not try.
  () => undefined,
];

export const newEpoch = (): string => randomBytes(6).toString("hex");

/**
 * Facts in `meta`: epoch of the feed, seq up to which `tree` is complete, number of the last event, clock pair, backup stamp; why it
 * must not be used, and the migration that filled it (store/archive.ts).
 */
export type MetaKey =
  | "epoch"
  | "applied"
  | "last_event"
  | "engine_at"
  | "wall_at"
  | "stamp"
  | "moved"
  | "origin";

export function getMeta(database: Database, key: MetaKey): string | number | null {
  const row = database.prepare("SELECT value, sum FROM meta WHERE key = ?").get(key);
  if (row === undefined) return null;
  verified(key, row.value, row.sum);
  return row.value as string | number;
}

export function setMeta(database: Database, key: MetaKey, value: string | number): void {
  const sum = checksum(key, String(value));
  database.prepare("INSERT OR REPLACE INTO meta (key, value, sum) VALUES (?, ?, ?)").run(key, value, sum);
}

export function dropMeta(database: Database, key: MetaKey): void {
  database.prepare("DELETE FROM meta WHERE key = ?").run(key);
}

const pragma = (database: Database, name: string): unknown =>
  Object.values(database.prepare(`PRAGMA ${name}`).get() ?? {})[0];

/** Sets and checks what durability rests on. For every connection that writes. */
export function makeDurable(database: Database, path: string): void {
  database.exec("PRAGMA busy_timeout = 5000");
  const mode = pragma(database, "journal_mode = WAL");
  database.exec("PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0");
  const synchronous = pragma(database, "synchronous");
  if (mode !== "wal" || synchronous !== 2)
    throw new StoreError(
      "unsupported",
      `${path}: the file system does not let SQLite keep commits safe (journal_mode=${String(mode)}, synchronous=${String(synchronous)}): put the data on a local disk`,
    );
}

/** Opens or creates the tables; refuses what is not ours, newer or damaged. */
export function prepareSchema(database: Database, path: string): void {
  const version = identify(database, path);
  if (version === 0) create(database);
  else migrate(database, version);
}

/** Lease ids are secrets: nobody else may read the file, nor its log, which gets the file's mode. */
export function makePrivate(path: string): void {
  closeSync(openSync(path, "a", 0o600));
}

/** The stamp of a backup, if the file is one. */
export function stampOf(path: string): number | null {
  const stamp = lookAt(path, "stamp");
  return stamp === null ? null : Number(stamp);
}

/** Looks at a file without changing it: refuses what is not ours or newer, and returns the fact if it has it. */
export function lookAt(path: string, key: MetaKey): string | number | null {
  const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  if (size === 0) return null;
  // SQLite takes a file of one byte for an empty database and would overwrite it.
  if (size < 512) throw damaged(path, `only ${size} bytes long`);
  let database: Database | null = null;
  try {
    database = openDatabase(path, { readOnly: true });
    return identify(database, path) === 0 ? null : getMeta(database, key);
  } catch (error) {
    throw readFailure(path, error);
  } finally {
    database?.close();
  }
}

/** The version of the schema; 0: an empty file. */
function identify(database: Database, path: string): number {
  const version = Number(pragma(database, "user_version"));
  const id = Number(pragma(database, "application_id"));
  const tables = Number(Object.values(database.prepare("SELECT count(*) FROM sqlite_schema").get() ?? {})[0]);
  if (id === 0 && version === 0 && tables === 0) return 0;
  if (id !== applicationId)
    throw new StoreError("corrupt", `${path} is a database, but not one of Holdfast: name another file`);
  if (version > schemaVersion)
    throw new StoreError(
      "unsupported",
      `${path} was written by a newer Holdfast (schema ${version}, this one knows up to ${schemaVersion}): upgrade this program; the file was not touched`,
    );
  return version;
}

/** Files up to this size are checked page by page and row by row at each start; for larger ones that takes too long. */
const fullCheckBytesMax = 16 * 2 ** 20;

/** Refuses a file that is cut off or, where that is quick to tell or there is cause to, damaged inside. After the log was copied into it. */
export function checkIntact(database: Database, path: string, isSuspect = false): void {
  const expected = Number(pragma(database, "page_count")) * Number(pragma(database, "page_size"));
  const actual = statSync(path).size;
  if (actual < expected) throw damaged(path, `${actual} bytes long instead of ${expected}`);
  if (actual > fullCheckBytesMax && !isSuspect) return;
  const damage = String(pragma(database, "quick_check(1)"));
  if (damage !== "ok") throw damaged(path, damage);
  for (const { key, value, sum } of database.prepare("SELECT key, value, sum FROM tree").iterate())
    verified(String(key), value, sum);
  for (const { first, count, at, events, sum } of database.prepare("SELECT * FROM feed").iterate())
    verified(feedPlace(first, count, at), events, sum);
}

export function damaged(path: string, what: string): StoreError {
  return new StoreError(
    "corrupt",
    `${path} is damaged (${what}): stop, keep a copy of the file with its -wal, and restore the last backup with: holdfast restore BACKUP --data DIR`,
  );
}

/** What a failed read means: a damaged file, or one that cannot be had now. */
export function readFailure(path: string, error: unknown): StoreError {
  if (error instanceof StoreError) return error;
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof SyntaxError || /malformed|corrupt|not a database/i.test(message))
    return damaged(path, message);
  return new StoreError("unavailable", `${path} cannot be read: ${message}`, { cause: error });
}

function create(database: Database): void {
  // Must come before the first table: lets the file shrink again in small steps.
  database.exec("PRAGMA auto_vacuum = INCREMENTAL; VACUUM");
  migrate(database, 0);
}

function migrate(database: Database, from: number): void {
  for (let version = from; version < schemaVersion; version++) {
    database.exec("BEGIN IMMEDIATE");
    migrations[version]?.(database);
    database.exec(`PRAGMA user_version = ${version + 1}; PRAGMA application_id = ${applicationId}; COMMIT`);
  }
}
