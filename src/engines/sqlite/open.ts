/** Opening the embedded engine: its options, its directory, its lock. */
import { dirname } from "node:path";
import { refuseClosed } from "../../store/archive.js";
import { type Clocks, systemClocks } from "../../store/clock.js";
import { makeDirectory } from "../../store/directory.js";
import { refuseStranger } from "./data-file.js";
import { FileLock } from "./file-lock.js";
import { refuseStamped } from "./restore.js";
import { lookAt, makePrivate } from "./schema.js";
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

export async function openSqlite(
  options: Partial<SqliteOptions> & { readonly path: string },
): Promise<SqliteStore> {
  const { path } = options;
  makeDirectory(dirname(path));
  refuseStranger(path);
  const lock = new FileLock(path);
  let store: SqliteStore | null = null;
  try {
    refuseStamped(path);
    refuseClosed(path, lookAt(path, "moved") as string | null);
    makePrivate(path);
    store = new SqliteStore({ ...sqliteDefaults, ...options }, lock);
    await store.open();
    return store;
  } catch (error) {
    if (store === null) lock.release();
    else await store.close();
    throw error;
  }
}
