/** The rows of the route table for claims: one node's lease and status, the queue, and many nodes at once. */
import Type from "typebox";
import type { WireLimits } from "./fields.js";
import {
  claimNodeRequest,
  claimNodesRequest,
  ExtendNodeRequest,
  NodeCallRequest,
  NodeClaimed,
  NodeExtended,
  NodeReleased,
  NodeRenewed,
  NodeReserved,
  NodeStatusSet,
  NodesClaimed,
  NodesReleased,
  NodesRenewed,
  NoWork,
  nextWorkRequest,
  nodeStatusRequest,
  Queue,
  queueQuery,
  releaseNodesRequest,
  renewNodesRequest,
  WorkClaimed,
} from "./node-claims.js";
import { nodeProblem } from "./node-routes.js";
import type { Route } from "./route.js";

type Kind = Pick<Route, "tag" | "method" | "access" | "names" | "load">;
const taking: Kind = { tag: "nodes", method: "POST", access: "worker", names: "node", load: "take" };
const keeping: Kind = { ...taking, load: "keep" };

const reused = nodeProblem(
  "`invalid_node`: the rules for nodes forbid this; the message says which. `invalid_input`: the request id was used for another request.",
);
const lost = nodeProblem(
  "`lease_lost`: lapsed, taken, bound to another run, or with another token; `holder` is who has it now.",
);

export function nodeClaimRoutes(limits: WireLimits): Route[] {
  return [...leaseRoutes(limits), ...queueRoutes(limits)];
}

function leaseRoutes(limits: WireLimits): Route[] {
  return [
    {
      ...taking,
      id: "claimNode",
      path: "/v1/nodes/{id}/claim",
      summary: "Claim a node",
      description:
        "Takes the lease and writes the `assigned` edge, in one step. The caller's own live claim is renewed.",
      headers: ["Idempotency-Key"],
      body: claimNodeRequest(limits),
      replies: {
        200: { description: "Claimed, or renewed.", schema: NodeClaimed },
        422: reused,
        409: nodeProblem(
          "`already_claimed`, with the holder. `not_ready`: over, blocked or parked. `lease_lost`: the token or the repeated request's claim is over.",
        ),
      },
    },
    {
      ...keeping,
      id: "renewNode",
      path: "/v1/nodes/{id}/renew",
      summary: "Heartbeat",
      description:
        "Bumps the expiry, never below what an extend gave. A session binds the lease to that run.",
      body: NodeCallRequest,
      replies: { 200: { description: "Still yours.", schema: NodeRenewed }, 409: lost },
    },
    {
      ...keeping,
      id: "extendNode",
      path: "/v1/nodes/{id}/extend",
      summary: "Stretch the lease",
      description: "By `ms`, for a known gap, up to the ceiling; never shortens.",
      body: ExtendNodeRequest,
      replies: { 200: { description: "Extended, or capped.", schema: NodeExtended }, 409: lost },
    },
    {
      ...keeping,
      id: "reserveNode",
      path: "/v1/nodes/{id}/reserve",
      summary: "Keep the claim without heartbeats",
      description: "For the grace window. A renew or a claim puts it back into work.",
      body: NodeCallRequest,
      replies: { 200: { description: "Reserved.", schema: NodeReserved }, 409: lost },
    },
    {
      ...keeping,
      id: "releaseNode",
      path: "/v1/nodes/{id}/release",
      summary: "Release a node",
      description: "Ends the lease and removes the `assigned` edge. Succeeds without a lease, too.",
      body: NodeCallRequest,
      replies: {
        200: { description: "Back in the queue.", schema: NodeReleased },
        409: nodeProblem(
          "`already_claimed`: another's, with the holder. `lease_lost`: another token or run.",
        ),
      },
    },
    {
      ...keeping,
      id: "setNodeStatus",
      path: "/v1/nodes/{id}/status",
      summary: "Set the status",
      description:
        "An active one claims with the same lease. A terminal one ends the caller's lease and keeps the edge. An admin that gives a reason may end another's work.",
      body: nodeStatusRequest(limits),
      replies: {
        200: { description: "Written.", schema: NodeStatusSet },
        409: nodeProblem("`already_claimed`: another is on it. `lease_lost`: another token."),
      },
    },
  ];
}

function queueRoutes(limits: WireLimits): Route[] {
  return [
    {
      ...taking,
      id: "listQueue",
      method: "GET",
      access: "observer",
      load: "look",
      names: "prefix",
      path: "/v1/queue",
      summary: "What is there to do",
      description:
        "Open work by rank: priority, then how much it blocks, then age. What is leased to others is counted in `hidden`. With `assignee` what a principal carries, with its leases.",
      query: queueQuery(limits),
      replies: {
        200: { description: "One page, the best first.", schema: Queue },
        422: nodeProblem("`invalid_node`: nothing was found, and the policy has no such type."),
      },
    },
    {
      ...taking,
      id: "nextWork",
      names: "none",
      path: "/v1/queue/next",
      summary: "Claim the best free node",
      description:
        "In one atomic step. With `wait_seconds` it waits for work: new, released, lapsed, unblocked or unparked.",
      headers: ["Idempotency-Key"],
      body: nextWorkRequest(limits),
      replies: {
        200: { description: "Claimed, or nothing is free.", schema: Type.Union([WorkClaimed, NoWork]) },
        422: reused,
        409: nodeProblem(
          "`lease_lost`: the repeated request's claim is over. `not_ready`: the server was just restored.",
        ),
      },
    },
    {
      ...taking,
      id: "claimNodes",
      names: "nodes",
      path: "/v1/queue/claim",
      summary: "Claim many nodes",
      description:
        "Each for itself; each has its own result, an id that is given twice one. The request id is the whole call's.",
      headers: ["Idempotency-Key"],
      body: claimNodesRequest(limits),
      replies: {
        200: { description: "One result for each.", schema: NodesClaimed },
        422: reused,
      },
    },
    {
      ...keeping,
      id: "renewNodes",
      names: "nodes",
      path: "/v1/queue/renew",
      summary: "Heartbeat for many nodes",
      description: "Without ids for all of the caller's; reserved ones are left alone then.",
      body: renewNodesRequest(limits),
      replies: { 200: { description: "One result for each.", schema: NodesRenewed } },
    },
    {
      ...keeping,
      id: "releaseNodes",
      names: "nodes",
      path: "/v1/queue/release",
      summary: "Release many nodes",
      description: "Each for itself; each has its own result.",
      body: releaseNodesRequest(limits),
      replies: { 200: { description: "One result for each.", schema: NodesReleased } },
    },
  ];
}
