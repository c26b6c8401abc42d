/** From what the store asks for to what the statements take, and from rows back to what was asked for. */
import type { Ask, Range, RangeRow, Write } from "../../core/decision.js";
import type { Key } from "../../core/keys.js";
import { decodeRecord, encodeEvents, encodeRecord } from "../../store/codec.js";
import type { Commit, Reading, Versioned } from "../../store/shared-data.js";
import type { Row } from "./connection.js";

/** The database has no text with a NUL in it. Entries are printable, so the next character bounds the same ones. */
const bound = (text: string): string => text.replaceAll("\u0000", "\u0001");
/** So nothing is ever kept under a key with one: whoever asks for it, for a session or a node that cannot be, finds none. */
const canBe = (key: Key): boolean => !key.includes("\u0000");

/** Index and place in it as one text, ordered first by index. */
export const entryOf = (index: string, sort: string): string => `${index}/${bound(sort)}`;

export interface Asked {
  readonly keys: readonly Key[];
  readonly ranges: readonly Range[];
  readonly values: readonly unknown[];
}

export function askedOf(asks: readonly Ask[]): Asked {
  const keys: Key[] = [];
  const ranges: Range[] = [];
  for (const ask of asks)
    if (typeof ask === "string") keys.push(ask);
    else ranges.push(ask);
  const values = [
    keys.filter(canBe),
    ranges.map(({ index, from }) => entryOf(index, from)),
    ranges.map(({ index, to }) => entryOf(index, to)),
    ranges.map(({ limit }) => limit),
  ];
  return { keys, ranges, values };
}

/** A reading, and what else the same moment tells. */
export interface Told {
  readonly reading: Reading;
  /** The database that was written to last, and the one that answered. */
  readonly was: string;
  readonly is: string;
  readonly moved: string | null;
}

export function toldOf({ keys, ranges }: Asked, rows: readonly Row[]): Told {
  const records = new Map<Key, Versioned>(keys.map((key) => [key, nothing]));
  const found: RangeRow[][] = ranges.map(() => []);
  let [was, is, moved]: [string, string, string | null] = ["", "", null];
  let [revision, clock] = [0, 0];
  for (const [kind, a = null, b = null, n = null] of rows)
    if (kind === "0") [was, is, revision] = [a ?? "", b ?? "", Number(n)];
    else if (kind === "1") [moved, clock] = [a, Number(n)];
    else if (kind === "2") records.set(a ?? "", { record: decodeRecord(b ?? ""), version: Number(n) });
    else {
      const at = Number(kind) - 3;
      const skip = (ranges[at]?.index.length ?? 0) + 1;
      found[at]?.push({ sort: (a ?? "").slice(skip), key: b ?? "" });
    }
  const reading = {
    clock,
    revision,
    records,
    ranges: new Map(ranges.map((range, i) => [range, found[i] ?? []])),
  };
  return { reading, was, is, moved };
}

const nothing: Versioned = { record: null, version: 0 };

/** The values of a commit after the one that says which database it is for. */
export function commitValues({ versions, guarded, writes, events }: Commit): readonly unknown[] {
  const { puts, gone, entries, dropped, token } = netOf(writes);
  const compared = [...versions].filter(([key]) => canBe(key));
  return [
    compared.map(([key]) => key),
    compared.map(([, version]) => version),
    guarded.map(({ index, from }) => entryOf(index, from)),
    guarded.map(({ index, to }) => entryOf(index, to)),
    guarded.map(({ index, rows }) =>
      rows.map(({ sort, key }) => `${entryOf(index, sort)}\x1f${key}`).join("\x1e"),
    ),
    [...puts.keys()],
    [...puts.values()],
    gone,
    [...entries.keys()],
    [...entries.values()],
    dropped,
    events.length === 0 ? "" : encodeEvents(events),
    events.length,
    token,
  ];
}

/** What is left of the writes when all are applied: of each thing the last word. */
function netOf(writes: readonly Write[]) {
  const last = new Map<Key, Write>();
  const net = new Map<string, Key | null>();
  for (const write of writes) {
    last.set(write.key, write);
    for (const { index, sort } of write.drop) net.set(entryOf(index, sort), null);
    for (const { index, sort } of write.add) net.set(entryOf(index, sort), write.key);
  }
  const puts = new Map<Key, string>();
  const gone: Key[] = [];
  let token = 0;
  for (const [key, { record }] of last)
    if (record === null) gone.push(key);
    else {
      puts.set(key, encodeRecord(record));
      if (record.kind === "lock" || record.kind === "floor") token = Math.max(token, record.token);
    }
  const entries = new Map<string, Key>();
  const dropped: string[] = [];
  for (const [entry, key] of net)
    if (key === null) dropped.push(entry);
    else entries.set(entry, key);
  return { puts, gone, entries, dropped, token };
}
