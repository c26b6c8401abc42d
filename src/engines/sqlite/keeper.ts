/**
 * The keeper thread: slow work that must not stand in the way of a commit. It copies the write-ahead log into
 * the database file, and makes backups.
 */
import { closeSync, fsyncSync, openSync } from "node:fs";
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

/** A copy of one moment, compact, marked so that its first use knows that time has passed since. */
function backup(target: string, wallAt: number): void {
  const source = openDatabase(path, { readOnly: true });
  try {
    source.prepare("VACUUM INTO ?").run(target);
  } finally {
    source.close();
  }
  const copy = openDatabase(target);
  try {
    setMeta(copy, "stamp", wallAt);
  } finally {
    copy.close();
  }
  const file = openSync(target, "r");
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
      say({ type: "closed" });
      port.close();
      break;
  }
});
