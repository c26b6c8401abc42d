/**
 * The writer thread: the only one that changes the file. A batch is one row in the log (and one in the feed) and
 * one commit, so its cost does not depend on where the names lie. Between commits the thread moves what the log
 * holds into the tree, in short slices: the newest value of each key once, however often it changed.
 */
import { existsSync } from "node:fs";
import { parentPort, workerData } from "node:worker_threads";
import { StoreError } from "../../store/store.js";
import { Backlog } from "./backlog.js";
import { type Database, openDatabase } from "./binding.js";
import { checksum, feedPlace, logPlace, verified } from "./checksum.js";
import type { Batch, FromWriter, Opened, ToWriter, WriterOptions } from "./messages.js";
import { checkIntact, damaged, getMeta, makeDurable, prepareSchema, readFailure, setMeta } from "./schema.js";

const options = workerData as WriterOptions;
const port = parentPort;
if (port === null) throw new Error("writer.js runs as a worker thread");
const say = (message: FromWriter): void => port.postMessage(message);

/** Keys moved into the tree per slice: about 5 ms on a slow disk, so a commit waits no longer than that. */
const sliceKeys = 512;
/** Batches dropped from the log with it: a pass sets many free at once, and each is several pages. */
const sliceBatches = 16;
/** How long the thread must be idle before it works on the backlog without need. */
const idleMs = 20;
/** Size of the write-ahead log's file that is kept for reuse: twice what starts a checkpoint. */
const logBytesKept = 32 * 2 ** 20;
/** Rows removed from the feed per slice. */
const trimRows = 256;
/** The same while commits come in: a few rows, which are large then. */
const trimRowsBusy = 32;
/** Free pages given back to the file system per slice. */
const vacuumPages = 512;

let database: Database | null = null;
let statements: ReturnType<typeof prepare> | null = null;
let backlog = new Backlog(0);
/** The last batch that was told as committed, or found in a file that was accepted: no file without it is served. */
let acknowledgedSeq = 0;
/** Up to here the log's rows were dropped. */
let droppedSeq = 0;
let lastEvent = 0;
/** Whose file this is, once it was opened: another one in its place must not be served. */
let epoch: string | null = null;
/** The oldest event that is still kept. */
let firstEvent = 1;
/** The newest pair of engine and wall time that was committed: the log's rows take theirs with them when they go. */
let clock = { engineAt: 0, wallAt: 0 };
/** Damage was met since the file was opened: it is looked through before it is served again, however large it is. */
let isSuspect = false;
let lastWork = 0;
let scheduled = false;

function prepare(db: Database) {
  return {
    log: db.prepare("INSERT INTO log (seq, engine_at, wall_at, writes, sum) VALUES (?, ?, ?, ?, ?)"),
    feed: db.prepare("INSERT INTO feed (first, count, at, events, sum) VALUES (?, ?, ?, ?, ?)"),
    put: db.prepare("INSERT OR REPLACE INTO tree (key, value, sum) VALUES (?, ?, ?)"),
    remove: db.prepare("DELETE FROM tree WHERE key = ?"),
    dropLog: db.prepare("DELETE FROM log WHERE seq <= ?"),
    oldFeed: db.prepare("SELECT first, count, at FROM feed ORDER BY first LIMIT ?"),
    dropFeed: db.prepare("DELETE FROM feed WHERE first <= ?"),
    freePages: db.prepare("PRAGMA freelist_count"),
  };
}

function open(): Opened {
  if (epoch !== null && !existsSync(options.path)) throw notOurs("is gone");
  const db = openDatabase(options.path);
  database = db;
  makeDurable(db, options.path);
  prepareSchema(db, options.path);
  // After a failed sync the file system may only pretend to have the log's pages: writing them into the main
  // file, which this does and syncs, makes everything that is read from here on certain.
  const [busy] = Object.values(db.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get() ?? {});
  if (busy !== 0) throw new StoreError("unavailable", `${options.path} is being read by another program`);
  // A log that had to grow further gives the rest back when it begins anew.
  db.exec(`PRAGMA cache_size = -65536; PRAGMA journal_size_limit = ${logBytesKept}`);
  checkIntact(db, options.path, isSuspect);
  statements = prepare(db);
  const opened = readState(db);
  if (epoch !== null && (opened.epoch !== epoch || opened.lastSeq < acknowledgedSeq))
    throw notOurs("is not the file that was served");
  epoch = opened.epoch;
  acknowledgedSeq = opened.lastSeq;
  isSuspect = false;
  return opened;
}

const notOurs = (what: string): StoreError =>
  new StoreError(
    "unavailable",
    `${options.path} ${what}: put it back with its -wal, or restart to serve what is there`,
  );

function readState(db: Database): Opened {
  const applied = Number(getMeta(db, "applied") ?? 0);
  backlog = new Backlog(applied);
  const rows: { seq: number; writes: string }[] = [];
  let engineAt = Number(getMeta(db, "engine_at") ?? 0);
  let wallAt = Number(getMeta(db, "wall_at") ?? 0);
  let lastSeq = applied;
  droppedSeq = applied;
  for (const row of db.prepare("SELECT * FROM log ORDER BY seq").all()) {
    const seq = Number(row.seq);
    const writes = verified(logPlace(seq, row.engine_at, row.wall_at), row.writes, row.sum);
    // The tree has it: it only was not dropped yet. Checked all the same, for a damaged number can look like that.
    if (seq <= applied) {
      droppedSeq = Math.min(droppedSeq, seq - 1);
      continue;
    }
    if (seq !== lastSeq + 1) throw damaged(options.path, `batch ${lastSeq + 1} is missing from its log`);
    if (Number(row.engine_at) >= engineAt) {
      engineAt = Number(row.engine_at);
      wallAt = Number(row.wall_at);
    }
    lastSeq = seq;
    backlog.add(seq, writes);
    rows.push({ seq, writes });
  }
  clock = { engineAt, wallAt };
  const feed = db.prepare("SELECT first + count - 1 AS last FROM feed ORDER BY first DESC LIMIT 1").get();
  lastEvent = Math.max(Number(getMeta(db, "last_event") ?? 0), Number(feed?.last ?? 0));
  const oldest = db.prepare("SELECT first FROM feed ORDER BY first LIMIT 1").get();
  firstEvent = Number(oldest?.first ?? lastEvent + 1);
  return { epoch: String(getMeta(db, "epoch")), lastSeq, lastEvent, engineAt, wallAt, backlog: rows };
}

function commit(batch: Batch): void {
  let reached: "write" | "commit" = "write";
  try {
    if (database === null || statements === null) throw new Error("the file is not open");
    database.exec("BEGIN IMMEDIATE");
    const { seq, engineAt, wallAt, writes, firstEvent: first, eventCount, events } = batch;
    statements.log.run(seq, engineAt, wallAt, writes, checksum(logPlace(seq, engineAt, wallAt), writes));
    if (eventCount > 0)
      statements.feed.run(
        first,
        eventCount,
        engineAt,
        events,
        checksum(feedPlace(first, eventCount, engineAt), events),
      );
    reached = "commit";
    database.exec("COMMIT");
  } catch (error) {
    // A full disk is noticed while the frames are written, before the one that makes the commit valid.
    const certain = reached === "write" || /full/i.test(messageOf(error));
    closeQuietly();
    say({ type: "failed", certain, message: messageOf(error) });
    return;
  }
  say({ type: "committed", seq: batch.seq });
  acknowledgedSeq = batch.seq;
  clock = batch;
  lastEvent = Math.max(lastEvent, batch.firstEvent + batch.eventCount - 1);
  backlog.add(batch.seq, batch.writes);
  lastWork = performance.now();
  schedule();
}

/** Runs `body` in a transaction of its own; a failure closes the file as a failed commit does. */
function inTransaction(body: (db: Database, run: NonNullable<typeof statements>) => void): boolean {
  try {
    if (database === null || statements === null) return false;
    database.exec("BEGIN IMMEDIATE");
    body(database, statements);
    database.exec("COMMIT");
    return true;
  } catch (error) {
    giveUp(error);
    return false;
  }
}

/** After work of the writer's own that failed: nothing of a request is lost, and the file is to be opened anew. */
function giveUp(error: unknown): void {
  closeQuietly();
  isSuspect ||= readFailure(options.path, error).kind === "corrupt";
  say({ type: "failed", certain: true, message: messageOf(error) });
}

/** Whether the log holds anything that is not in the tree, or need not be in the log any more. */
const isBehind = (): boolean => backlog.size > 0 || droppedSeq < backlog.appliedSeq;

function slice(keys: number): void {
  const before = backlog.appliedSeq;
  const taken = backlog.take(keys);
  const applied = backlog.appliedSeq;
  const dropped = Math.min(applied, droppedSeq + sliceBatches * Math.ceil(keys / sliceKeys));
  const done = inTransaction((db, run) => {
    for (const [key, value] of taken)
      if (value === null) run.remove.run(key);
      else run.put.run(key, value, checksum(key, value));
    run.dropLog.run(dropped);
    setMeta(db, "applied", applied);
    setMeta(db, "engine_at", clock.engineAt);
    setMeta(db, "wall_at", clock.wallAt);
  });
  if (!done) return;
  droppedSeq = dropped;
  // Until the end of a pass the tree is read as it was: what has changed since is in memory.
  if (applied > before) say({ type: "applied", seq: applied, backlogBytes: backlog.bytes });
}

/** Far more events than wanted: they go even if there is no idle moment. */
const crowded = (): boolean => lastEvent - firstEvent >= 1.25 * options.feedEventsMax;

/** Forgets feed events that are too many or too old. Returns whether there may be more. */
function trim(now: number, rowsMax: number): boolean {
  if (statements === null) return false;
  let through = 0;
  let rows = 0;
  let last = 0;
  for (const row of statements.oldFeed.all(rowsMax)) {
    const end = Number(row.first) + Number(row.count) - 1;
    const tooMany = end <= lastEvent - options.feedEventsMax;
    const tooOld = Number(row.at) < now - options.feedAgeMaxMs;
    if (!tooMany && !tooOld) break;
    through = Number(row.first);
    last = end;
    rows++;
  }
  if (rows === 0) return false;
  const removed = inTransaction((db, run) => {
    run.dropFeed.run(through);
    setMeta(db, "last_event", lastEvent);
  });
  if (removed) {
    firstEvent = last + 1;
    say({ type: "trimmed", event: last });
  }
  return removed && rows === rowsMax;
}

function shrink(): boolean {
  const free = Number(Object.values(statements?.freePages.get() ?? {})[0] ?? 0);
  // Some free pages are kept for the next batches; more than that goes back to the file system.
  if (free < 4 * vacuumPages || database === null) return false;
  database.exec(`PRAGMA incremental_vacuum(${vacuumPages})`);
  return true;
}

let engineNow = 0;

/** The tree must follow though commits come in. Somewhat early: what comes in during a pass waits for the next one. */
const isPressed = (): boolean => backlog.bytes > 0.75 * options.backlogBytesMax;

/** Work that can wait also reads, outside of any transaction: what fails there must not end the thread. */
function work(): void {
  scheduled = false;
  try {
    workSlice();
  } catch (error) {
    giveUp(error);
  }
}

/** One slice of the work that can wait, if it can wait no longer or nothing else is to be done. */
function workSlice(): void {
  if (database === null) return;
  const idle = performance.now() - lastWork >= idleMs;
  const pressed = isPressed();
  const moreEvents = crowded() && trim(engineNow, trimRowsBusy);
  // The further behind, the larger the slices: the bound holds also when batches are larger than a slice.
  const late = pressed ? Math.floor(backlog.bytes / options.backlogBytesMax) : 0;
  const slices = Math.min(Math.max(late, 1), 8);
  if (isBehind() && (idle || pressed)) slice(slices * sliceKeys);
  else if (idle && !moreEvents && !trim(engineNow, trimRows) && !shrink()) return;
  schedule(moreEvents);
}

function schedule(soon = false): void {
  if (scheduled) return;
  scheduled = true;
  if (soon || isPressed()) setImmediate(work);
  else setTimeout(work, performance.now() - lastWork >= idleMs ? 0 : idleMs);
}

function tick(engineAt: number, wallAt: number): void {
  engineNow = engineAt;
  clock = { engineAt, wallAt };
  inTransaction((db) => {
    setMeta(db, "engine_at", engineAt);
    setMeta(db, "wall_at", wallAt);
  });
  schedule();
}

/** Leaves everything in the tree and the log empty, so that the next start has nothing to read. */
function close(): void {
  if (database === null) return;
  while (database !== null && isBehind()) slice(8 * sliceKeys);
  try {
    database?.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  } catch {
    // Another connection still reads: the next start does it.
  }
  closeQuietly();
}

function closeQuietly(): void {
  try {
    // The packaged library closes for good only when its statements are collected: no lock may wait for that.
    if (database?.isTransaction) database.exec("ROLLBACK");
  } catch {
    // What could not be rolled back was not committed either.
  }
  try {
    database?.close();
  } catch {
    // The file is in trouble already; what matters is that nothing more is written through this handle.
  }
  database = null;
  statements = null;
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

port.on("message", (message: ToWriter) => {
  switch (message.type) {
    case "open":
      try {
        say({ type: "opened", opened: open() });
        schedule();
      } catch (error) {
        closeQuietly();
        const { kind, message } = readFailure(options.path, error);
        say({
          type: "open-failed",
          kind: kind === "corrupt" || kind === "unsupported" ? kind : "unavailable",
          message,
        });
      }
      break;
    case "commit":
      engineNow = message.batch.engineAt;
      commit(message.batch);
      break;
    case "tick":
      tick(message.engineAt, message.wallAt);
      break;
    case "finish-checkpoint":
      try {
        database?.exec("PRAGMA wal_checkpoint(PASSIVE)");
      } catch {
        // Nothing is lost: the frames stay in the log until the next one.
      }
      break;
    case "close":
      close();
      port.close();
      break;
  }
});
