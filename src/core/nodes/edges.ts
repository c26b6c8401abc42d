/**
 * Edges between nodes, and by hand to a principal. A `blocks` edge stands on both ends in the same step, and never
 * closes a circle: work that waits for itself would never be ready.
 */
import type { Decision, View } from "../decision.js";
import { type Draft, deciding } from "../draft.js";
import { type Key, nodeKey } from "../keys.js";
import { blockersMax, cycleSearchMax, edgesMax, type Policy } from "../limits.js";
import { saveNode, touchNode } from "./node.js";
import { nodeNow } from "./node-now.js";
import { assigneeOf } from "./rank.js";
import type { EdgeType, NodeRecord } from "./records.js";
import type { NodeRefusal } from "./refusal.js";

export interface EdgeCall {
  readonly space: string;
  readonly principal: string;
  readonly id: string;
  readonly type: EdgeType;
  readonly to: string;
}

export interface EdgeReply {
  readonly node: NodeRecord;
  /** False: it was there (or gone) already. */
  readonly changed: boolean;
}

export function decideAddEdge(view: View, call: EdgeCall, policy: Policy): Decision<EdgeReply | NodeRefusal> {
  return deciding(view, policy, (draft) => {
    const now = nodeNow(draft, call.space, call.id);
    if ("refused" in now) return now;
    const { node, held } = now;
    if (node.edges.some((edge) => edge.type === call.type && edge.to === call.to))
      return { node, changed: false };
    if (call.type === "assigned") {
      const carrier = assigneeOf(node);
      if (held !== null) return { refused: "already_claimed", held, differs: null };
      if (carrier !== null) return { refused: "assigned_to_other", id: node.id, to: carrier };
    } else {
      const refusal = linkTo(draft, call, node);
      if (refusal !== null) return refusal;
    }
    const edge = { type: call.type, to: call.to, at: draft.now, by: call.principal };
    const current = draft.get(nodeKey(call.space, call.id)) ?? node;
    const after = saveNode(
      draft,
      node,
      { ...current, edges: [...current.edges, edge] },
      { what: "edge_added", by: call.principal, token: null, edge: { type: call.type, to: call.to } },
    );
    return { node: after, changed: true };
  });
}

/** Looks at the other end and, for `blocks`, writes there too. */
function linkTo(draft: Draft, call: EdgeCall, node: NodeRecord): NodeRefusal | null {
  if (call.to === call.id) return { refused: "edge_to_itself", type: call.type };
  const target = draft.get(nodeKey(call.space, call.to));
  if (target === null) return { refused: "edge_to_nothing", to: call.to };
  const edgesFull = fullness(draft, node, linkCount(node), edgesMax);
  if (edgesFull !== null) return edgesFull;
  if (call.type !== "blocks") return null;
  const circle = circleOf(draft, call);
  if (circle !== null) return circle;
  const blockersFull = fullness(draft, target, target.blockedBy.length, blockersMax);
  if (blockersFull !== null) return blockersFull;
  const live = node.phase !== "terminal";
  touchNode(draft, { ...target, blockedBy: [...target.blockedBy, { id: call.id, live }] });
  if (target.phase !== "terminal") touchNode(draft, { ...node, blocking: node.blocking + 1 });
  return null;
}

/** A change of its status looks at all its neighbours in one step: no more of them than the engine can compare at once. */
function fullness(
  draft: Draft,
  node: NodeRecord,
  count: number,
  countMax: number,
): (NodeRefusal & { refused: "edges_full" }) | null {
  if (count >= countMax) return { refused: "edges_full", on: node.id, limit: countMax };
  if (linkCount(node) + node.blockedBy.length < draft.neighboursMax) return null;
  return { refused: "edges_full", on: node.id, limit: draft.neighboursMax };
}

/** `assigned` has a place of its own: a node that is full of links can still be claimed. */
const linkCount = ({ edges }: NodeRecord): number => edges.filter(({ type }) => type !== "assigned").length;

const blockedIds = (node: NodeRecord | null): string[] =>
  (node?.edges ?? []).filter((edge) => edge.type === "blocks").map((edge) => edge.to);

/**
 * Whether following `blocks` from the target leads back to the source. Breadth first, a level a round. The bound holds
 * for every single node: one level may be a hundred times as wide as the one before.
 */
function circleOf(draft: Draft, call: EdgeCall): NodeRefusal | null {
  const from = new Map<string, string | null>([[call.to, null]]);
  const most = Math.min(cycleSearchMax, draft.searchMax);
  let level = [call.to];
  while (level.length > 0) {
    draft.require(level.map((id) => nodeKey(call.space, id)));
    const next: string[] = [];
    for (const id of level)
      for (const to of blockedIds(draft.get(nodeKey(call.space, id)))) {
        if (to === call.id) return { refused: "edge_cycle", path: [call.id, ...wayTo(from, id), call.id] };
        if (from.has(to)) continue;
        if (from.size >= most) return { refused: "edge_too_deep", limit: most };
        from.set(to, id);
        next.push(to);
      }
    level = next;
  }
  return null;
}

function wayTo(from: ReadonlyMap<string, string | null>, id: string): string[] {
  const way: string[] = [];
  for (let at: string | null = id; at !== null; at = from.get(at) ?? null) way.unshift(at);
  return way;
}

/**
 * Where to look next for a circle: nodes one level behind those that are given, but for those that are known, and no more
 * of them than a search may see in all. A chain may be longer than one decision has rounds, so its members are collected
 * first; the decision that adds the edge walks them all again.
 */
export function decideBehind(
  view: View,
  space: string,
  ids: readonly string[],
  known: ReadonlySet<string>,
  policy: Policy,
): Decision<readonly string[]> {
  return deciding(view, policy, (draft) => {
    draft.require(ids.map((id) => nodeKey(space, id)));
    const most = Math.min(cycleSearchMax, draft.searchMax);
    const behind = new Set(ids.flatMap((id) => blockedIds(draft.get(nodeKey(space, id)))));
    return [...behind].filter((id) => !known.has(id)).slice(0, Math.max(0, most - known.size));
  });
}

export function decideRemoveEdge(
  view: View,
  call: EdgeCall,
  policy: Policy,
): Decision<EdgeReply | NodeRefusal> {
  return deciding(view, policy, (draft) => {
    const now = nodeNow(draft, call.space, call.id);
    if ("refused" in now) return now;
    const { node, held } = now;
    if (!node.edges.some((edge) => edge.type === call.type && edge.to === call.to))
      return { node, changed: false };
    // A lease never stands without its edge: release ends both.
    if (call.type === "assigned" && held !== null) return { refused: "already_claimed", held, differs: null };
    if (call.type === "blocks") unlink(draft, call, node);
    const current = draft.get(nodeKey(call.space, call.id)) ?? node;
    const after = saveNode(
      draft,
      node,
      {
        ...current,
        edges: current.edges.filter((edge) => edge.type !== call.type || edge.to !== call.to),
      },
      { what: "edge_removed", by: call.principal, token: null, edge: { type: call.type, to: call.to } },
    );
    return { node: after, changed: true };
  });
}

function unlink(draft: Draft, call: EdgeCall, node: NodeRecord): void {
  const target = draft.get(nodeKey(call.space, call.to));
  if (target === null) return;
  touchNode(draft, { ...target, blockedBy: target.blockedBy.filter(({ id }) => id !== call.id) });
  if (target.phase !== "terminal") touchNode(draft, { ...node, blocking: node.blocking - 1 });
}

export const edgeKeys = ({ space, id, type, to }: EdgeCall): Key[] =>
  type === "assigned" ? [nodeKey(space, id)] : [nodeKey(space, id), nodeKey(space, to)];
