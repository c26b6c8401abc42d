/**
 * The keeper thread: slow work that must not stand in the way of a commit. It copies the write-ahead log into
 * the database file, and makes backups.
 */
import { closeSync, existsSync, fsyncSync, openSync, renameSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import { parentPort, workerData } from "node:worker_threads";
import { type Database, openDatabase } from "./binding.js";
import type { FromKeeper, ToKeeper } from "./messages.js";
import { setMeta } from "./schema.js";

const { path } = workerData as { path: string };
const port = parentPort;
if (port === null) throw new Error("keeper.js runs as a worker thread");
const say = (message: FromKeeper): void => port.postMessage(message);

function checkpoint(): void {
  let database: Database | null = null;
  try {
    database = openDatabase(path);
    database.exec("PRAGMA busy_timeout = 1000; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0");
    database.exec("PRAGMA wal_checkpoint(PASSIVE)");
  } catch {
    // The log keeps growing and the next try does more; the writer reports a file in trouble.
  } finally {
    database?.close();
  }
}

/**
 * A copy of one moment, compact, marked so that its first use knows that time has passed since. It gets its name
 * when it is marked and whole: a backup that was interrupted can not be taken for one, nor for a data file.
 */
function backup(target: string, wallAt: number): void {
  if (existsSync(target)) throw new Error(`${target} exists already`);
  const part = `${target}.part`;
  rmSync(part, { force: true });
  // Lease ids are secrets: nobody else may read the copy.
  closeSync(openSync(part, "wx", 0o600));
  try {
    copy(part, wallAt);
    renameSync(part, target);
    sync(dirname(target));
  } catch (error) {
    rmSync(part, { force: true });
    throw error;
  }
}

function copy(target: string, wallAt: number): void {
  const source = openDatabase(path, { readOnly: true });
  try {
    source.prepare("VACUUM INTO ?").run(target);
  } finally {
    source.close();
  }
  const database = openDatabase(target);
  try {
    setMeta(database, "stamp", wallAt);
  } finally {
    database.close();
  }
  sync(target);
}

function sync(path: string): void {
  const file = openSync(path, "r");
  fsyncSync(file);
  closeSync(file);
}

port.on("message", (message: ToKeeper) => {
  switch (message.type) {
    case "checkpoint":
      checkpoint();
      say({ type: "checkpointed" });
      break;
    case "backup": {
      let error: string | null = null;
      try {
        backup(message.target, message.wallAt);
      } catch (cause) {
        error = cause instanceof Error ? cause.message : String(cause);
      }
      say({ type: "backed-up", id: message.id, error });
      break;
    }
    case "close":
      port.close();
      break;
  }
});
