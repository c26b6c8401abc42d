/**
 * A checksum beside every row. SQLite checks how its pages hang together, not what stands in them: a flipped bit
 * in a token or an expiry would become a wrong grant. Rows are checked when they are read.
 */
import { crc32 } from "node:zlib";

/** Thrown for a row that is not what was written. The caller knows which file it was. */
export class ChecksumError extends Error {
  override readonly name = "ChecksumError";
}

/** Over the row's place and its content, so that neither can change alone. */
export const checksum = (place: string, content: string): number => crc32(content, crc32(place));

/** The row's content, if it is what was written. */
export function verified(place: string, content: unknown, sum: unknown): string {
  const text = String(content);
  if (checksum(place, text) !== sum) throw new ChecksumError("malformed: the checksum of a row is wrong");
  return text;
}

/** What a log row is checked by besides its writes. */
export const logPlace = (seq: unknown, engineAt: unknown, wallAt: unknown): string =>
  `log ${seq} ${engineAt} ${wallAt}`;
/** What a feed row is checked by besides its events. */
export const feedPlace = (first: unknown, count: unknown, at: unknown): string =>
  `feed ${first} ${count} ${at}`;
