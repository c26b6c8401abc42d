/** Which reference holds which record. Names go into references only as hashes: they may hold anything. */
import { createHash } from "node:crypto";
import type { Key } from "../../core/keys.js";
import { hasOverlap } from "../../core/names.js";
import { lockPrefix } from "./authority.js";

export interface LockName {
  readonly space: string;
  readonly name: string;
}

/** The lock that a key names, or null for a key of something else. */
export function lockOf(key: Key): LockName | null {
  if (!key.startsWith("lock/")) return null;
  const slash = key.indexOf("/", "lock/".length);
  return { space: key.slice("lock/".length, slash), name: key.slice(slash + 1) };
}

/** The space whose floor a key names, or null. */
export const spaceOfFloor = (key: Key): string | null =>
  key.startsWith("floor/") ? key.slice("floor/".length) : null;

/** The space that needs no name of its own. */
const spaceDefault = "default";

export function refOfLock({ space, name }: LockName): string {
  const text = space === spaceDefault ? name : `${space}\0${name}`;
  return lockPrefix + createHash("sha256").update(text).digest("hex");
}

export function refOf(key: Key): string | null {
  const lock = lockOf(key);
  return lock === null ? null : refOfLock(lock);
}

/** Steps of one lane come one after the other. Names that overlap others share one: they change the same guard. */
export function laneOf(keys: readonly Key[]): string {
  const lock = keys.flatMap((key) => lockOf(key) ?? [])[0];
  return lock === undefined ? "" : hasOverlap(lock.name) ? `${lock.space}/` : `${lock.space}/${lock.name}`;
}
