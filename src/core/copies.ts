/**
 * What is done to numbers when work goes on with a copy of the data: a backup that is restored, a standby that takes over. The copy
 * may not know the last that were given, and another copy may have been gone on with in between, an older or a younger one. Nothing
 * that was ever given may come again as something else.
 */
import { everySpace } from "./keys.js";
import { copyAgeMsMax, copyJump, grantsPerMsMax, wallMsMax } from "./limits.js";
import type { FloorRecord } from "./records.js";

/** When the work goes on. `ageMs`: how long ago the copy was as it is. */
export interface Continued {
  readonly wallNow: number;
  readonly ageMs: number;
}

/**
 * So many can have been given by an instant if they had been given without a pause since clocks count. Whoever goes on with any copy
 * begins there, so the later one begins above all that an earlier one can have given since, whichever was older.
 */
export const givenBy = (wallNow: number): number => within(wallNow, wallMsMax) * grantsPerMsMax;

/** What is added where that is too low, since a wall clock was ahead then or is behind now: so that it is above what the copy lacks. */
export const liftOf = (ageMs: number): number => copyJump + within(ageMs, copyAgeMsMax) * grantsPerMsMax;

const within = (ms: number, max: number): number => Math.min(Math.max(0, Math.ceil(ms)), max);

/** Above everything that can have been given where the copy comes from, or in another copy, if `high` is the last that this one knows. */
export const aboveAllCopies = (high: number, { wallNow, ageMs }: Continued): number => {
  const given = givenBy(wallNow);
  return high < given ? given : high + liftOf(ageMs);
};

/** All floors, and the one that holds for spaces without their own, above the highest token that is known to have been written. */
export function floorsAfterFailover(
  floors: readonly FloorRecord[],
  tokenHigh: number,
  continued: Continued,
): FloorRecord[] {
  const high = floors.reduce((max, floor) => Math.max(max, floor.token), tokenHigh);
  const token = aboveAllCopies(high, continued);
  const every: FloorRecord = { kind: "floor", space: everySpace, token, ttlHighMs: 0, quietUntil: 0 };
  const known = floors.some(({ space }) => space === everySpace) ? floors : [...floors, every];
  return known.map((floor) => ({ ...floor, token }));
}
