/** Claiming nodes: the lease routes of one node, the status, the queue, and many nodes at once. */
import Type, { type Static, type TProperties } from "typebox";
import {
  choice,
  durationMs,
  nextCursor,
  paging,
  reply,
  request,
  requestId,
  type WireLimits,
  waitSeconds,
} from "./fields.js";
import { nodeErrorCodes, nodeErrorFields } from "./node-errors.js";
import {
  dispatchField,
  NodeLease,
  nodeReasonField,
  nodeWordPattern,
  principalPattern,
  sessionField,
  statusField,
  tokenField,
  typeField,
  wordCharsMax,
} from "./node-fields.js";
import { NodeView, nodeFields } from "./nodes.js";

const callFields = { session: Type.Optional(sessionField), token: Type.Optional(tokenField) };

export function claimNodeRequest(limits: WireLimits) {
  return request(
    "ClaimNodeRequest",
    {
      ...callFields,
      dispatch: Type.Optional(dispatchField),
      rebind: Type.Optional(
        Type.Boolean({
          description: "Move the caller's own claim from the run that it is bound to, to this one.",
        }),
      ),
      request_id: Type.Optional(requestId(limits)),
    },
    { examples: [{ session: "run-1842" }] },
  );
}
export type ClaimNodeRequest = Static<ReturnType<typeof claimNodeRequest>>;

/** Renew, reserve and release. */
export const NodeCallRequest = request("NodeCallRequest", callFields, {
  examples: [{ session: "run-1842" }],
});
export type NodeCallRequest = Static<typeof NodeCallRequest>;

export const ExtendNodeRequest = request(
  "ExtendNodeRequest",
  {
    ms: Type.Number({
      exclusiveMinimum: 0,
      description:
        "How much is added to what is left of the lease, in milliseconds; never more than the policy's ceiling from now.",
    }),
    ...callFields,
  },
  { examples: [{ ms: 7_200_000 }] },
);
export type ExtendNodeRequest = Static<typeof ExtendNodeRequest>;

export function nodeStatusRequest(limits: WireLimits) {
  return request(
    "NodeStatusRequest",
    {
      status: statusField,
      reason: Type.Optional(nodeReasonField(limits.reasonCharsMax)),
      ...callFields,
      dispatch: Type.Optional(dispatchField),
    },
    { examples: [{ status: "done" }] },
  );
}
export type NodeStatusRequest = Static<ReturnType<typeof nodeStatusRequest>>;

export function nextWorkRequest(limits: WireLimits) {
  return request(
    "NextWorkRequest",
    {
      type: Type.Optional(typeField),
      session: Type.Optional(sessionField),
      dispatch: Type.Optional(dispatchField),
      wait_seconds: Type.Optional(waitSeconds(limits)),
      request_id: Type.Optional(requestId(limits)),
    },
    { examples: [{ type: "task", session: "run-1842", wait_seconds: 60 }] },
  );
}
export type NextWorkRequest = Static<ReturnType<typeof nextWorkRequest>>;

/** What stands in the list is judged for itself, so that one wrong id does not refuse the others. */
const nodeRef = (limits: WireLimits) => {
  const id = Type.String({ maxLength: limits.nameCharsMax });
  return Type.Union([id, request("NodeRef", { id, token: Type.Optional(tokenField) })]);
};
export type NodeRef = Static<ReturnType<typeof nodeRef>>;

const idsField = (limits: WireLimits) =>
  Type.Array(nodeRef(limits), {
    minItems: 1,
    maxItems: limits.bulkMax,
    description:
      "Nodes' ids, or objects of an `id` and the `token` of the lease that is meant. Each has its own result.",
  });

export function claimNodesRequest(limits: WireLimits) {
  return request(
    "ClaimNodesRequest",
    {
      ids: idsField(limits),
      session: Type.Optional(sessionField),
      dispatch: Type.Optional(dispatchField),
      request_id: Type.Optional(requestId(limits)),
    },
    { examples: [{ ids: ["task-api-docs", "task-api-rate-limits"] }] },
  );
}
export type ClaimNodesRequest = Static<ReturnType<typeof claimNodesRequest>>;

export function renewNodesRequest(limits: WireLimits) {
  return request(
    "RenewNodesRequest",
    { ids: Type.Optional(idsField(limits)), session: Type.Optional(sessionField) },
    { examples: [{ session: "run-1842" }] },
  );
}
export type RenewNodesRequest = Static<ReturnType<typeof renewNodesRequest>>;

export function releaseNodesRequest(limits: WireLimits) {
  return request(
    "ReleaseNodesRequest",
    { ids: idsField(limits), session: Type.Optional(sessionField) },
    { examples: [{ ids: ["task-api-docs", "task-api-rate-limits"] }] },
  );
}
export type ReleaseNodesRequest = Static<ReturnType<typeof releaseNodesRequest>>;

export function queueQuery(limits: WireLimits) {
  return request("QueueQuery", {
    assignee: Type.Optional(
      Type.String({
        pattern: principalPattern,
        description: "`me`, or a principal: what it carries, leased or not.",
      }),
    ),
    type: Type.Optional(
      Type.String({ maxLength: wordCharsMax, pattern: nodeWordPattern, description: "Only this type." }),
    ),
    parked: Type.Optional(choice(["true", "false", "1", "0"], "What is out of the queue, with the reason.")),
    ...paging(limits),
  });
}
export type QueueQuery = Static<ReturnType<typeof queueQuery>>;

const claimedFields = {
  ok: Type.Literal(true),
  status: choice(["claimed", "renewed"], "`renewed`: it was the caller's already."),
  lease: NodeLease,
  edge: choice(["added", "kept"], "Whether this call wrote the `assigned` edge."),
};

export const NodeClaimed = reply("NodeClaimed", claimedFields);
export type NodeClaimed = Static<typeof NodeClaimed>;

const renewedFields = { ok: Type.Literal(true), status: Type.Literal("renewed"), lease: NodeLease };

export const NodeRenewed = reply("NodeRenewed", renewedFields);
export type NodeRenewed = Static<typeof NodeRenewed>;

export const NodeExtended = reply("NodeExtended", {
  ok: Type.Literal(true),
  status: Type.Literal("extended"),
  lease: NodeLease,
  capped_to_max: Type.Optional(Type.Literal(true, { description: "It got less than it asked for." })),
  claim_ttl_max_ms: Type.Optional(durationMs),
});
export type NodeExtended = Static<typeof NodeExtended>;

export const NodeReserved = reply("NodeReserved", {
  ok: Type.Literal(true),
  status: Type.Literal("reserved"),
  lease: NodeLease,
  grace_window_ms: durationMs,
});
export type NodeReserved = Static<typeof NodeReserved>;

const releasedFields = {
  ok: Type.Literal(true),
  status: Type.Literal("released"),
  node_id: Type.String(),
  edge: choice(["removed", "skipped"], "`skipped`: there was none of the caller's."),
};

export const NodeReleased = reply("NodeReleased", releasedFields);
export type NodeReleased = Static<typeof NodeReleased>;

export const NodeStatusSet = reply("NodeStatusSet", {
  status: Type.Literal("updated"),
  id: Type.String(),
  revision: Type.Integer({ minimum: 1 }),
  lease: Type.Optional(
    Type.Union(
      [
        NodeLease,
        reply("ClaimNotMade", {
          error: choice(nodeErrorCodes),
          message: Type.String(),
          holder: Type.Optional(NodeLease),
        }),
      ],
      {
        description:
          "The claim that the caller is on now. Of an active status, why there is none: the status is written all the same.",
      },
    ),
  ),
});
export type NodeStatusSet = Static<typeof NodeStatusSet>;

/** Work that is leased to others is counted, not shown. */
const hiddenFields = {
  hidden: Type.Integer({ minimum: 0, description: "Nodes that are leased to others." }),
  hidden_at_least: Type.Optional(
    Type.Literal(true, { description: "There may be more: only so many leases are looked at." }),
  ),
};

export const WorkClaimed = reply("WorkClaimed", { ...claimedFields, node: NodeView });
export type WorkClaimed = Static<typeof WorkClaimed>;

export const NoWork = reply("NoWork", {
  ok: Type.Literal(true),
  status: Type.Literal("empty"),
  lease: Type.Null(),
  ...hiddenFields,
});
export type NoWork = Static<typeof NoWork>;

const QueueItem = reply("QueueItem", {
  ...nodeFields,
  why: Type.Array(Type.String(), { description: "What gives it its place, in short words." }),
});

export const Queue = reply("Queue", {
  items: Type.Array(QueueItem, { description: "The best first." }),
  hidden: Type.Optional(hiddenFields.hidden),
  hidden_at_least: hiddenFields.hidden_at_least,
  next_cursor: nextCursor,
});
export type Queue = Static<typeof Queue>;

const NotDone = reply("NodeResultRefused", {
  id: Type.String(),
  ok: Type.Literal(false),
  ...nodeErrorFields,
});

function results<Fields extends TProperties>(title: string, done: string, fields: Fields) {
  return reply(title, {
    ok: Type.Literal(true),
    results: Type.Array(Type.Union([reply(done, { id: Type.String(), ...fields }), NotDone]), {
      description: "One for each id, in the order asked.",
    }),
  });
}

export const NodesClaimed = results("NodesClaimed", "NodeResultClaimed", claimedFields);
export type NodesClaimed = Static<typeof NodesClaimed>;
export const NodesRenewed = results("NodesRenewed", "NodeResultRenewed", renewedFields);
export type NodesRenewed = Static<typeof NodesRenewed>;
export const NodesReleased = results("NodesReleased", "NodeResultReleased", releasedFields);
export type NodesReleased = Static<typeof NodesReleased>;
