/**
 * Setting a status. An active one claims with the same lease, a terminal one ends the caller's lease and keeps the edge
 * as the record of who carried it. What a node blocks, and what blocks it, learns in the same step.
 */
import type { Decision, View } from "../decision.js";
import { type Draft, deciding } from "../draft.js";
import { nodeKey } from "../keys.js";
import { endLease } from "../lease.js";
import type { Policy } from "../limits.js";
import { type ClaimCall, claimNode, isForeignDispatch, isForeignRun } from "./claim.js";
import { policyOf, saveNode, touchNode } from "./node.js";
import { leaseLost, meansAnother, type NodeNow, nodeNow } from "./node-now.js";
import { phaseOf, rulesOf } from "./policy.js";
import type { NodeRecord, Phase } from "./records.js";
import type { NodeHolding, NodeRefusal } from "./refusal.js";

export interface StatusCall extends ClaimCall {
  readonly status: string;
  /** Why, for the history. */
  readonly reason: string | null;
  /** An admin that gives a reason may end another's work. */
  readonly mayForce: boolean;
}

export interface StatusReply {
  readonly node: NodeRecord;
  /**
   * What the caller is on now. Of an active status: the claim, or why there is none; the status was written all the
   * same. Of a planned one: its claim, which goes on.
   */
  readonly claim: NodeHolding | NodeRefusal | null;
}

export function decideStatus(
  view: View,
  call: StatusCall,
  policy: Policy,
): Decision<StatusReply | NodeRefusal> {
  return deciding(view, policy, (draft) => {
    const now = nodeNow(draft, call.space, call.id);
    if ("refused" in now) return now;
    const { rules, node, held } = now;
    const phase = phaseOf(rules, call.status);
    if (phase === null) {
      const isDropped = rulesOf(policyOf(draft, call.space), node.type) === null;
      const known = Object.keys(rules.statuses);
      return { refused: "unknown_status", status: call.status, known, dropped: isDropped ? node.type : null };
    }
    if (meansAnother(call, now)) return leaseLost(now, call, "token");
    if (phase === "terminal") return finish(draft, call, now);
    const after = setStatus(draft, node, call, phase);
    if (phase === "planned") {
      const isMine = held?.node.claim.by === call.principal;
      return { node: after, claim: isMine ? { ...held, node: after as NodeHolding["node"] } : null };
    }
    const claim = claimNode(draft, call);
    return { node: draft.get(nodeKey(call.space, call.id)) ?? after, claim };
  });
}

function finish(draft: Draft, call: StatusCall, { node, lock, held }: NodeNow): StatusReply | NodeRefusal {
  let current = node;
  let token: number | null = null;
  if (held !== null && lock !== null) {
    const isMine = held.node.claim.by === call.principal;
    if (isMine && isForeignRun(call.session, held.node.claim))
      return { refused: "already_claimed", held, differs: "session" };
    if (isMine && isForeignDispatch(call.dispatch, held.node.claim))
      return { refused: "already_claimed", held, differs: "dispatch" };
    if (!isMine && !(call.mayForce && call.reason !== null))
      return { refused: "already_claimed", held, differs: null };
    // Of another's, the entry of the force says it.
    if (isMine) token = held.node.claim.token;
    const end = { at: draft.now, event: "released" as const, isFinal: true };
    if (isMine) endLease(draft, lock, "released", { ...end, clean: true });
    else endLease(draft, lock, "forced", { ...end, by: call.principal, reason: call.reason ?? "" });
    current = draft.get(nodeKey(call.space, call.id)) ?? node;
  }
  const done = { ...current, lapses: 0, carriers: [], parked: null };
  return { node: setStatus(draft, done, call, "terminal", token), claim: null };
}

function setStatus(
  draft: Draft,
  node: NodeRecord,
  call: StatusCall,
  phase: Phase,
  token = node.claim?.by === call.principal ? node.claim.token : null,
): NodeRecord {
  if (node.status === call.status && node.phase === phase) return node;
  const after = saveNode(
    draft,
    draft.get(nodeKey(node.space, node.id)),
    { ...node, status: call.status, phase },
    {
      what: "status",
      by: call.principal,
      token,
      status: { from: node.status, to: call.status },
      ...(call.reason === null ? {} : { reason: call.reason }),
    },
  );
  if ((node.phase === "terminal") !== (phase === "terminal"))
    tellNeighbours(draft, after, phase !== "terminal");
  return draft.get(nodeKey(node.space, node.id)) ?? after;
}

/** What it blocks becomes free, or blocked again; what blocks it ranks by one less, or one more. */
function tellNeighbours(draft: Draft, node: NodeRecord, live: boolean): void {
  const { space } = node;
  const blocked = node.edges.filter((edge) => edge.type === "blocks").map((edge) => edge.to);
  const blockers = node.blockedBy.map((blocker) => blocker.id);
  draft.require([...blocked, ...blockers].map((id) => nodeKey(space, id)));
  for (const id of blocked) {
    const target = draft.get(nodeKey(space, id));
    if (target === null) continue;
    const blockedBy = target.blockedBy.map((blocker) =>
      blocker.id === node.id ? { ...blocker, live } : blocker,
    );
    touchNode(draft, { ...target, blockedBy });
  }
  for (const id of blockers) {
    const source = draft.get(nodeKey(space, id));
    if (source !== null) touchNode(draft, { ...source, blocking: source.blocking + (live ? 1 : -1) });
  }
}
