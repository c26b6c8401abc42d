/** Handlers of nodes, their edges and history, and the policy of their space. */
import { nodeIdMax } from "../../core/limits.js";
import { isNodeId } from "../../core/nodes/node.js";
import { type EdgeType, edgeTypes } from "../../core/nodes/records.js";
import type { NodeRefusal } from "../../core/nodes/refusal.js";
import { newAuditId } from "../../service/bearer.js";
import { allNodes } from "../../service/nodes.js";
import { principalPattern } from "../../wire/node-fields.js";
import { policyJson, readPolicy, type SetPolicyRequest } from "../../wire/node-policy.js";
import type {
  AddEdgeRequest,
  CreateNodeRequest,
  HistoryQuery,
  ListNodesQuery,
  RemoveEdgeQuery,
  RemoveEdgeRequest,
  UnparkRequest,
  UpdateNodeRequest,
} from "../../wire/nodes.js";
import { type Answer, ok } from "./answer.js";
import { type Call, type Handler, pageLimit } from "./call.js";
import { fromCursor, toCursor } from "./cursor.js";
import { nodeRefusal } from "./node-refusals.js";
import { historyView, nodeView, nodeViewNow, seesNode } from "./node-views.js";
import { nodeProblem, refuseNode } from "./v1-errors.js";

/** Why this is no id, or not one that the token may touch; null: it is. */
export function nodeIdProblem(call: Call, id: string): Answer | null {
  if (!isNodeId(id, nodeIdMax))
    return nodeProblem(
      "invalid_node",
      `${JSON.stringify(id.length > 80 ? `${id.slice(0, 80)}…` : id)} is no node's id: use lower-case letters, digits and -, not - first, at most ${nodeIdMax} characters.`,
    );
  return seesNode(call, id)
    ? null
    : nodeProblem(
        "forbidden",
        `The scopes of this token (${call.identity.scopes.join(" ")}) do not cover node:${id}. Ask an admin for one that does.`,
      );
}

/** An id that is one, and that this token may touch. */
export function allowedId(call: Call, id: string): string {
  const wrong = nodeIdProblem(call, id);
  return wrong === null ? id : refuseWith(wrong);
}

const refuseWith = (answer: Answer): never => {
  const { error } = answer.body as { error: { code: "invalid_node" | "forbidden"; message: string } };
  return refuseNode(error.code, error.message);
};

/** The node in the path. */
export const pathNode = (call: Call): string =>
  allowedId(call, (call.request.params as { id?: string }).id ?? "");

/** Who calls, about which node. */
const about = (call: Call, id: string) => ({ space: call.space, principal: call.identity.principal, id });

export const createNode: Handler = async (call) => {
  const body = call.body as CreateNodeRequest;
  const outcome = await call.desk.nodes.create({
    ...about(call, allowedId(call, body.id)),
    type: body.type,
    title: body.title,
    summary: body.summary ?? null,
    status: body.status ?? null,
    priority: body.priority ?? null,
    project: body.project ?? null,
  });
  if ("refused" in outcome) return nodeRefusal(call, outcome);
  return { status: 201, body: nodeView(call, outcome, null) };
};

export const getNode: Handler = async (call) => {
  const found = await call.desk.nodes.look(call.space, pathNode(call));
  return "refused" in found ? nodeRefusal(call, found) : ok(nodeView(call, found.node, found.held));
};

export const updateNode: Handler = async (call) => {
  const { revision, ...changes } = call.body as UpdateNodeRequest;
  const outcome = await call.desk.nodes.update({ ...about(call, pathNode(call)), revision, ...changes });
  return "refused" in outcome ? nodeRefusal(call, outcome) : ok(await nodeViewNow(call, outcome));
};

export const listNodes: Handler = async (call) => {
  const { type, status, prefix = "", limit, cursor } = call.query as ListNodesQuery;
  const page = await call.desk.nodes.list({
    range: allNodes(call.space, prefix),
    after: fromCursor(call, cursor),
    limit: pageLimit(call, limit),
    accept: (node) =>
      seesNode(call, node.id) &&
      (type === undefined || node.type === type) &&
      (status === undefined || node.status === status),
  });
  const isEmpty = page.nodes.length === 0 && page.next === null && cursor === undefined;
  const unknown = isEmpty ? await unknownWord(call, type, status) : null;
  if (unknown !== null) return nodeRefusal(call, unknown);
  return ok({
    nodes: page.nodes.map(({ node, held }) => nodeView(call, node, held)),
    next_cursor: toCursor(call, page.next),
  });
};

/**
 * A type or a status that the policy does not have. Nodes may have it all the same, from before it was changed: only where
 * nothing was found it is more likely a slip than a question.
 */
export async function unknownWord(
  call: Call,
  type: string | undefined,
  status?: string,
): Promise<NodeRefusal | null> {
  if (type === undefined && status === undefined) return null;
  const { types } = (await call.desk.nodes.lookPolicy(call.space)).values;
  if (type !== undefined && !Object.hasOwn(types, type))
    return { refused: "unknown_type", type, known: Object.keys(types) };
  const asked = Object.entries(types).filter(([name]) => type === undefined || name === type);
  const known = [...new Set(asked.flatMap(([, { statuses }]) => Object.keys(statuses)))];
  return status === undefined || known.includes(status)
    ? null
    : { refused: "unknown_status", status, known, dropped: null };
}

/** The other end of an edge: a principal, or a node that this token may touch as well. */
function edgeEnd(call: Call, type: EdgeType, to: string): string {
  if (type !== "assigned") return allowedId(call, to);
  return new RegExp(principalPattern).test(to)
    ? to
    : refuseNode(
        "invalid_node",
        "assigned points to a principal, a bearer token's name: 1 to 64 of A-Z a-z 0-9 . _ -",
      );
}

export const addEdge: Handler = async (call) => {
  const { type, to } = call.body as AddEdgeRequest;
  const edge = { type, to: edgeEnd(call, type, to) };
  const outcome = await call.desk.nodes.addEdge({ ...about(call, pathNode(call)), ...edge });
  if ("refused" in outcome) return nodeRefusal(call, outcome);
  return ok({
    ok: true,
    edge: outcome.changed ? "added" : "kept",
    node: await nodeViewNow(call, outcome.node),
  });
};

export const removeEdge: Handler = async (call) => {
  const id = pathNode(call);
  const { type, to } = namedEdge(call.body as RemoveEdgeRequest, call.query as RemoveEdgeQuery);
  const outcome = await call.desk.nodes.removeEdge({ ...about(call, id), type, to: edgeEnd(call, type, to) });
  if ("refused" in outcome) return nodeRefusal(call, outcome);
  return ok({
    ok: true,
    edge: outcome.changed ? "removed" : "skipped",
    node: await nodeViewNow(call, outcome.node),
  });
};

/** The edge that body and query name together. */
function namedEdge(body: RemoveEdgeRequest, query: RemoveEdgeQuery): { type: EdgeType; to: string } {
  for (const field of ["type", "to"] as const)
    if (body[field] !== undefined && query[field] !== undefined && body[field] !== query[field])
      refuseNode("invalid_input", `${field} in the body and in the query differ: send one of them.`);
  const type = edgeTypes.find((known) => known === (body.type ?? query.type));
  const to = body.to ?? query.to;
  if (type === undefined)
    return refuseNode(
      "invalid_node",
      `type must be one of ${edgeTypes.join(", ")}, in the body or the query.`,
    );
  return to === undefined
    ? refuseNode("invalid_node", "to is missing: say where the edge leads, in the body or the query.")
    : { type, to };
}

export const nodeHistory: Handler = async (call) => {
  const id = pathNode(call);
  const { after = "0", limit } = call.query as HistoryQuery;
  const page = await call.desk.nodes.history(call.space, id, Number(after), pageLimit(call, limit));
  if (page === null) return nodeRefusal(call, { refused: "unknown_node", id });
  return ok({
    node_id: id,
    history: page.entries.map((entry) => historyView(call, entry)),
    next_after: page.next,
  });
};

export const unparkNode: Handler = async (call) => {
  const { reason } = call.body as UnparkRequest;
  const outcome = await call.desk.nodes.unpark({ ...about(call, pathNode(call)), reason });
  if ("refused" in outcome) return nodeRefusal(call, outcome);
  return ok({ ok: true, status: "unparked", node: nodeView(call, outcome, null) });
};

export const getPolicy: Handler = async (call) => {
  const { revision, values } = await call.desk.nodes.lookPolicy(call.space);
  return ok({ revision, ...policyJson(values) });
};

export const setPolicy: Handler = async (call) => {
  const { revision, ...document } = call.body as SetPolicyRequest;
  const { nodes } = call.desk;
  const read = readPolicy(document, nodes.policy.nodes);
  if ("problem" in read) return nodeProblem("invalid_input", `This cannot be a policy: ${read.problem}.`);
  const { space, identity } = call;
  const outcome = await nodes.setPolicy({
    space,
    principal: identity.principal,
    revision,
    values: read.values,
    auditId: newAuditId(),
    wallAt: call.desk.present.instants.wall(),
  });
  if ("refused" in outcome) return nodeRefusal(call, outcome);
  return ok({ revision: outcome.revision, ...policyJson(outcome.values) });
};
