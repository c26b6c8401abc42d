/**
 * What the end of a lease means to its node, called where every lease ends: it goes back into the queue in the same
 * step. Work that keeps losing its carriers is parked, so that it does not eat the fleet.
 */
import type { Draft } from "../draft.js";
import { nodeKey, policyKey } from "../keys.js";
import { carriersMax } from "../limits.js";
import type { EndedHow, LockRecord } from "../records.js";
import { nodeIdOf, policyOf, saveNode } from "./node.js";
import { rulesFor } from "./policy.js";
import type { HistoryRecord, NodeRecord } from "./records.js";

export interface LeaseEnd {
  /** When it was over: earlier than now, if nobody looked. */
  readonly at: number;
  readonly by?: string;
  readonly reason?: string;
  /** The work is over as well: there is nothing left that could be lost again. */
  readonly isFinal?: boolean;
}

/** Does nothing for a lease that is not a node's. */
export function freeNode(draft: Draft, lock: LockRecord, how: EndedHow, end: LeaseEnd): void {
  const id = nodeIdOf(lock.name);
  if (id === null) return;
  draft.require([nodeKey(lock.space, id), policyKey(lock.space)]);
  const node = draft.get(nodeKey(lock.space, id));
  if (node === null || node.claim === null || node.claim.token !== lock.token) return;
  const { claim } = node;
  const free: NodeRecord = { ...node, claim: null, lastCarrier: { by: claim.by, token: claim.token } };
  // Its own release: the step that releases writes what else that means.
  if (how === "released") {
    draft.put(nodeKey(lock.space, id), free);
    return;
  }
  const what = how === "forced" ? "forced" : "lapsed";
  const lost = {
    what,
    at: end.at,
    by: end.by ?? claim.by,
    token: claim.token,
    ...(end.reason === undefined ? {} : { reason: end.reason }),
    ...(claim.session === null ? {} : { session: claim.session }),
    ...(end.by === undefined ? {} : { from: { by: claim.by, token: claim.token } }),
  } as const;
  // Who reserved it said that nobody would be there: that speaks neither for nor against the work.
  if (claim.reserved || end.isFinal === true) {
    saveNode(draft, node, free, lost);
    return;
  }
  const lapses = node.lapses + 1;
  const carriers = [...node.carriers, { by: claim.by, token: claim.token }].slice(-carriersMax);
  if (lapses <= rulesFor(policyOf(draft, lock.space), node).reclaimsMax) {
    saveNode(draft, node, { ...free, lapses, carriers }, lost);
    return;
  }
  const reason = `lost ${lapses === 1 ? "once" : `${lapses} times`} without a clean release`;
  saveNode(draft, node, { ...free, lapses, carriers, parked: { at: draft.now, reason } }, lost, {
    what: "parked",
    by: claim.by,
    token: claim.token,
    reason,
  });
}

/** The node as a restore leaves it, and what its history says of that: its lease is over, which is not the work's fault. */
export function nodeAfterRestore(
  node: NodeRecord,
  now: number,
  by: string,
): { readonly node: NodeRecord; readonly entry: HistoryRecord } | null {
  const { claim, space, id } = node;
  if (claim === null) return null;
  const seq = node.history + 1;
  const { token } = claim;
  const reason = "restored from a backup";
  return {
    node: {
      ...node,
      claim: null,
      lastCarrier: { by: claim.by, token },
      history: seq,
      revision: node.revision + 1,
      updatedAt: now,
    },
    entry: {
      kind: "history",
      space,
      node: id,
      seq,
      what: "forced",
      at: now,
      by,
      token,
      reason,
      from: { by: claim.by, token },
    },
  };
}
