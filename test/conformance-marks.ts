// What the store's suite writes where any record would do: bearer tokens, which stand in one index alone, or, for an
// engine that keeps nothing but locks, held names that overlap others, whose ranges are guarded on every engine.

import type { Range } from "../src/core/decision.js";
import { afterPrefix, type Key, lockKey, tokenKey } from "../src/core/keys.js";
import type { AnyRecord } from "../src/core/records.js";
import type { Store } from "../src/store/store.js";
import { drafting, held, marker, put, space, tell } from "./store-lab.js";

export interface Marks {
  /** What every sort string of theirs begins with. */
  readonly start: string;
  /** What a lock's name must begin with for a step to be covered by what it only read. */
  readonly guarded: string;
  key(id: string): Key;
  /** It stands in the index as `sort`; the note comes back with it. */
  record(id: string, note?: string, sort?: string): AnyRecord;
  range(prefix?: string, limit?: number): Range;
  idOf(record: AnyRecord): string;
  noteOf(record: AnyRecord): string;
  put(store: Store, id: string, note?: string): Promise<void>;
  /** A change whose event says this word, which must be new. */
  tell(store: Store, word: string): Promise<void>;
}

export const tokenMarks: Marks = {
  start: `${space}/`,
  guarded: "",
  key: tokenKey,
  record: (id, note = "test", sort = id) => ({ ...marker(id, sort), createdBy: note }),
  range: (prefix = "", limit = 128) => {
    const from = `${space}/${prefix}`;
    return { index: "token", from, to: afterPrefix(from), limit };
  },
  idOf: (record) => (record.kind === "token" ? record.id : ""),
  noteOf: (record) => (record.kind === "token" ? record.createdBy : ""),
  put: (store, id, note) => put(store, tokenMarks.key(id), tokenMarks.record(id, note)),
  tell,
};

const nameOf = (id: string): string => `path:${id}`;

export const lockMarks: Marks = {
  start: `${space}/path:`,
  guarded: "path:",
  key: (id) => lockKey(space, nameOf(id)),
  record: (id, note = "test") => {
    const lock = held(nameOf(id), 1);
    return { ...lock, lease: lock.lease && { ...lock.lease, metadata: note } };
  },
  range: (prefix = "", limit = 128) => {
    const from = `${space}/${nameOf(prefix)}`;
    return { index: "held", from, to: afterPrefix(from), limit };
  },
  idOf: (record) => (record.kind === "lock" ? record.name.slice("path:".length) : ""),
  noteOf: (record) => (record.kind === "lock" ? String(record.lease?.metadata) : ""),
  put: (store, id, note) => put(store, lockMarks.key(id), lockMarks.record(id, note)),
  tell: (store, word) => {
    const key = lockKey(space, word);
    return store.transact(
      [key],
      drafting((draft) => {
        draft.get(key);
        const lock = held(word, 1);
        draft.put(key, lock);
        draft.emit({ ...eventless, type: "acquired", name: word, token: 1 });
      }),
    );
  },
};

const eventless = {
  space,
  principal: "runner-1",
  owner: null,
  sessionHash: null,
  since: 1,
  metadata: null,
  expiresAt: null,
  at: 1,
};
