/**
 * What a failover of the database does to tokens. The server that took over may not have the last commits, and with them the
 * last tokens that were granted; so nothing at or below anything that can have been granted there is ever granted again.
 */
import { everySpace } from "./keys.js";
import { copyAgeMsMax, failoverJump, sharedGrantsPerMsMax } from "./limits.js";
import type { FloorRecord } from "./records.js";

/**
 * How far it lifts them. Two may start from the same copy, one after the other, as when a standby that took over dies before
 * the next one has followed it, or a snapshot is restored twice: the later must begin above all that the first has given since.
 * `ageMs`: how far the copy's clock is behind the time of day, which tells how much later.
 */
export const failoverLift = (ageMs: number): number =>
  failoverJump + Math.min(Math.max(0, Math.ceil(ageMs)), copyAgeMsMax) * sharedGrantsPerMsMax;

/** All floors, and the one that holds for spaces without their own, above the highest token that is known to have been written. */
export function floorsAfterFailover(
  floors: readonly FloorRecord[],
  tokenHigh: number,
  lift: number,
): FloorRecord[] {
  const token = floors.reduce((high, floor) => Math.max(high, floor.token), tokenHigh) + lift;
  const every: FloorRecord = { kind: "floor", space: everySpace, token, ttlHighMs: 0, quietUntil: 0 };
  const known = floors.some(({ space }) => space === everySpace) ? floors : [...floors, every];
  return known.map((floor) => ({ ...floor, token }));
}
