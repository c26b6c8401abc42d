/** Where things are in etcd: every key begins with the prefix of this Holdfast, and with what kind of thing it is. */
import type { Range } from "../../core/decision.js";
import type { IndexEntry, Key } from "../../core/keys.js";

export class Layout {
  /** What the data is, and whose: see meta.ts. */
  readonly meta: string;
  /** The shared clock. */
  readonly clock: string;
  /** The events of the last commit that had any; its history is the feed. */
  readonly feed: string;
  /** What all index entries begin with. */
  readonly entries: string;
  readonly #records: string;

  constructor(prefix: string) {
    this.meta = `${prefix}m`;
    this.clock = `${prefix}c`;
    this.feed = `${prefix}f`;
    this.#records = `${prefix}r/`;
    this.entries = `${prefix}i/`;
  }

  record(key: Key): string {
    return this.#records + key;
  }

  keyOf(record: string): Key {
    return record.slice(this.#records.length);
  }

  entry(index: IndexEntry["index"], sort: string): string {
    return `${this.entries}${index}/${sort}`;
  }

  sortOf(index: Range["index"], entry: string): string {
    return entry.slice(this.entries.length + index.length + 1);
  }
}
