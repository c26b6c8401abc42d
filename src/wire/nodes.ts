/**
 * The work graph: nodes, edges, history. A node is work; its `assigned` edge says who carried it, its lease who is on it
 * now. Claiming and the queue stand beside it.
 */
import Type, { type Static } from "typebox";
import { historyKinds } from "../core/nodes/records.js";
import {
  choice,
  count,
  fencingToken,
  instant,
  nextCursor,
  nullable,
  paging,
  reply,
  request,
  type WireLimits,
} from "./fields.js";
import {
  edgeTypeField,
  NodeLease,
  nodeIdField,
  nodeReasonField,
  nodeWordPattern,
  priorityField,
  projectField,
  statusField,
  summaryField,
  titleField,
  typeField,
  wordCharsMax,
} from "./node-fields.js";

export const CreateNodeRequest = request(
  "CreateNodeRequest",
  {
    id: nodeIdField,
    type: typeField,
    title: titleField,
    summary: Type.Optional(summaryField),
    status: Type.Optional(statusField),
    priority: Type.Optional(priorityField),
    project: Type.Optional(projectField),
  },
  {
    examples: [
      { id: "task-api-rate-limits", type: "task", title: "Rate limits for the API", priority: "p1" },
    ],
  },
);
export type CreateNodeRequest = Static<typeof CreateNodeRequest>;

export const UpdateNodeRequest = request(
  "UpdateNodeRequest",
  {
    revision: Type.Integer({ minimum: 0, description: "As it was read; another one is a conflict." }),
    title: Type.Optional(titleField),
    summary: Type.Optional(nullable(summaryField, "null removes it.")),
    priority: Type.Optional(nullable(priorityField, "null removes it.")),
    project: Type.Optional(nullable(projectField, "null removes it.")),
  },
  { examples: [{ revision: 1, priority: "p2" }] },
);
export type UpdateNodeRequest = Static<typeof UpdateNodeRequest>;

/** A word that a list is filtered by; that nothing has it is no mistake. */
const filter = (description: string) =>
  Type.Optional(Type.String({ maxLength: wordCharsMax, pattern: nodeWordPattern, description }));

export function listNodesQuery(limits: WireLimits) {
  return request("ListNodesQuery", {
    type: filter("Only this type."),
    status: filter("Only this status."),
    prefix: Type.Optional(
      Type.String({
        maxLength: limits.nameCharsMax,
        pattern: "^[a-z0-9-]*$",
        description: "Only ids that start with this.",
      }),
    ),
    ...paging(limits),
  });
}
export type ListNodesQuery = Static<ReturnType<typeof listNodesQuery>>;

export function historyQuery(limits: WireLimits) {
  return request("NodeHistoryQuery", {
    after: Type.Optional(
      Type.String({
        pattern: "^[0-9]{1,15}$",
        description: "Only entries after this `seq`, as `next_after` gave it.",
      }),
    ),
    limit: paging(limits).limit,
  });
}
export type HistoryQuery = Static<ReturnType<typeof historyQuery>>;

const edgeEnd = Type.String({ minLength: 1, maxLength: 128, description: "A principal, or a node's id." });

export const AddEdgeRequest = request(
  "AddEdgeRequest",
  { type: edgeTypeField, to: edgeEnd },
  { examples: [{ type: "blocks", to: "task-api-docs" }] },
);
export type AddEdgeRequest = Static<typeof AddEdgeRequest>;

/** In the body or in the query: not every client sends a body with DELETE. */
export const RemoveEdgeRequest = request(
  "RemoveEdgeRequest",
  { type: Type.Optional(edgeTypeField), to: Type.Optional(edgeEnd) },
  { examples: [{ type: "blocks", to: "task-api-docs" }] },
);
export type RemoveEdgeRequest = Static<typeof RemoveEdgeRequest>;

export const RemoveEdgeQuery = request("RemoveEdgeQuery", {
  type: Type.Optional(Type.String({ maxLength: wordCharsMax, description: "As in the body." })),
  to: Type.Optional(Type.String({ maxLength: 128, description: "As in the body." })),
});
export type RemoveEdgeQuery = Static<typeof RemoveEdgeQuery>;

export function unparkRequest(limits: WireLimits) {
  return request(
    "UnparkRequest",
    { reason: nodeReasonField(limits.reasonCharsMax) },
    { examples: [{ reason: "the broken input was removed" }] },
  );
}
export type UnparkRequest = Static<ReturnType<typeof unparkRequest>>;

const NodeEdge = reply("NodeEdge", {
  type: edgeTypeField,
  to: Type.String(),
  at: instant,
  by: Type.String(),
});

const Parked = reply("ParkedNode", {
  at: instant,
  reason: Type.String(),
  carriers: Type.Array(reply("LostCarrier", { by: Type.String(), token: fencingToken }), {
    description: "Who lost it without a clean release, the last few.",
  }),
});

/** The fields of every view of a node, for those that add their own. */
export const nodeFields = {
  id: Type.String(),
  type: Type.String(),
  title: Type.String(),
  summary: Type.Optional(Type.String()),
  status: Type.String(),
  priority: Type.Optional(priorityField),
  project: Type.Optional(Type.String()),
  created_at: instant,
  updated_at: instant,
  revision: Type.Integer({
    minimum: 1,
    description: "Rises with every durable change; heartbeats are none.",
  }),
  edges: Type.Array(NodeEdge),
  blocked_by: Type.Array(Type.String(), { description: "Live nodes that block it." }),
  blockers_hidden: Type.Optional(
    Type.Integer({
      minimum: 1,
      description: "Live nodes that block it and that the token's scopes do not cover.",
    }),
  ),
  reclaims: Type.Integer({ minimum: 0, description: "How often it was lost since the last clean release." }),
  lease: Type.Optional(NodeLease),
  parked: Type.Optional(Parked),
};

export const NodeView = reply("Node", nodeFields);
export type NodeView = Static<typeof NodeView>;

export const NodeList = reply("NodeList", { nodes: Type.Array(NodeView), next_cursor: nextCursor });
export type NodeList = Static<typeof NodeList>;

export const EdgeAdded = reply("EdgeAdded", {
  ok: Type.Literal(true),
  edge: choice(["added", "kept"], "`kept`: it was there already."),
  node: NodeView,
});
export type EdgeAdded = Static<typeof EdgeAdded>;

export const EdgeRemoved = reply("EdgeRemoved", {
  ok: Type.Literal(true),
  edge: choice(["removed", "skipped"], "`skipped`: there was none."),
  node: NodeView,
});
export type EdgeRemoved = Static<typeof EdgeRemoved>;

export const Unparked = reply("NodeUnparked", {
  ok: Type.Literal(true),
  status: Type.Literal("unparked"),
  node: NodeView,
});
export type Unparked = Static<typeof Unparked>;

const HistoryEntry = reply("NodeHistoryEntry", {
  seq: Type.Integer({ minimum: 1, description: "1, 2, 3, … without gaps." }),
  what: choice(historyKinds),
  at: instant,
  by: Type.String(),
  token: nullable(count, "The token of the lease that it is about."),
  session: Type.Optional(Type.String()),
  reason: Type.Optional(Type.String()),
  status: Type.Optional(reply("StatusChange", { from: Type.String(), to: Type.String() })),
  edge: Type.Optional(reply("EdgeChange", { type: edgeTypeField, to: Type.Optional(Type.String()) })),
  from: Type.Optional(
    reply(
      "LastCarrier",
      { by: Type.String(), token: nullable(count) },
      { description: "Of a takeover or a force release: whose it was." },
    ),
  ),
});

export const NodeHistory = reply("NodeHistory", {
  node_id: Type.String(),
  history: Type.Array(HistoryEntry, { description: "Oldest first." }),
  next_after: nullable(count, "Pass as `after` for the next page; null: this is the last."),
});
export type NodeHistory = Static<typeof NodeHistory>;
