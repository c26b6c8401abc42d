/**
 * What a decision sees on this engine: memory over file, loaded as it looks. It remembers the newest batch that
 * it read from, so that an answer never leaves before what it is based on is durable.
 */
import type { Range, RangeRow, View } from "../../core/decision.js";
import type { Key } from "../../core/keys.js";
import type { AnyRecord } from "../../core/records.js";
import type { Ordered } from "../../store/ordered.js";
import type { Reader } from "./reader.js";

/**
 * What the file has under the keys that were read lately, least recently loaded first. Also that it has nothing: a new
 * name is asked for several times within one decision, and each would be a search of the file.
 */
export class ReadCache {
  readonly #records = new Map<Key, AnyRecord | null>();
  constructor(readonly max: number) {}

  /** undefined: not read lately. */
  get(key: Key): AnyRecord | null | undefined {
    return this.#records.get(key);
  }

  set(key: Key, record: AnyRecord | null): void {
    this.#records.set(key, record);
    if (this.#records.size > this.max) this.#forgetOldest();
  }

  /** Many at once: a Map walks over all that has left its front at each look, so that one by one took 40 µs each. */
  #forgetOldest(): void {
    let left = Math.ceil(this.max / 8);
    for (const oldest of this.#records.keys()) {
      if (left-- === 0) return;
      this.#records.delete(oldest);
    }
  }

  delete(key: Key): void {
    this.#records.delete(key);
  }

  clear(): void {
    this.#records.clear();
  }

  get size(): number {
    return this.#records.size;
  }
}

/** Most rows that are read from the file at once. */
const pageRowsMax = 1024;

export class LayeredView implements View {
  /** The newest batch among what was read. */
  newestSeq = 0;

  /** One clock decides. */
  get earliest(): number {
    return this.now;
  }

  constructor(
    readonly now: number,
    readonly recent: Ordered,
    readonly cache: ReadCache,
    readonly reader: Reader,
  ) {}

  get<R extends AnyRecord>(key: Key<R>): R | null {
    const slot = this.recent.records.get(key);
    if (slot !== undefined) {
      if (slot.seq > this.newestSeq) this.newestSeq = slot.seq;
      return slot.value as R | null;
    }
    const cached = this.cache.get(key);
    if (cached !== undefined) return cached as R | null;
    const record = this.reader.record(key);
    this.cache.set(key, record);
    return record as R | null;
  }

  /** Merges the file's rows with the newer ones in memory. */
  range(range: Range): readonly RangeRow[] {
    const rows: RangeRow[] = [];
    const stored = this.#stored(range);
    let below = stored.next().value;
    const takeBelow = (before: string | null): boolean => {
      if (rows.length === range.limit) return false;
      while (below !== undefined && (before === null || below.sort < before)) {
        rows.push(below);
        // Not one more than is wanted: it would be another search of the file.
        if (rows.length === range.limit) return false;
        below = stored.next().value;
      }
      return true;
    };
    for (const { sort, slot } of this.recent.entries(range)) {
      if (!takeBelow(sort)) return rows;
      if (below?.sort === sort) below = stored.next().value;
      if (slot.seq > this.newestSeq) this.newestSeq = slot.seq;
      if (slot.value !== null) rows.push({ sort, key: slot.value });
    }
    takeBelow(null);
    return rows;
  }

  /** Whether anything waits for its time, as far as can be told. */
  mayHaveDue(): boolean {
    try {
      return this.range({ index: "due", from: "", to: "\x7f", limit: 1 }).length > 0;
    } catch {
      // A file that cannot be read is told by the requests that need it.
      return true;
    }
  }

  /** The file's rows, page by page, as far as they are wanted: ever more at once, where many were removed in memory. */
  *#stored(range: Range): Generator<RangeRow, undefined> {
    let { from, limit } = range;
    for (;;) {
      const page = this.reader.range({ ...range, from, limit });
      yield* page;
      const last = page.at(-1);
      if (last === undefined || page.length < limit) return undefined;
      from = `${last.sort}\u0000`;
      limit = Math.min(4 * limit, pageRowsMax);
    }
  }
}
