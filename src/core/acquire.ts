/**
 * Acquire: rules 1, 2, 3, 8, 9, 11 and 12. One step settles what is over, serves the queue before the caller,
 * and grants or refuses.
 */
import type { Decision, View } from "./decision.js";
import { type Draft, deciding } from "./draft.js";
import {
  acquireKeys,
  type Heir,
  isOthersTurn,
  noHeirs,
  repeated,
  type Successors,
  sessionRefusal,
  succeed,
} from "./heirs.js";
import { lockKey } from "./keys.js";
import { type Claim, settled } from "./lease.js";
import type { Policy } from "./limits.js";
import { countTurns, isServing, tellNext, turnsIn } from "./line.js";
import type { LockRecord } from "./records.js";
import { isUndecided, type Refusal } from "./refusal.js";
import { againOrRefuse, type Granted, takeOrRefuse } from "./take.js";

export interface AcquireReply {
  readonly outcome: Granted | Refusal;
  readonly heirs: readonly Heir[];
  /** Of a cluster: the turns that stand in line after this, and whether there was room for one more. */
  readonly line?: { readonly turns: readonly string[]; readonly isFull: boolean };
}

export function decideAcquire(
  view: View,
  claim: Claim,
  policy: Policy,
  successors: Successors = noHeirs,
  /** The claim itself stands in the queue: it is granted in its turn or not at all. */
  queued = false,
): Decision<AcquireReply> {
  return deciding(view, policy, (draft) => {
    const heirs: Heir[] = [];
    const known = repeated(draft, claim, heirs, successors) ?? sessionRefusal(draft, claim);
    if (known !== null) {
      if (queued) leaveLine(draft, claim, successors);
      return { outcome: known, heirs };
    }
    let lock = settled(draft, draft.get(lockKey(claim.space, claim.name)));
    heirs.push(...succeed(draft, claim.space, claim.name, lock, successors));
    if (heirs.length > 0) lock = draft.get(lockKey(claim.space, claim.name));
    const own = queued ? heirs.find((heir) => heir.claim === claim)?.outcome : undefined;
    if (own !== undefined)
      return { outcome: "refused" in own ? own : { granted: own.granted, how: "new" }, heirs };
    // The same request may have stood in the queue.
    const served = heirs.length > 0 ? repeated(draft, claim, heirs, successors) : null;
    if (served !== null) return { outcome: served, heirs };
    const outcome = queued ? againOrRefuse(draft, lock, claim) : takeInTurn(draft, lock, claim, successors);
    return { outcome, heirs, ...lineAfter(draft, claim, outcome, queued, heirs, successors) };
  });
}

/** It stood in line, and gets what it was granted before, or nothing: its turn, if it had one, is the next one's. */
function leaveLine(draft: Draft, claim: Claim, successors: Successors): void {
  const { peer } = successors;
  if (peer === undefined) return;
  const { space, name } = claim;
  const wasOthers = isOthersTurn(draft, space, name, successors);
  countTurns(draft, space, name, peer, [{ claim }]);
  if (!wasOthers && isOthersTurn(draft, space, name, successors)) tellNext(draft, space, name);
}

/** Nobody passes those who wait at other servers, nor one here whom another step is about to serve. */
function takeInTurn(
  draft: Draft,
  lock: LockRecord | null,
  claim: Claim,
  successors: Successors,
): Granted | Refusal {
  const isOthers = isOthersTurn(draft, claim.space, claim.name, successors);
  if (!isOthers && !isServing(successors.peer, claim.space, claim.name))
    return takeOrRefuse(draft, lock, claim);
  const answer = againOrRefuse(draft, lock, claim);
  // It is free, and whoever's turn it is has not taken it yet, or does not know.
  if (isOthers && "refused" in answer && answer.refused === "queued")
    tellNext(draft, claim.space, claim.name);
  return answer;
}

/** Who stands in line and was not granted the name has a turn from now on; that of who no longer listens is passed over. */
function lineAfter(
  draft: Draft,
  { space, name }: Claim,
  outcome: Granted | Refusal,
  queued: boolean,
  heirs: readonly Heir[],
  { peer }: Successors,
): Pick<AcquireReply, "line"> {
  if (peer === undefined || !("refused" in outcome)) return {};
  const hasRoom = countTurns(draft, space, name, peer, heirs);
  return { line: { turns: turnsIn(draft, space, name, peer), isFull: queued && !hasRoom } };
}

export interface AcquireFirstReply {
  readonly granted: Granted | null;
  /** One refusal per candidate tried, in order. */
  readonly refusals: readonly { readonly name: string; readonly refusal: Refusal }[];
  readonly heirs: readonly Heir[];
}

/** Tries the claims in order and grants at most one, all in one step. The claims share one request id. */
export function decideAcquireFirst(
  view: View,
  claims: readonly Claim[],
  policy: Policy,
  successors: Successors = noHeirs,
): Decision<AcquireFirstReply> {
  return deciding(view, policy, (draft) => {
    const refusals: { name: string; refusal: Refusal }[] = [];
    const heirs: Heir[] = [];
    const answer = (name: string, outcome: Granted | Refusal): AcquireFirstReply =>
      "refused" in outcome
        ? { granted: null, refusals: [...refusals, { name, refusal: outcome }], heirs }
        : { granted: outcome, refusals, heirs };
    const first = claims[0];
    const repeat = first === undefined ? null : repeated(draft, first, heirs, successors);
    if (first !== undefined && repeat !== null)
      return answer("refused" in repeat && "name" in repeat ? repeat.name : first.name, repeat);
    draft.require(claims.flatMap(acquireKeys));
    const decided = draft.first(claims, (claim) => {
      const outcome = sessionRefusal(draft, claim) ?? tryCandidate(draft, claim, heirs, successors);
      // The same request may have stood in the queue.
      const served = heirs.length > 0 ? repeated(draft, claim, heirs, successors) : null;
      if (served !== null && "refused" in outcome) return answer(claim.name, served);
      if (!("refused" in outcome) || isUndecided(outcome)) return answer(claim.name, outcome);
      refusals.push({ name: claim.name, refusal: outcome });
      return undefined;
    });
    return decided ?? { granted: null, refusals, heirs };
  });
}

function tryCandidate(draft: Draft, claim: Claim, heirs: Heir[], successors: Successors): Granted | Refusal {
  const key = lockKey(claim.space, claim.name);
  const lock = settled(draft, draft.get(key));
  const served = succeed(draft, claim.space, claim.name, lock, successors);
  heirs.push(...served);
  return takeInTurn(draft, served.length > 0 ? draft.get(key) : lock, claim, successors);
}
