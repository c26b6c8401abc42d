/**
 * Making a backup live again. Since it was taken the world went on: tokens were granted and leases may be held
 * that the copy does not know. So the first use of a stamped copy lifts every space's token floor above anything
 * that can have been granted since, ends what the copy believes to be held, forgets request ids, starts a new
 * feed, and lets nothing be granted until the longest lease that may still be out there is over.
 */
import { auditKey, everySpace, floorKey, historyKey, indexEntries, type Key } from "../../core/keys.js";
import { nodeAfterRestore } from "../../core/nodes/freed.js";
import type { AnyRecord, AuditRecord, FloorRecord } from "../../core/records.js";
import { endedByRestore, floorAfterRestore } from "../../core/restore.js";
import { decodeRecord, encodeRecord } from "../../store/codec.js";
import { StoreError } from "../../store/store.js";
import { type Database, openDatabase } from "./binding.js";
import { checksum, logPlace, verified } from "./checksum.js";
import { entryLine, fromLines, recordLine } from "./lines.js";
import {
  checkIntact,
  getMeta,
  makeDurable,
  newEpoch,
  prepareSchema,
  readFailure,
  setMeta,
  stampOf,
} from "./schema.js";

/** How far this machine's clock may be behind the one that stamped the backup. */
const clockBehindMaxMs = 3_600_000;
/** The space that exists without anybody having made it. */
const spaceDefault = "default";

export interface RestoreOptions {
  /** How long to grant nothing: undefined, as long as the longest TTL in the copy. */
  readonly quietMs?: number;
  readonly wallNow: number;
  readonly principal: string;
  readonly auditRetentionMs: number;
  /** How long the names remember that a restore ended their leases. */
  readonly recordRetentionMs: number;
  readonly auditId: string;
}

export interface Restored {
  readonly spaces: number;
  readonly leasesEnded: number;
  readonly quietMs: number;
}

/** A stamped copy must go through `restoreCopy` before anything is granted from it. */
export function refuseStamped(path: string): void {
  if (stampOf(path) !== null)
    throw new StoreError(
      "unsupported",
      `${path} is a backup that was not restored: run: holdfast restore ${path} --data DIR`,
    );
}

/** Turns a copy of a backup, already in its place, into a data file that can be served. One transaction. */
export function restoreCopy(path: string, options: RestoreOptions): Restored {
  const stamp = stampOf(path);
  if (stamp === null)
    throw new StoreError(
      "unsupported",
      `${path} is not a backup made by holdfast backup: nothing was changed`,
    );
  // Two restores of one backup are kept apart by the time between them.
  if (options.wallNow < stamp - clockBehindMaxMs)
    throw new StoreError(
      "unsupported",
      `this machine's clock says ${new Date(options.wallNow).toISOString()}, and the backup was made at ${new Date(stamp).toISOString()}: set the clock, then restore`,
    );
  const database = openDatabase(path);
  try {
    makeDurable(database, path);
    prepareSchema(database, path);
    checkIntact(database, path);
    database.exec("BEGIN IMMEDIATE");
    applyLog(database);
    const restored = rewrite(database, stamp, options);
    database.exec("DELETE FROM feed; DELETE FROM meta WHERE key = 'stamp'");
    setMeta(database, "epoch", newEpoch());
    database.exec("COMMIT; PRAGMA wal_checkpoint(TRUNCATE)");
    return restored;
  } catch (error) {
    throw readFailure(path, error);
  } finally {
    database.close();
  }
}

/** Everything that is committed is in the tree then. */
export function applyLog(database: Database): void {
  const put = database.prepare("INSERT OR REPLACE INTO tree (key, value, sum) VALUES (?, ?, ?)");
  const remove = database.prepare("DELETE FROM tree WHERE key = ?");
  let last = Number(getMeta(database, "applied") ?? 0);
  let engineAt = Number(getMeta(database, "engine_at") ?? 0);
  for (const row of database.prepare("SELECT * FROM log ORDER BY seq").all()) {
    if (Number(row.engine_at) >= engineAt) {
      engineAt = Number(row.engine_at);
      setMeta(database, "engine_at", engineAt);
      setMeta(database, "wall_at", Number(row.wall_at));
    }
    const place = logPlace(row.seq, row.engine_at, row.wall_at);
    for (const [key, value] of fromLines(verified(place, row.writes, row.sum)))
      if (value === null) remove.run(key);
      else put.run(key, value, checksum(key, value));
    last = Number(row.seq);
  }
  database.exec("DELETE FROM log");
  setMeta(database, "applied", last);
}

function rewrite(database: Database, stampedAt: number, options: RestoreOptions): Restored {
  const storedEngine = Number(getMeta(database, "engine_at") ?? 0);
  const storedWall = Number(getMeta(database, "wall_at") ?? stampedAt);
  const now = storedEngine + Math.max(0, options.wallNow - storedWall);
  const continued = { wallNow: options.wallNow, ageMs: options.wallNow - stampedAt };
  const floors = new Map<string, FloorRecord>();
  raise(floors, spaceDefault, 0, 0);
  raise(floors, everySpace, 0, 0);
  let leasesEnded = 0;
  const put = (key: Key, before: AnyRecord | null, after: AnyRecord | null): void =>
    replace(database, key, before, after);
  for (const { key, record } of records(database)) {
    // Also a space without a single grant in the copy may have had some since.
    if ("space" in record) raise(floors, record.space, 0, 0);
    if (record.kind === "floor") raise(floors, record.space, record.token, record.ttlHighMs);
    if (record.kind === "session" || record.kind === "request") put(key, record, null);
    const freed = record.kind === "node" ? nodeAfterRestore(record, now, options.principal) : null;
    if (freed !== null) {
      put(key, record, freed.node);
      const { space, node, seq } = freed.entry;
      put(historyKey(space, node, seq), null, freed.entry);
    }
    if (record.kind !== "lock") continue;
    raise(floors, record.space, record.token, 0);
    if (record.lease === null) continue;
    leasesEnded++;
    raise(floors, record.space, record.token, record.lease.ttlMs ?? 0);
    put(key, record, endedByRestore(record, now, options.principal, options.recordRetentionMs));
  }
  // Spaces that were made after the backup are held to the highest of all.
  for (const floor of [...floors.values()]) raise(floors, everySpace, floor.token, floor.ttlHighMs);
  let quiet = 0;
  for (const [space, floor] of floors) {
    const quietMs = options.quietMs ?? floor.ttlHighMs;
    quiet = Math.max(quiet, quietMs);
    put(floorKey(space), null, floorAfterRestore(floor, continued, now, quietMs));
    if (space !== everySpace)
      put(auditKey(space, options.auditId), null, auditOf(space, now, stampedAt, options));
  }
  setMeta(database, "engine_at", now);
  setMeta(database, "wall_at", options.wallNow);
  return { spaces: floors.size - 1, leasesEnded, quietMs: quiet };
}

function raise(floors: Map<string, FloorRecord>, space: string, token: number, ttlHighMs: number): void {
  const floor = floors.get(space) ?? { kind: "floor", space, token: 0, ttlHighMs: 0, quietUntil: 0 };
  floors.set(space, {
    ...floor,
    token: Math.max(floor.token, token),
    ttlHighMs: Math.max(floor.ttlHighMs, ttlHighMs),
  });
}

const auditOf = (space: string, now: number, stampedAt: number, options: RestoreOptions): AuditRecord => ({
  kind: "audit",
  id: options.auditId,
  space,
  at: now,
  wallAt: options.wallNow,
  principal: options.principal,
  action: "restore",
  subject: `backup of ${new Date(stampedAt).toISOString()}`,
  reason: null,
  token: null,
  gcAt: now + options.auditRetentionMs,
});

/** Records with keys above `after`, in order, at most `limit`. */
export function recordsAfter(
  database: Database,
  after: Key,
  limit: number,
): { key: Key; record: AnyRecord }[] {
  const prefix = recordLine("");
  const rows = database
    .prepare("SELECT key, value, sum FROM tree WHERE key > ? AND key < ? ORDER BY key LIMIT ?")
    .all(recordLine(after), "r0", limit);
  return rows.map((row) => {
    const line = String(row.key);
    return { key: line.slice(prefix.length), record: decodeRecord(verified(line, row.value, row.sum)) };
  });
}

/** All of them, also while they are changed. */
function* records(database: Database): Generator<{ key: Key; record: AnyRecord }> {
  for (let after: Key = ""; ; ) {
    const page = recordsAfter(database, after, 1000);
    yield* page;
    const last = page.at(-1);
    if (last === undefined) return;
    after = last.key;
  }
}

function replace(database: Database, key: Key, before: AnyRecord | null, after: AnyRecord | null): void {
  const insert = database.prepare("INSERT OR REPLACE INTO tree (key, value, sum) VALUES (?, ?, ?)");
  const remove = database.prepare("DELETE FROM tree WHERE key = ?");
  const put = (line: string, value: string): unknown => insert.run(line, value, checksum(line, value));
  for (const { index, sort } of before === null ? [] : indexEntries(key, before))
    remove.run(entryLine(`${index}/${sort}`));
  for (const { index, sort } of after === null ? [] : indexEntries(key, after))
    put(entryLine(`${index}/${sort}`), key);
  if (after === null) remove.run(recordLine(key));
  else put(recordLine(key), encodeRecord(after));
}
