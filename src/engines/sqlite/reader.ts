/**
 * The main thread's own connection: reads of the tree and the feed, synchronous, microseconds each. It sees only
 * what is committed; what is newer is in memory.
 */
import type { Range, RangeRow } from "../../core/decision.js";
import type { Key } from "../../core/keys.js";
import type { AnyRecord } from "../../core/records.js";
import { decodeEvents, decodeRecord } from "../../store/codec.js";
import type { NumberedEvent } from "../../store/feed.js";
import { entryKey } from "../../store/ordered.js";
import { openDatabase } from "./binding.js";
import { feedPlace, verified } from "./checksum.js";
import { entryLine, recordLine } from "./lines.js";
import { readFailure } from "./schema.js";

/** For how many batches reads stay apart: until the checkpoint has had its turn. */
const apartBatches = 8;

/** Rows that are read at once where few are asked for. */
const aheadRows = 64;

/** Rows from a place on, up to the last of them or, if these are all, up to `to`. */
interface Page {
  readonly from: string;
  readonly to: string;
  readonly rows: readonly RangeRow[];
  readonly isAll: boolean;
}

/** The rows of the range, or null if the page cannot tell. */
function withinPage(page: Page, range: Range): readonly RangeRow[] | null {
  if (range.from < page.from || range.to !== page.to) return null;
  let [low, high] = [0, page.rows.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((page.rows[middle]?.sort ?? "") < range.from) low = middle + 1;
    else high = middle;
  }
  const rows = page.rows.slice(low, low + range.limit);
  return rows.length === range.limit || page.isAll ? rows : null;
}

/** The packaged library ends a text at NUL. Sort strings are printable, so the next character bounds the same rows. */
const bound = (text: string): string => text.replaceAll("\0", "\x01");

export class Reader {
  readonly #database;
  readonly #get;
  readonly #range;
  readonly #feed;
  #inSnapshot = false;
  #apart = 0;
  /** The last page of each index that was asked for in small parts. */
  readonly #ahead = new Map<Range["index"], Page>();

  constructor(readonly path: string) {
    this.#database = openDatabase(path, { readOnly: true });
    this.#database.exec("PRAGMA busy_timeout = 5000; PRAGMA cache_size = -32768");
    this.#get = this.#database.prepare("SELECT value, sum FROM tree WHERE key = ?");
    this.#range = this.#database.prepare(
      "SELECT key, value, sum FROM tree WHERE key >= ? AND key < ? ORDER BY key LIMIT ?",
    );
    this.#feed = this.#database.prepare(
      "SELECT * FROM feed WHERE first >= coalesce((SELECT max(first) FROM feed WHERE first <= ?), ?) ORDER BY first LIMIT 64",
    );
  }

  /**
   * Begins a snapshot that all reads share until `refresh`. The tree changes only when the writer moves something into
   * it, so a snapshot serves for many batches, and with it the library's page cache, which each new one empties.
   */
  #begin(): void {
    if (this.#inSnapshot || this.#apart > 0) return;
    this.#database.exec("BEGIN");
    this.#inSnapshot = true;
  }

  /** A batch was committed. */
  batchPassed(): void {
    if (this.#apart > 0) this.#apart--;
  }

  /** Lets the next read see what was committed since. */
  refresh(): void {
    this.#ahead.clear();
    if (!this.#inSnapshot) return;
    this.#inSnapshot = false;
    this.#database.exec("COMMIT");
  }

  /**
   * For the next few batches each read is by itself: the write-ahead log begins anew only at a commit that finds
   * nobody holding a snapshot of it. Without this it grew to 125 MB where 28 MB are enough.
   */
  letGo(): void {
    this.refresh();
    this.#apart = apartBatches;
  }

  record(key: Key): AnyRecord | null {
    return this.#guard(() => {
      if (key.includes("\0")) return null;
      const line = recordLine(key);
      const row = this.#get.get(line);
      return row === undefined ? null : decodeRecord(verified(line, row.value, row.sum));
    });
  }

  /**
   * Rows of the tree within the range. Who asks for a few at a time, as one taker of work after the other does, is
   * served from a page that was read ahead. It holds until `refresh`: whatever the tree took over since is in memory, too.
   */
  range(range: Range): readonly RangeRow[] {
    if (range.limit >= aheadRows) return this.#search(range);
    const ahead = this.#ahead.get(range.index);
    const served = ahead === undefined ? null : withinPage(ahead, range);
    if (served !== null) return served;
    const rows = this.#search({ ...range, limit: aheadRows });
    this.#ahead.set(range.index, { from: range.from, to: range.to, rows, isAll: rows.length < aheadRows });
    return rows.slice(0, range.limit);
  }

  #search(range: Range): RangeRow[] {
    const from = bound(entryLine(entryKey(range.index, range.from)));
    const to = bound(entryLine(entryKey(range.index, range.to)));
    const skip = entryLine(entryKey(range.index, "")).length;
    return this.#guard(() =>
      this.#range.all(from, to, range.limit).map((row) => {
        const line = String(row.key);
        return { sort: line.slice(skip), key: verified(line, row.value, row.sum) };
      }),
    );
  }

  /** Events numbered above `after`, of which there are some; null if the first of them is no longer kept. */
  events(after: number, limit: number): NumberedEvent[] | null {
    this.refresh();
    return this.#guard(() => {
      const found: NumberedEvent[] = [];
      for (const row of this.#feed.all(after + 1, after + 1)) {
        const first = Number(row.first);
        if (found.length === 0 && first > after + 1) return null;
        const place = feedPlace(row.first, row.count, row.at);
        const events = decodeEvents(verified(place, row.events, row.sum));
        for (const [i, event] of events.entries())
          if (first + i > after) found.push({ number: first + i, event });
        if (found.length >= limit) break;
      }
      return found.length === 0 ? null : found;
    });
  }

  #guard<Result>(read: () => Result): Result {
    try {
      this.#begin();
      return read();
    } catch (error) {
      throw readFailure(this.path, error);
    }
  }

  close(): void {
    // Before the close: with statements alive the library keeps the connection, and with it the snapshot, for a while.
    try {
      this.refresh();
    } catch {
      // A file in trouble: there is nothing to keep.
    }
    this.#database.close();
  }
}
