/** Handlers of one node's lease and status: claim, renew, extend, reserve, release. */
import type { Claim } from "../../core/lease.js";
import type { ClaimCall, Claimed, NodeCall } from "../../core/nodes/claim.js";
import type { NodeRefusal } from "../../core/nodes/refusal.js";
import type { StatusReply } from "../../core/nodes/status.js";
import { hasRole } from "../../service/identity.js";
import type {
  ClaimNodeRequest,
  ExtendNodeRequest,
  NodeCallRequest,
  NodeStatusRequest,
} from "../../wire/node-claims.js";
import type { NodeErrorBody } from "../../wire/node-errors.js";
import { ok } from "./answer.js";
import { type Call, type Handler, requestOf } from "./call.js";
import { newLeaseId } from "./locks.js";
import { claimRefusal, nodeRefusal } from "./node-refusals.js";
import { leaseView } from "./node-views.js";
import { pathNode } from "./nodes.js";

/** The caller as the core knows it. */
export const nodeCallOf = (call: Call, id: string, body: NodeCallRequest): NodeCall => ({
  space: call.space,
  principal: call.identity.principal,
  id,
  session: body.session ?? null,
  token: body.token ?? null,
});

export const claimCallOf = (
  call: Call,
  id: string,
  body: ClaimNodeRequest,
  request: Claim["request"],
): ClaimCall => ({
  ...nodeCallOf(call, id, body),
  dispatch: body.dispatch ?? null,
  rebind: body.rebind ?? false,
  leaseId: newLeaseId(),
  request,
});

export const claimedView = (call: Call, claimed: Claimed) => ({
  ok: true,
  status: claimed.status,
  lease: leaseView(call, claimed),
  edge: claimed.edge,
});

export const claimNode: Handler = async (call) => {
  const body = call.body as ClaimNodeRequest;
  const id = pathNode(call);
  const request = requestOf(call, body.request_id, [
    "claim-node",
    id,
    body.session ?? null,
    body.dispatch ?? null,
    body.rebind ?? false,
  ]);
  const outcome = await call.desk.nodes.claim(claimCallOf(call, id, body, request));
  return "refused" in outcome ? claimRefusal(call, outcome) : ok(claimedView(call, outcome));
};

export const renewNode: Handler = async (call) => {
  const outcome = await call.desk.nodes.renew(nodeCallOf(call, pathNode(call), call.body as NodeCallRequest));
  if ("refused" in outcome) return nodeRefusal(call, outcome);
  return ok({ ok: true, status: "renewed", lease: leaseView(call, outcome) });
};

export const extendNode: Handler = async (call) => {
  const { ms, ...body } = call.body as ExtendNodeRequest;
  const outcome = await call.desk.nodes.extend({ ...nodeCallOf(call, pathNode(call), body), ms });
  if ("refused" in outcome) return nodeRefusal(call, outcome);
  const { cappedTo } = outcome;
  return ok({
    ok: true,
    status: "extended",
    lease: leaseView(call, outcome),
    ...(cappedTo === null ? {} : { capped_to_max: true, claim_ttl_max_ms: cappedTo }),
  });
};

export const reserveNode: Handler = async (call) => {
  const outcome = await call.desk.nodes.reserve(
    nodeCallOf(call, pathNode(call), call.body as NodeCallRequest),
  );
  if ("refused" in outcome) return nodeRefusal(call, outcome);
  return ok({
    ok: true,
    status: "reserved",
    lease: leaseView(call, outcome),
    grace_window_ms: outcome.graceMs,
  });
};

export const releaseNode: Handler = async (call) => {
  const id = pathNode(call);
  const outcome = await call.desk.nodes.release(nodeCallOf(call, id, call.body as NodeCallRequest));
  if ("refused" in outcome) return nodeRefusal(call, outcome);
  return ok({ ok: true, status: "released", node_id: id, edge: outcome.edge });
};

export const setNodeStatus: Handler = async (call) => {
  const { status, reason, ...body } = call.body as NodeStatusRequest;
  const outcome = await call.desk.nodes.setStatus({
    ...claimCallOf(call, pathNode(call), body, null),
    status,
    reason: reason ?? null,
    mayForce: hasRole(call.identity, "admin"),
  });
  if ("refused" in outcome) return nodeRefusal(call, outcome);
  const { node, claim } = outcome;
  return ok({ status: "updated", id: node.id, revision: node.revision, ...leaseOf(call, claim) });
};

/** The claim that came with an active status, or why there is none. */
function leaseOf(call: Call, claim: StatusReply["claim"]): object {
  if (claim === null) return {};
  return { lease: "refused" in claim ? claimNotMade(call, claim) : leaseView(call, claim) };
}

function claimNotMade(call: Call, refusal: NodeRefusal): object {
  const { error, holder } = nodeRefusal(call, refusal).body as NodeErrorBody;
  return { error: error.code, message: error.message, ...(holder === undefined ? {} : { holder }) };
}
