/** The rows of the route table for nodes, their edges and history, and the policy of their space. */
import type { WireLimits } from "./fields.js";
import { NodeErrorBody } from "./node-errors.js";
import { PolicyView, SetPolicyRequest } from "./node-policy.js";
import {
  AddEdgeRequest,
  CreateNodeRequest,
  EdgeAdded,
  EdgeRemoved,
  historyQuery,
  listNodesQuery,
  NodeHistory,
  NodeList,
  NodeView,
  RemoveEdgeQuery,
  RemoveEdgeRequest,
  Unparked,
  UpdateNodeRequest,
  unparkRequest,
} from "./nodes.js";
import type { Reply, RequestHeader, Route } from "./route.js";

/** An error of the work graph. */
export const nodeProblem = (description: string): Reply => ({ description, schema: NodeErrorBody });

export const noSuchNode = nodeProblem("`not_found`: there is no such node in this space.");

/** The row with the refusals and headers that every route of the work graph shares; what the row says stands. */
export function withNodeReplies(route: Route): Route {
  const replies: Record<number, Reply> = {
    400: nodeProblem(
      "`invalid_input`: no JSON, an unknown field (the nearest known one is named), a wrong shape.",
    ),
    401: nodeProblem("`unauthorized`."),
    403: nodeProblem("`forbidden`: the token's role, scopes or space do not allow this."),
    429: nodeProblem("`rate_limited`: wait as long as `Retry-After` says."),
    500: nodeProblem("`internal`: a bug; report it with the request id."),
    503: nodeProblem(
      "`unavailable`: certainly not done, try again. `unknown_outcome`: may be done, repeat with the same request id.",
    ),
  };
  if (route.path.includes("{id}")) {
    replies[404] = noSuchNode;
    replies[422] = nodeProblem("`invalid_node`: this is no id.");
  }
  if (route.body !== undefined) {
    replies[413] = nodeProblem("`too_large`: the body is larger than the server reads.");
    replies[415] = nodeProblem("`invalid_input`: bodies are JSON.");
    replies[422] = nodeProblem("`invalid_node`: the rules for nodes forbid this; the message says which.");
  }
  const headers: RequestHeader[] = [...(route.headers ?? []), "Holdfast-Space"];
  return { ...route, headers, replies: { ...replies, ...route.replies } };
}

type Look = Pick<Route, "tag" | "access" | "load">;
const looking: Look = { tag: "nodes", access: "observer", load: "look" };
const changing: Look = { tag: "nodes", access: "worker", load: "take" };

export function nodeRoutes(limits: WireLimits): Route[] {
  return [...wholeNodes(limits), ...aroundNodes(limits), ...policyRoutes()];
}

function wholeNodes(limits: WireLimits): Route[] {
  return [
    {
      ...changing,
      id: "createNode",
      method: "POST",
      path: "/v1/nodes",
      summary: "Create a node",
      description:
        "A node is work, or a record of it. Without a status it gets the first planned one of its type.",
      names: "node",
      body: CreateNodeRequest,
      replies: {
        201: { description: "Created.", schema: NodeView },
        409: nodeProblem("`conflict`: the id is in use."),
      },
    },
    {
      ...looking,
      id: "listNodes",
      method: "GET",
      path: "/v1/nodes",
      summary: "List nodes",
      description: "Nodes that the token's scopes allow, by id, a page at a time.",
      names: "prefix",
      query: listNodesQuery(limits),
      replies: {
        200: { description: "One page.", schema: NodeList },
        422: nodeProblem("`invalid_node`: nothing was found, and the policy has no such type or status."),
      },
    },
    {
      ...looking,
      id: "getNode",
      method: "GET",
      path: "/v1/nodes/{id}",
      summary: "Read a node",
      description: "With its edges, its live blockers, and its lease if somebody is on it.",
      names: "node",
      replies: { 200: { description: "The node as it is now.", schema: NodeView } },
    },
    {
      ...changing,
      id: "updateNode",
      method: "PUT",
      path: "/v1/nodes/{id}",
      summary: "Change a node",
      description:
        "Title, summary, priority and project; what is left out stays. The status has its own route.",
      names: "node",
      body: UpdateNodeRequest,
      replies: {
        200: { description: "Changed.", schema: NodeView },
        409: nodeProblem("`conflict`: the node has changed since; `details.revision` is the current one."),
      },
    },
  ];
}

function aroundNodes(limits: WireLimits): Route[] {
  return [
    {
      ...changing,
      id: "addEdge",
      method: "POST",
      path: "/v1/nodes/{id}/edges",
      summary: "Add an edge",
      description:
        "From this node. One that `blocks` keeps the other out of the queue until this one is over.",
      names: "node",
      body: AddEdgeRequest,
      replies: {
        200: { description: "The edge is there.", schema: EdgeAdded },
        409: nodeProblem(
          "`conflict`: a circle of blocks, too many edges, or assigned to another. `already_claimed`.",
        ),
      },
    },
    {
      ...changing,
      id: "removeEdge",
      method: "DELETE",
      path: "/v1/nodes/{id}/edges",
      summary: "Remove an edge",
      description: "`type` and `to` in the body or in the query. There being none is fine.",
      names: "node",
      body: RemoveEdgeRequest,
      query: RemoveEdgeQuery,
      replies: {
        200: { description: "The edge is not there.", schema: EdgeRemoved },
        409: nodeProblem("`already_claimed`: a live lease keeps its edge; release ends both."),
      },
    },
    {
      ...looking,
      id: "nodeHistory",
      method: "GET",
      path: "/v1/nodes/{id}/history",
      summary: "What happened to a node",
      description:
        "Every claim, takeover, release, status and edge, with who, when, token and reason. No heartbeats.",
      names: "node",
      query: historyQuery(limits),
      replies: { 200: { description: "One page, oldest first.", schema: NodeHistory } },
    },
    {
      ...changing,
      id: "unparkNode",
      load: "look",
      method: "POST",
      path: "/v1/nodes/{id}/unpark",
      summary: "Put parked work back into the queue",
      description: "With as many tries as new work has.",
      names: "node",
      body: unparkRequest(limits),
      replies: {
        200: { description: "In the queue again.", schema: Unparked },
        409: nodeProblem("`conflict`: it is not parked."),
      },
    },
  ];
}

function policyRoutes(): Route[] {
  return [
    {
      ...looking,
      id: "getPolicy",
      method: "GET",
      path: "/v1/policy",
      summary: "The space's rules for its work",
      description: "How long claims last, which types there are, what their statuses mean.",
      names: "none",
      replies: { 200: { description: "The rules.", schema: PolicyView } },
    },
    {
      ...looking,
      id: "setPolicy",
      access: "admin",
      method: "PUT",
      path: "/v1/policy",
      summary: "Set the space's rules",
      description:
        "What is left out is as the server's configuration says. Nodes keep what their status meant until their next one.",
      names: "none",
      body: SetPolicyRequest,
      replies: {
        200: { description: "Set.", schema: PolicyView },
        409: nodeProblem("`conflict`: they have changed since; `details.revision` is the current one."),
      },
    },
  ];
}
