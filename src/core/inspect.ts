/** Reading one name. A lease that is found over is settled in the same step, so a read never tells what is not durable. */
import type { Decision, View } from "./decision.js";
import { deciding } from "./draft.js";
import { type Heir, isOthersTurn, noHeirs, type Successors, succeed } from "./heirs.js";
import { lockKey } from "./keys.js";
import { floorOf, holdingNow, quietUntil, settled } from "./lease.js";
import type { Policy } from "./limits.js";
import { countTurns, dropTurn, tellNext, turnsIn, waitingElsewhere } from "./line.js";
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
  /** Of a cluster: how many wait at its other servers. */
  readonly elsewhere?: number;
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
    const { peer } = successors;
    const elsewhere =
      peer === undefined ? {} : { elsewhere: waitingElsewhere(turnsIn(draft, space, name, peer), peer.id) };
    return { lock: after, holding, token, availableAt, now: draft.now, heirs, ...elsewhere };
  });
}

/** Offers a name that may have become free to its waiters: for names freed by somebody else's step. */
export function decideServe(
  view: View,
  space: string,
  name: string,
  policy: Policy,
  successors: Successors,
  /** Nobody has said that it became free: if it is, whoever's turn it is must be told. */
  isAudit = false,
): Decision<readonly Heir[]> {
  return deciding(view, policy, (draft) => {
    const lock = settled(draft, draft.get(lockKey(space, name)));
    const { peer } = successors;
    const isTold = !isAudit && isOthersTurn(draft, space, name, successors);
    if (peer !== undefined) countTurns(draft, space, name, peer);
    const heirs = succeed(draft, space, name, lock, successors);
    const isFree = lock === null || (lock.lease === null && lock.availableAt === 0);
    if (isFree && !isTold && isOthersTurn(draft, space, name, successors)) tellNext(draft, space, name);
    return heirs;
  });
}

export interface LeaveLineReply {
  readonly heirs: readonly Heir[];
  /** Where in line it stood, from 1; 0: it had no turn. */
  readonly place: number;
}

/** Of a cluster: a waiter here has left, who had this turn. If it was the first, the next one's comes. */
export function decideLeaveLine(
  view: View,
  space: string,
  name: string,
  turn: string,
  policy: Policy,
  successors: Successors,
): Decision<LeaveLineReply> {
  return deciding(view, policy, (draft) => {
    const { peer } = successors;
    if (peer === undefined) return { heirs: [], place: 0 };
    const wasOthers = isOthersTurn(draft, space, name, successors);
    const place = dropTurn(draft, space, name, peer, turn);
    const lock = settled(draft, draft.get(lockKey(space, name)));
    const heirs = succeed(draft, space, name, lock, successors);
    const isFree = draft.get(lockKey(space, name))?.lease == null;
    if (isFree && !wasOthers && isOthersTurn(draft, space, name, successors)) tellNext(draft, space, name);
    return { heirs, place };
  });
}
