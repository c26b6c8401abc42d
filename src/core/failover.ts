/**
 * What a failover of the database does to tokens. The server that took over may not have the last commits, and with them the
 * last tokens that were granted; so nothing at or below anything that can have been granted there is ever granted again.
 */
import { everySpace } from "./keys.js";
import { failoverJump } from "./limits.js";
import type { FloorRecord } from "./records.js";

/** All floors, and the one that holds for spaces without their own, above the highest token that is known to have been written. */
export function floorsAfterFailover(floors: readonly FloorRecord[], tokenHigh: number): FloorRecord[] {
  const token = floors.reduce((high, floor) => Math.max(high, floor.token), tokenHigh) + failoverJump;
  const every: FloorRecord = { kind: "floor", space: everySpace, token, ttlHighMs: 0, quietUntil: 0 };
  const known = floors.some(({ space }) => space === everySpace) ? floors : [...floors, every];
  return known.map((floor) => ({ ...floor, token }));
}
