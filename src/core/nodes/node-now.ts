/** A node together with its lease, as both truly are now. */
import type { Draft } from "../draft.js";
import { lockKey, nodeKey, policyKey } from "../keys.js";
import { holdingNow, settled } from "../lease.js";
import type { Ended, LockRecord } from "../records.js";
import type { Holding } from "../refusal.js";
import { nodeLeaseName, policyOf } from "./node.js";
import { rulesFor, type TypeRules } from "./policy.js";
import type { NodeRecord } from "./records.js";
import type { NodeHolding, NodeRefusal } from "./refusal.js";

/** Makes sure that a node, its lease and the rules for it are loaded, in one round. */
export function requireNodes(draft: Draft, space: string, ids: readonly string[]): void {
  draft.require([
    policyKey(space),
    ...ids.flatMap((id) => [nodeKey(space, id), lockKey(space, nodeLeaseName(id))]),
  ]);
}

/** A node as it truly is now, with its lease settled. */
export interface NodeNow {
  readonly node: NodeRecord;
  readonly lock: LockRecord | null;
  readonly held: NodeHolding | null;
  readonly rules: TypeRules;
}

export function nodeNow(draft: Draft, space: string, id: string): NodeNow | NodeRefusal {
  requireNodes(draft, space, [id]);
  if (draft.get(nodeKey(space, id)) === null) return { refused: "unknown_node", id };
  const lock = settled(draft, draft.get(lockKey(space, nodeLeaseName(id))));
  // Settling may have changed the node.
  const node = draft.get(nodeKey(space, id)) as NodeRecord;
  const holding = holdingNow(draft, lock);
  return { node, lock, held: heldOf(node, holding), rules: rulesFor(policyOf(draft, space), node) };
}

/** A lease of that name that is not this node's claim (none can be made any more) is nobody's. */
function heldOf(node: NodeRecord, holding: Holding | null): NodeHolding | null {
  if (holding === null || node.claim === null || node.claim.token !== holding.lock.token) return null;
  return { node: node as NodeHolding["node"], holding };
}

/** The claim that was meant is not the live one. Whose it was learns how it ended: who ended it by force, and why. */
export function leaseLost(
  { node, lock, held }: NodeNow,
  caller: { readonly principal: string; readonly token: number | null },
  differs: "token" | "session" | null,
): NodeRefusal {
  return {
    refused: "lease_lost",
    node,
    held,
    differs: held === null ? null : differs,
    previous: ownEnd(lock?.previous ?? null, caller),
  };
}

function ownEnd(
  previous: Ended | null,
  { principal, token }: { readonly principal: string; readonly token: number | null },
): Ended | null {
  const isOwn = previous?.principal === principal && (token === null || token === previous.token);
  return isOwn ? previous : null;
}

/** Whether a caller that says which claim it means, means another than the live one. */
export const meansAnother = ({ token }: { readonly token: number | null }, { held }: NodeNow): boolean =>
  token !== null && token !== held?.node.claim.token;
