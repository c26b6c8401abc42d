/**
 * What a failover does to what a database believes. One that has gone back to an earlier state has forgotten grants: so that
 * no token is given twice, none at or below the raised floors is ever granted again. Leases that it knows go on.
 */
import { everySpace } from "./keys.js";
import { noFloor } from "./lease.js";
import { failoverTokenJump, tokenMax } from "./limits.js";
import type { FloorRecord } from "./records.js";

/** The floors that are to be written, given all that are there and the highest token found, per space. */
export function floorsAfterFailover(
  floors: readonly FloorRecord[],
  tokens: ReadonlyMap<string, number>,
): FloorRecord[] {
  const highest = Math.max(0, ...tokens.values(), ...floors.map(({ token }) => token));
  const every = floors.find(({ space }) => space === everySpace) ?? noFloor(everySpace);
  const own = floors.filter(({ space }) => space !== everySpace);
  // Spaces without a floor of their own, among them those that were made since, have this one.
  return [
    raised(every, highest),
    ...own.map((floor) => raised(floor, Math.max(floor.token, tokens.get(floor.space) ?? 0))),
  ];
}

const raised = (floor: FloorRecord, highest: number): FloorRecord => ({
  ...floor,
  token: Math.min(highest + failoverTokenJump, tokenMax - failoverTokenJump),
});
