/**
 * The embedded engine's data as it is carried to another engine, or from one. The file is locked all the while, so no server runs on it, and
 * each step is one transaction.
 */
import { dirname } from "node:path";
import { indexEntries, type Key } from "../../core/keys.js";
import {
  type Arrived,
  disturbed,
  type Found,
  type Source,
  type Stored,
  type Target,
} from "../../store/archive.js";
import type { Clocks } from "../../store/clock.js";
import { encodeRecord } from "../../store/codec.js";
import { makeDirectory } from "../../store/directory.js";
import { type Database, openDatabase } from "./binding.js";
import { checksum } from "./checksum.js";
import { refuseStranger } from "./data-file.js";
import { EngineClock } from "./engine-clock.js";
import { FileLock } from "./file-lock.js";
import { entryLine, recordLine } from "./lines.js";
import { applyLog, recordsAfter, refuseStamped } from "./restore.js";
import {
  checkIntact,
  dropMeta,
  getMeta,
  makeDurable,
  makePrivate,
  newEpoch,
  prepareSchema,
  readFailure,
  setMeta,
} from "./schema.js";

export class SqliteArchive implements Source, Target {
  readonly #lock: FileLock;
  readonly #database: Database;
  readonly #clock: EngineClock;

  constructor(
    readonly location: string,
    readonly clocks: Clocks,
  ) {
    makeDirectory(dirname(location));
    refuseStranger(location);
    this.#clock = new EngineClock(clocks);
    this.#lock = new FileLock(location);
    let database: Database | undefined;
    try {
      refuseStamped(location);
      makePrivate(location);
      database = openDatabase(location);
      makeDurable(database, location);
      prepareSchema(database, location);
      database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
      checkIntact(database, location);
    } catch (error) {
      database?.close();
      this.#lock.release();
      throw readFailure(location, error);
    }
    this.#database = database;
  }

  get epoch(): string {
    return String(getMeta(this.#database, "epoch"));
  }

  async closed(): Promise<string | null> {
    return this.#word("moved");
  }

  #word(key: "moved" | "origin"): string | null {
    const word = getMeta(this.#database, key);
    return word === null ? null : String(word);
  }

  async seal(word: string): Promise<string> {
    return this.#step(() => {
      const before = this.#word("moved");
      if (before !== null) return before;
      applyLog(this.#database);
      const [engineAt, wallAt] = [getMeta(this.#database, "engine_at"), getMeta(this.#database, "wall_at")];
      this.#clock.start(Number(engineAt ?? 0), Number(wallAt ?? 0));
      // Where it stands now is where it stands for ever: a migration that is run again must not count the time between twice.
      this.#setClock(this.#clock.now());
      setMeta(this.#database, "moved", word);
      return word;
    });
  }

  async clock(): Promise<number> {
    return Number(getMeta(this.#database, "engine_at") ?? 0);
  }

  async page(after: Key, limit: number): Promise<readonly Stored[]> {
    return this.#step(() => recordsAfter(this.#database, after, limit));
  }

  async look(): Promise<Found> {
    const closed = this.#word("moved");
    const occupant = this.#step(() => {
      // Nothing is moved for the sake of looking, unless there is something to be moved.
      if (closed === null) applyLog(this.#database);
      return recordsAfter(this.#database, "", 1)[0]?.key ?? null;
    });
    return { closed, origin: this.#word("origin"), occupant, isServed: false };
  }

  async begin(word: string): Promise<void> {
    this.#step(() => setMeta(this.#database, "moved", word));
  }

  async put(word: string, records: readonly Stored[]): Promise<void> {
    const insert = this.#database.prepare("INSERT OR REPLACE INTO tree (key, value, sum) VALUES (?, ?, ?)");
    const put = (line: string, value: string): unknown => insert.run(line, value, checksum(line, value));
    this.#step(() => {
      if (this.#word("moved") !== word) throw disturbed(this.location);
      for (const { key, record } of records) {
        put(recordLine(key), encodeRecord(record));
        for (const { index, sort } of indexEntries(key, record)) put(entryLine(`${index}/${sort}`), key);
      }
    });
  }

  async finish(word: string, { clock }: Arrived): Promise<void> {
    this.#step(() => {
      if (this.#word("moved") !== word) throw disturbed(this.location);
      this.#database.exec("DELETE FROM feed");
      setMeta(this.#database, "epoch", newEpoch());
      setMeta(this.#database, "origin", word);
      this.#setClock(clock);
      dropMeta(this.#database, "moved");
    });
  }

  #setClock(engineAt: number): void {
    setMeta(this.#database, "engine_at", engineAt);
    setMeta(this.#database, "wall_at", Math.floor(this.clocks.wall()));
  }

  #step<Result>(body: () => Result): Result {
    try {
      this.#database.exec("BEGIN IMMEDIATE");
      const result = body();
      this.#database.exec("COMMIT");
      return result;
    } catch (error) {
      if (this.#database.isTransaction) this.#database.exec("ROLLBACK");
      throw readFailure(this.location, error);
    }
  }

  async close(): Promise<void> {
    try {
      this.#database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    } finally {
      this.#database.close();
      this.#lock.release();
    }
  }
}
