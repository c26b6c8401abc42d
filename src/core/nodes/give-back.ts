/**
 * Giving back a claim that nobody heard of: the call for the next work was granted, and its reply was lost. In one step
 * the node is as if the claim had never been, with the edge, the count of losses and the last carrier that it had. What
 * stays is its history, which says so, and the token, which is never used again.
 */
import type { Decision, View } from "../decision.js";
import { deciding } from "../draft.js";
import { endLease, isUnheard } from "../lease.js";
import type { Policy } from "../limits.js";
import type { NodeCall } from "./claim.js";
import { saveNode } from "./node.js";
import { nodeNow } from "./node-now.js";
import type { NodeRecord } from "./records.js";

export interface GiveBack extends Pick<NodeCall, "space" | "principal" | "id"> {
  readonly token: number;
  /** The calls that were told of it in vain. */
  readonly unheard: readonly string[];
}

export interface GivenBack {
  /** False: the claim is over, or its holder has named the node since, and knows of it. */
  readonly isGivenBack: boolean;
}

export function decideGiveBack(view: View, call: GiveBack, policy: Policy): Decision<GivenBack> {
  return deciding(view, policy, (draft) => {
    const now = nodeNow(draft, call.space, call.id);
    if ("refused" in now || now.held === null || now.lock === null) return { isGivenBack: false };
    const { node, lock, held } = now;
    const { by, token, blind, found } = held.node.claim;
    if (by !== call.principal || token !== call.token || blind !== true) return { isGivenBack: false };
    if (!isUnheard(draft, held.holding.lock, { calls: call.unheard, isTold: () => false }))
      return { isGivenBack: false };
    endLease(draft, lock, "released", { at: draft.now, event: "released", isUndone: true });
    const links = node.edges.filter(({ type }) => type !== "assigned");
    const before: NodeRecord = {
      ...node,
      claim: null,
      edges: found === undefined ? links : [...links, found],
    };
    saveNode(draft, node, before, {
      what: "given_back",
      by,
      token,
      ...(found === undefined ? {} : { edge: { type: found.type, to: found.to } }),
    });
    return { isGivenBack: true };
  });
}
