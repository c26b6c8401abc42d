/**
 * Which SQLite library runs: Node's own where it has one that is new enough, else the packaged one. Both offer
 * the same synchronous API.
 */
import { createRequire } from "node:module";
import type { DatabaseSync as DatabaseSyncType } from "@photostructure/sqlite";
import { StoreError } from "../../store/store.js";

export type Database = InstanceType<typeof DatabaseSyncType>;
type Open = new (path: string, options?: { readOnly?: boolean; timeout?: number }) => Database;

/** Earlier versions can lose commits when the write-ahead log is reset at the wrong moment. */
const versionMin = [3, 51, 3] as const;

let chosen: Open | undefined;

export function openDatabase(path: string, options: { readOnly?: boolean } = {}): Database {
  chosen ??= choose();
  return new chosen(path, options);
}

function choose(): Open {
  const require = createRequire(import.meta.url);
  const builtIn = loadBuiltIn(require);
  if (builtIn !== undefined && isNewEnough(builtIn)) return builtIn;
  const packaged = require("@photostructure/sqlite").DatabaseSync as Open;
  if (isNewEnough(packaged)) return packaged;
  throw new StoreError(
    "unsupported",
    `SQLite ${versionMin.join(".")} or newer is needed, but this Node and the installed package have older ones: reinstall holdfast or use a newer Node`,
  );
}

/** Node prints a warning when the built-in module is first loaded: it is stable enough for us, so it is kept quiet. */
function loadBuiltIn(require: NodeJS.Require): Open | undefined {
  const emit = process.emitWarning;
  process.emitWarning = () => undefined;
  try {
    return require("node:sqlite").DatabaseSync as Open;
  } catch {
    return undefined;
  } finally {
    process.emitWarning = emit;
  }
}

function isNewEnough(library: Open): boolean {
  const database = new library(":memory:");
  try {
    return !isOlder(sqliteVersion(database));
  } finally {
    database.close();
  }
}

export function sqliteVersion(database: Database): string {
  return String(database.prepare("SELECT sqlite_version() AS version").get()?.version);
}

/** Whether a version is below the least one that is safe. */
export function isOlder(version: string): boolean {
  const parts = version.split(".").map(Number);
  for (const [i, least] of versionMin.entries()) {
    const part = parts[i] ?? 0;
    if (part !== least) return part < least;
  }
  return false;
}
