/** Nodes as such: create, read, change, give back what was parked; and the policy of their space. */
import type { Decision, View } from "../decision.js";
import { deciding } from "../draft.js";
import { auditKey, nodeKey, policyKey } from "../keys.js";
import type { Policy } from "../limits.js";
import { policyOf, saveNode } from "./node.js";
import { type NodeNow, nodeNow } from "./node-now.js";
import { type NodePolicy, type PolicyRecord, phaseOf, rulesOf } from "./policy.js";
import type { NodeRecord, Priority } from "./records.js";
import type { NodeRefusal } from "./refusal.js";

export interface NewNode {
  readonly space: string;
  readonly principal: string;
  readonly id: string;
  readonly type: string;
  readonly title: string;
  readonly summary: string | null;
  /** null: the first planned one of its type. */
  readonly status: string | null;
  readonly priority: Priority | null;
  readonly project: string | null;
}

export function decideCreateNode(
  view: View,
  call: NewNode,
  policy: Policy,
): Decision<NodeRecord | NodeRefusal> {
  return deciding(view, policy, (draft) => {
    const key = nodeKey(call.space, call.id);
    draft.require([key, policyKey(call.space)]);
    if (draft.get(key) !== null) return { refused: "node_exists", id: call.id };
    const all = policyOf(draft, call.space);
    const rules = rulesOf(all, call.type);
    if (rules === null) return { refused: "unknown_type", type: call.type, known: Object.keys(all.types) };
    const known = Object.keys(rules.statuses);
    const first = known.find((status) => rules.statuses[status] === "planned") ?? known[0] ?? "";
    const status = call.status ?? first;
    const phase = phaseOf(rules, status);
    if (phase === null) return { refused: "unknown_status", status, known, dropped: null };
    if (phase === "active") return { refused: "active_at_birth", status };
    const { space, principal, id, type, title, summary, priority, project } = call;
    const node: NodeRecord = {
      kind: "node",
      space,
      id,
      type,
      title,
      summary,
      status,
      phase,
      priority,
      project,
      createdAt: draft.now,
      updatedAt: draft.now,
      revision: 0,
      edges: [],
      blockedBy: [],
      blocking: 0,
      claim: null,
      lapses: 0,
      carriers: [],
      parked: null,
      history: 0,
    };
    return saveNode(draft, null, node, { what: "created", by: principal, token: null });
  });
}

/** Reads a node with its lease as both are now. */
export function decideLookNode(
  view: View,
  space: string,
  id: string,
  policy: Policy,
): Decision<NodeNow | NodeRefusal> {
  return deciding(view, policy, (draft) => nodeNow(draft, space, id));
}

export interface NodeUpdate {
  readonly space: string;
  readonly principal: string;
  readonly id: string;
  /** As it was read. */
  readonly revision: number;
  readonly title?: string;
  readonly summary?: string | null;
  readonly priority?: Priority | null;
  readonly project?: string | null;
}

export function decideUpdateNode(
  view: View,
  call: NodeUpdate,
  policy: Policy,
): Decision<NodeRecord | NodeRefusal> {
  return deciding(view, policy, (draft) => {
    const now = nodeNow(draft, call.space, call.id);
    if ("refused" in now) return now;
    const { node } = now;
    if (node.revision !== call.revision) return { refused: "revision", revision: node.revision };
    const { title, summary, priority, project, principal } = call;
    const after: NodeRecord = {
      ...node,
      title: title ?? node.title,
      summary: summary === undefined ? node.summary : summary,
      priority: priority === undefined ? node.priority : priority,
      project: project === undefined ? node.project : project,
    };
    return saveNode(draft, node, after, { what: "updated", by: principal, token: null });
  });
}

export interface Unpark {
  readonly space: string;
  readonly principal: string;
  readonly id: string;
  readonly reason: string;
}

/** Back into the queue, with as many tries as new work has. */
export function decideUnpark(view: View, call: Unpark, policy: Policy): Decision<NodeRecord | NodeRefusal> {
  return deciding(view, policy, (draft) => {
    const now = nodeNow(draft, call.space, call.id);
    if ("refused" in now) return now;
    const { node } = now;
    if (node.parked === null) return { refused: "not_parked", id: node.id };
    const { principal: by, reason } = call;
    const after = { ...node, parked: null, lapses: 0, carriers: [] };
    return saveNode(draft, node, after, { what: "unparked", by, token: null, reason });
  });
}

export interface PolicyNow {
  /** 0: what the server's configuration says. */
  readonly revision: number;
  readonly values: NodePolicy;
}

export function decideLookPolicy(view: View, space: string, policy: Policy): Decision<PolicyNow> {
  return deciding(view, policy, (draft) => {
    const record = draft.get(policyKey(space));
    return { revision: record?.revision ?? 0, values: policyOf(draft, space) };
  });
}

export interface PolicyChange {
  readonly space: string;
  readonly principal: string;
  /** As it was read. */
  readonly revision: number;
  readonly values: NodePolicy;
  readonly auditId: string;
  /** For the audit: the wall clock's time of the call. */
  readonly wallAt: number;
}

/** Nodes keep what their status meant when they got it, until their next one. Who changed the rules is in the audit. */
export function decideSetPolicy(
  view: View,
  call: PolicyChange,
  policy: Policy,
): Decision<PolicyNow | NodeRefusal> {
  return deciding(view, policy, (draft) => {
    const key = policyKey(call.space);
    const revision = draft.get(key)?.revision ?? 0;
    if (revision !== call.revision) return { refused: "policy_revision", revision };
    const record: PolicyRecord = {
      kind: "policy",
      space: call.space,
      revision: revision + 1,
      values: call.values,
      by: call.principal,
      at: draft.now,
    };
    draft.put(key, record);
    draft.put(auditKey(call.space, call.auditId), {
      kind: "audit",
      id: call.auditId,
      space: call.space,
      at: draft.now,
      wallAt: call.wallAt,
      principal: call.principal,
      action: "policy_set",
      subject: "policy",
      reason: null,
      token: null,
      gcAt: draft.now + policy.auditRetentionMs,
    });
    return { revision: record.revision, values: record.values };
  });
}
