/** Reading and changing one node: every durable change has its revision, its place in the queue and its history entry. */
import type { Draft } from "../draft.js";
import { historyKey, nodeKey, policyKey } from "../keys.js";
import type { NodePolicy } from "./policy.js";
import { isReady } from "./rank.js";
import type { HistoryRecord, NodeRecord } from "./records.js";

export const nodePrefix = "node:";
export const nodeLeaseName = (id: string): string => nodePrefix + id;

/** The node that a lease is about, or null for any other lease. */
export const nodeIdOf = (name: string): string | null =>
  name.startsWith(nodePrefix) ? name.slice(nodePrefix.length) : null;

const idPattern = /^[a-z0-9][a-z0-9-]*$/;
export const isNodeId = (text: string, lengthMax: number): boolean =>
  text.length <= lengthMax && idPattern.test(text);

export function policyOf(draft: Draft, space: string): NodePolicy {
  return draft.get(policyKey(space))?.values ?? draft.policy.nodes;
}

/** `at` is now, unless it is said. */
export type Happening = Omit<HistoryRecord, "kind" | "space" | "node" | "seq" | "at"> & {
  readonly at?: number;
};

/**
 * Puts the changed node in place of the one before, with what happened to it. Whoever waits for work is told when it
 * can be taken from now on.
 */
export function saveNode(
  draft: Draft,
  before: NodeRecord | null,
  after: NodeRecord,
  ...happenings: readonly Happening[]
): NodeRecord {
  const { space, id } = after;
  let history = after.history;
  for (const happening of happenings) {
    history++;
    const entry: HistoryRecord = {
      kind: "history",
      space,
      node: id,
      seq: history,
      at: draft.now,
      ...happening,
    };
    draft.insert(historyKey(space, id, history), entry);
  }
  const node: NodeRecord = {
    ...after,
    history,
    updatedAt: draft.now,
    revision: (before?.revision ?? 0) + 1,
  };
  draft.put(nodeKey(space, id), node);
  if (isReady(node) && (before === null || !isReady(before)))
    draft.emit({ type: "ready", space, id, nodeType: node.type });
  return node;
}

/** Only what stands beside the graph changes (a bound session, a rank): no revision, no history. */
export function touchNode(draft: Draft, node: NodeRecord): NodeRecord {
  const before = draft.get(nodeKey(node.space, node.id));
  draft.put(nodeKey(node.space, node.id), node);
  if (isReady(node) && before !== null && !isReady(before))
    draft.emit({ type: "ready", space: node.space, id: node.id, nodeType: node.type });
  return node;
}
