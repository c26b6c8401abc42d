/**
 * How a batch's writes stand in the log: pairs of lines, a tree key and its value, an empty value for a
 * deletion. Neither keys nor JSON hold line breaks. One string travels to the writer thread and into the file
 * as it is; it is split only when it moves on into the tree.
 */
import type { Write } from "../../core/decision.js";
import type { Key } from "../../core/keys.js";
import type { AnyRecord } from "../../core/records.js";
import { decodeRecord, encodeRecord } from "../../store/codec.js";

const recordPrefix = "r/";
const entryPrefix = "i/";

export const recordLine = (key: Key): string => recordPrefix + key;
/** `entry` is index/sort. */
export const entryLine = (entry: string): string => entryPrefix + entry;

export function toLines(writes: readonly Write[]): string {
  let lines = "";
  for (const { key, record, drop, add } of writes) {
    lines += `${recordPrefix}${key}\n${record === null ? "" : encodeRecord(record)}\n`;
    for (const { index, sort } of drop) lines += `${entryPrefix}${index}/${sort}\n\n`;
    for (const { index, sort } of add) lines += `${entryPrefix}${index}/${sort}\n${key}\n`;
  }
  return lines;
}

/** Pairs of tree key and value; a null value deletes. */
export function* fromLines(lines: string): Generator<[key: string, value: string | null]> {
  for (let at = 0; at < lines.length; ) {
    const keyEnd = lines.indexOf("\n", at);
    const valueEnd = lines.indexOf("\n", keyEnd + 1);
    yield [lines.slice(at, keyEnd), valueEnd === keyEnd + 1 ? null : lines.slice(keyEnd + 1, valueEnd)];
    at = valueEnd + 1;
  }
}

export type Line =
  | { readonly key: Key; readonly record: AnyRecord | null }
  | { readonly entry: string; readonly target: Key | null };

/** What one pair says. */
export function parseLine(key: string, value: string | null): Line {
  if (key.startsWith(recordPrefix))
    return { key: key.slice(recordPrefix.length), record: value === null ? null : decodeRecord(value) };
  return { entry: key.slice(entryPrefix.length), target: value };
}
