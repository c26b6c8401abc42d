/**
 * The main thread's own connection: reads of the tree and the feed, synchronous, microseconds each. It sees only
 * what is committed; what is newer is in memory.
 */
import type { Range, RangeRow } from "../../core/decision.js";
import type { Key } from "../../core/keys.js";
import type { AnyRecord } from "../../core/records.js";
import type { NumberedEvent } from "../../store/feed.js";
import { entryKey } from "../../store/ordered.js";
import { StoreError } from "../../store/store.js";
import { openDatabase } from "./binding.js";
import { entryLine, recordLine } from "./lines.js";
import { damaged } from "./schema.js";

export class Reader {
  readonly #database;
  readonly #get;
  readonly #range;
  readonly #feed;

  constructor(readonly path: string) {
    this.#database = openDatabase(path, { readOnly: true });
    this.#database.exec("PRAGMA busy_timeout = 5000; PRAGMA cache_size = -32768");
    this.#get = this.#database.prepare("SELECT value FROM tree WHERE key = ?");
    this.#range = this.#database.prepare("SELECT key, value FROM tree WHERE key >= ? AND key < ? ORDER BY key LIMIT ?");
    this.#feed = this.#database.prepare(
      "SELECT first, count, events FROM feed WHERE first >= coalesce((SELECT max(first) FROM feed WHERE first <= ?), ?) ORDER BY first LIMIT 64",
    );
  }

  record(key: Key): AnyRecord | null {
    return this.#guard(() => {
      const row = this.#get.get(recordLine(key));
      return row === undefined ? null : (JSON.parse(String(row["value"])) as AnyRecord);
    });
  }

  /** Rows of the tree within the range. */
  range(range: Range): RangeRow[] {
    const from = entryLine(entryKey(range.index, range.from));
    const to = entryLine(entryKey(range.index, range.to));
    const skip = entryLine(entryKey(range.index, "")).length;
    return this.#guard(() =>
      this.#range
        .all(from, to, range.limit)
        .map((row) => ({ sort: String(row["key"]).slice(skip), key: String(row["value"]) })),
    );
  }

  /** Events numbered above `after`; null if the first of them is no longer kept. */
  events(after: number, limit: number): NumberedEvent[] | null {
    return this.#guard(() => {
      const found: NumberedEvent[] = [];
      for (const row of this.#feed.all(after + 1, after + 1)) {
        const first = Number(row["first"]);
        if (found.length === 0 && first > after + 1) return null;
        const events = JSON.parse(String(row["events"])) as NumberedEvent["event"][];
        for (const [i, event] of events.entries()) if (first + i > after) found.push({ number: first + i, event });
        if (found.length >= limit) break;
      }
      return found;
    });
  }

  #guard<Result>(read: () => Result): Result {
    try {
      return read();
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      if (error instanceof SyntaxError || /malformed|corrupt|not a database/i.test(message))
        throw damaged(this.path, message);
      throw new StoreError("unavailable", `the data file cannot be read: ${message}`, { cause: error });
    }
  }

  close(): void {
    this.#database.close();
  }
}
