/**
 * A grant of a name that overlaps others changes two references, the guard and then the lock, and a look may fall between
 * the two: it sees the new guard and not the lock. Whoever relied on that could pass the other by. So the guard names the
 * grant that it was changed for, and whoever finds that lock as it was before changes it too, to no effect but this: either
 * the other is still at it, and this step loses, or it was ended between the two, and its grant can never arrive.
 */
import type { LockRecord } from "../../core/records.js";
import type { Swap } from "./authority.js";
import type { Guard } from "./guard-blob.js";
import { refOfLock } from "./key-refs.js";
import type { Objects } from "./objects.js";
import { encodeCell, type Writing } from "./record-blob.js";
import type { Found, Records } from "./records.js";

/** How long a record that was only made to fence is kept, in ms: as long as any that is free. */
const keptMs = 24 * 3_600_000;

/** The lock whose grant may be on its way, if it is as the guard says that it was before. */
export function unfinishedIn(guard: Guard | null, oidOf: (ref: string) => string | null): string | null {
  if (guard?.grant == null) return null;
  const { space, resource, was } = guard.grant;
  const ref = refOfLock({ space, name: resource });
  return oidOf(ref) === was ? ref : null;
}

export async function fenceSwap(
  guard: Guard,
  found: Found,
  writing: Writing,
  { objects, records }: { readonly objects: Objects; readonly records: Records },
): Promise<Swap> {
  if (guard.grant === null) throw new Error("no grant to fence");
  const { space, resource: name, was } = guard.grant;
  const ref = refOfLock({ space, name });
  const cell = was === null ? null : await found.cell({ space, name });
  const lock = cell?.lock ?? neverGranted(space, name, guard.floors[space] ?? 0, writing.now);
  const requests = (cell?.requests ?? []).map(([, request]) => request);
  const fresh = await objects.write(encodeCell({ lock, requests }, writing));
  records.willWrite(ref, fresh, writing.now);
  return { ref, old: was, fresh };
}

/** A free name whose next token is above the floor, as that of a name without a record. */
const neverGranted = (space: string, name: string, floor: number, now: number): LockRecord => ({
  kind: "lock",
  space,
  name,
  token: Math.max(1, floor),
  attempts: 0,
  lease: null,
  previous: null,
  outcome: null,
  availableAt: 0,
  dueAt: 0,
  gcAt: now + keptMs,
});
