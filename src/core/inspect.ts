/** Reading one name. A lease that is found over is settled in the same step, so a read never tells what is not durable. */
import type { Decision, View } from "./decision.js";
import { deciding } from "./draft.js";
import { type Heir, noHeirs, type Successors, succeed } from "./heirs.js";
import { lockKey } from "./keys.js";
import { floorOf, holdingNow, quietUntil, settled } from "./lease.js";
import type { Policy } from "./limits.js";
import type { LockRecord } from "./records.js";
import type { Holding } from "./refusal.js";

export interface InspectReply {
  readonly lock: LockRecord | null;
  readonly holding: Holding | null;
  /** The last token granted, 0 if none is remembered. What is granted next is above all before all the same. */
  readonly token: number;
  /** A free name cannot be taken before: its lock delay, or the wait after a restore. 0: at once. */
  readonly availableAt: number;
  readonly now: number;
  readonly heirs: readonly Heir[];
}

export function decideInspect(
  view: View,
  space: string,
  name: string,
  policy: Policy,
  successors: Successors = noHeirs,
): Decision<InspectReply> {
  return deciding(view, policy, (draft) => {
    const key = lockKey(space, name);
    const before = draft.get(key);
    const lock = settled(draft, before);
    const heirs = lock === before ? [] : succeed(draft, space, name, lock, successors);
    const after = draft.get(key);
    const floor = floorOf(draft, space);
    const token = after?.token ?? 0;
    const holding = holdingNow(draft, after);
    const availableAt =
      holding === null ? Math.max(after?.availableAt ?? 0, quietUntil(floor, draft.earliest)) : 0;
    return { lock: after, holding, token, availableAt, now: draft.now, heirs };
  });
}

/** Offers a name that may have become free to its waiters: for names freed by somebody else's step. */
export function decideServe(
  view: View,
  space: string,
  name: string,
  policy: Policy,
  successors: Successors,
): Decision<readonly Heir[]> {
  return deciding(view, policy, (draft) =>
    succeed(draft, space, name, settled(draft, draft.get(lockKey(space, name))), successors),
  );
}
