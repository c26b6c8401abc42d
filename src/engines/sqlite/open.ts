/** Opening the embedded engine: its options, its directory, its lock. */
import { chmodSync, existsSync, mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { type Clocks, systemClocks } from "../../store/clock.js";
import { FileLock } from "./file-lock.js";
import { refuseUnstamped } from "./restore.js";
import { SqliteStore } from "./store.js";

export interface SqliteOptions {
  readonly path: string;
  readonly clocks: Clocks;
  /** Events kept for streams that resume. */
  readonly feedEventsMax: number;
  readonly feedAgeMaxMs: number;
  /** Records kept in memory for fast reads. About 1 kB each. */
  readonly cacheRecordsMax: number;
  /** Log that may wait to be moved into the tree: bounds memory and the time to start after a crash. */
  readonly backlogBytesMax: number;
  /** Told when the file fails (what happened) and when it works again (null). */
  readonly onTrouble: (what: string | null) => void;
}

export const sqliteDefaults: Omit<SqliteOptions, "path"> = {
  clocks: systemClocks,
  feedEventsMax: 100_000,
  feedAgeMaxMs: 3_600_000,
  cacheRecordsMax: 50_000,
  backlogBytesMax: 32 * 2 ** 20,
  onTrouble: () => undefined,
};

export async function openSqlite(options: Partial<SqliteOptions> & { readonly path: string }): Promise<SqliteStore> {
  const { path } = options;
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const lock = new FileLock(path);
  try {
    refuseUnstamped(path);
    const store = new SqliteStore({ ...sqliteDefaults, ...options }, lock);
    await store.open();
    // Lease ids are secrets: nobody else may read the file.
    if (existsSync(path)) chmodSync(path, 0o600);
    return store;
  } catch (error) {
    lock.release();
    throw error;
  }
}
