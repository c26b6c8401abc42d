/**
 * Claiming the best free node in one step. What can be taken stands in an index by rank, so the cost does not depend on
 * how many are taken already.
 */
import type { Decision, Range, View } from "../decision.js";
import { deciding } from "../draft.js";
import { afterPrefix, everySpace, floorKey, type Key, policyKey, requestKey } from "../keys.js";
import type { Policy } from "../limits.js";
import {
  type ClaimCall,
  type Claimed,
  type ClaimReply,
  claimKeys,
  claimNode,
  repeatedClaim,
} from "./claim.js";
import { nodeIdOf } from "./node.js";
import { readyPrefix } from "./rank.js";
import type { NodeRefusal } from "./refusal.js";

export interface NextCall extends Omit<ClaimCall, "id" | "token" | "rebind" | "isBlind"> {
  /** Only this type; null: any. */
  readonly type: string | null;
  /** Which nodes this caller may touch; null: all. */
  readonly accepts: ((id: string) => boolean) | null;
  /** Nothing that this caller may take stands before this place in the index. */
  readonly from: string;
  /** How many places of the index are looked at where some may be passed over. */
  readonly rows: number;
}

export interface NextReply {
  readonly outcome: Claimed | NodeRefusal | { readonly empty: true };
  /** Nothing that this caller may take stood before this place. */
  readonly next: string;
  /** There is more behind `next` that this step did not look at. */
  readonly more: boolean;
}

export function nextKeys({ space, principal, request }: NextCall): Key[] {
  const keys: Key[] = [policyKey(space), floorKey(space), floorKey(everySpace)];
  if (request !== null) keys.push(requestKey(space, principal, request.id));
  return keys;
}

/** Rows that are read: one where the first will do. */
function readyRange({ space, type, accepts, from, rows }: NextCall, rowsMax: number): Range {
  const prefix = readyPrefix(space, type);
  const start = from > prefix ? from : prefix;
  return {
    index: "ready",
    from: start,
    to: afterPrefix(prefix),
    limit: accepts === null ? 1 : Math.min(rows, rowsMax),
  };
}

export function decideNext(view: View, call: NextCall, policy: Policy): Decision<NextReply> {
  return deciding(view, policy, (draft) => {
    const range = readyRange(call, draft.rowsMax);
    const repeat = repeatedClaim(draft, { ...call, id: "", token: null, rebind: false });
    if (repeat !== null)
      return { outcome: isAllowed(call, repeat) ? repeat : outOfScope, next: call.from, more: false };
    const rows = draft.range(range);
    const row = rows.find(({ sort }) => call.accepts === null || call.accepts(idIn(sort)));
    if (row === undefined) {
      const last = rows.at(-1);
      const more = rows.length === range.limit;
      return { outcome: { empty: true }, next: more && last ? `${last.sort}\x00` : range.to, more };
    }
    const claim: ClaimCall = { ...call, id: idIn(row.sort), token: null, rebind: false, isBlind: true };
    draft.require(claimKeys(claim));
    const outcome = claimNode(draft, claim);
    return { outcome, next: "refused" in outcome ? row.sort : `${row.sort}\x00`, more: false };
  });
}

const outOfScope = { refused: "out_of_scope" } as const;

/** A request id is its principal's, who may have had more scopes when it was granted. */
function isAllowed({ accepts }: NextCall, repeat: ClaimReply): boolean {
  if (accepts === null) return true;
  if ("refused" in repeat) return repeat.refused !== "request_spent" || accepts(nodeIdOf(repeat.name) ?? "");
  return accepts(repeat.node.id);
}

const idIn = (sort: string): string => sort.slice(sort.lastIndexOf("/") + 1);
