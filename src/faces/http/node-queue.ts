/** Handlers of the queue: what is there to do, the next of it, and many nodes at once. */
import type { ClaimReply } from "../../core/nodes/claim.js";
import type { NodeNow } from "../../core/nodes/node-now.js";
import { assigneeOf } from "../../core/nodes/rank.js";
import type { NodeRecord } from "../../core/nodes/records.js";
import type { NodeRefusal } from "../../core/nodes/refusal.js";
import type { NextAsk, NextOutcome } from "../../service/next-work.js";
import { assignedNodes, type NodeQuery, parkedNodes, readyNodes, takenNodes } from "../../service/nodes.js";
import type { Wait } from "../../service/waiting.js";
import type {
  ClaimNodesRequest,
  NextWorkRequest,
  QueueQuery,
  ReleaseNodesRequest,
  RenewNodesRequest,
} from "../../wire/node-claims.js";
import { type Answer, ok } from "./answer.js";
import { type Call, type Handler, pageLimit, requestOf } from "./call.js";
import { fromCursor, toCursor } from "./cursor.js";
import { isTrue, newLeaseId } from "./locks.js";
import { claimCallOf, claimedView, nodeCallOf } from "./node-claims.js";
import { claimRefusal, nodeRefusal } from "./node-refusals.js";
import { leaseView, nodeView, seesNode, whyOf } from "./node-views.js";
import { nodeIdProblem, unknownWord } from "./nodes.js";
import { refuseRevoked, waitOf } from "./waiting-caller.js";

/** Claims read at a time where all of a caller's are renewed. */
const ownPage = 256;

export const listQueue: Handler = async (call) => {
  const query = call.query as QueueQuery;
  const { type } = query;
  const assignee = query.assignee === "me" ? call.identity.principal : query.assignee;
  const isParked = isTrue(query.parked);
  const isOpen = !isParked && assignee === undefined;
  const page = await call.desk.nodes.list({
    range: rangeOf(call.space, type ?? null, assignee, isParked),
    after: fromCursor(call, query.cursor),
    limit: pageLimit(call, query.limit),
    accept: (node) =>
      seesNode(call, node.id) &&
      (type === undefined || node.type === type) &&
      (assignee === undefined || assigneeOf(node) === assignee),
  });
  const isEmpty = page.nodes.length === 0 && page.next === null && query.cursor === undefined;
  const unknown = isEmpty ? await unknownWord(call, type) : null;
  if (unknown !== null) return nodeRefusal(call, unknown);
  // What was taken while the page was made is no longer open.
  const shown = isOpen ? page.nodes.filter(({ held }) => held === null) : page.nodes;
  return ok({
    items: shown.map((now) => itemView(call, now)),
    ...(isOpen ? await hiddenWork(call, type ?? null) : {}),
    next_cursor: toCursor(call, page.next),
  });
};

function rangeOf(
  space: string,
  type: string | null,
  assignee: string | undefined,
  isParked: boolean,
): NodeQuery["range"] {
  if (isParked) return parkedNodes(space);
  return assignee === undefined ? readyNodes(space, type) : assignedNodes(space, assignee);
}

const itemView = (call: Call, now: NodeNow): object => ({
  ...nodeView(call, now.node, now.held),
  why: whyOf(call, now),
});

/** How much is leased to others, among what this token may see. */
async function hiddenWork(call: Call, type: string | null): Promise<object> {
  const isOthers = ({ id, claim }: NodeRecord): boolean =>
    claim !== null && claim.by !== call.identity.principal && seesNode(call, id);
  const { count, isLeast } = await call.desk.nodes.count(takenNodes(call.space, type), isOthers);
  return { hidden: count, ...(isLeast ? { hidden_at_least: true } : {}) };
}

export const nextWork: Handler = async (call) => {
  const body = call.body as NextWorkRequest;
  const { type = null, session = null, dispatch = null, wait_seconds = 0 } = body;
  const ask: NextAsk = {
    space: call.space,
    principal: call.identity.principal,
    session,
    dispatch,
    leaseId: newLeaseId(),
    request: requestOf(call, body.request_id, ["next-work", type, session, dispatch]),
    type,
    accepts: call.identity.scopes.includes("*") ? null : (id) => seesNode(call, id),
  };
  // Nobody should wait for what can never come: of a type that the policy dropped there is only what is left.
  const isHopeless = wait_seconds !== 0 && (await unknownWord(call, body.type)) !== null;
  const wait = waitOf(call, isHopeless ? 0 : wait_seconds);
  const outcome = await found(call, ask, wait);
  if ("refused" in outcome) return claimRefusal(call, outcome);
  if ("empty" in outcome) return noWork(call, type);
  const { work } = call.desk.nodes;
  const undelivered = (): void => work.unheard(ask, outcome);
  if (wait !== null) {
    if (wait.gone.aborted) undelivered();
    refuseRevoked(call);
  }
  return {
    ...ok({ ...claimedView(call, outcome), node: nodeView(call, outcome.node, outcome) }),
    undelivered,
  };
};

async function found(call: Call, ask: NextAsk, wait: Wait | null): Promise<NextOutcome> {
  try {
    return await call.desk.nodes.work.next(ask, wait);
  } catch (error) {
    if (wait !== null) refuseRevoked(call);
    throw error;
  }
}

async function noWork(call: Call, type: string | null): Promise<Answer> {
  const unknown = await unknownWord(call, type ?? undefined);
  if (unknown !== null) return nodeRefusal(call, unknown);
  return ok({ ok: true, status: "empty", lease: null, ...(await hiddenWork(call, type)) });
}

/** One result for each id, in the order asked: what is no id, or not the token's to touch, is refused for itself. */
async function forEach<Reply extends object>(
  call: Call,
  given: readonly string[],
  run: (ids: readonly string[]) => Promise<readonly (Reply | NodeRefusal)[]>,
  done: (reply: Reply, id: string) => object,
): Promise<Answer> {
  const ids = [...new Set(given)];
  const wrong = new Map(ids.map((id) => [id, nodeIdProblem(call, id)]));
  const right = ids.filter((id) => wrong.get(id) === null);
  const replies = right.length === 0 ? [] : await run(right);
  const outcomes = new Map(right.map((id, i) => [id, replies[i]]));
  const results: object[] = [];
  for (const id of ids) {
    const outcome = outcomes.get(id);
    if (outcome !== undefined && !("refused" in outcome)) results.push({ id, ...done(outcome, id) });
    else {
      const answer = outcome === undefined ? wrong.get(id) : await claimRefusal(call, outcome as NodeRefusal);
      results.push({ id, ok: false, ...(answer?.body as object) });
    }
  }
  return ok({ ok: true, results });
}

export const claimNodes: Handler = async (call) => {
  const { ids, ...body } = call.body as ClaimNodesRequest;
  const { request_id, session = null, dispatch = null } = body;
  // Each node has a record of its own: a repeat finds each as it was granted, whatever came of the others.
  const requestFor = (id: string) => {
    const request = requestOf(call, request_id, ["claim-nodes", id, session, dispatch]);
    return request === null ? null : { ...request, id: `${request.id}\t${id}` };
  };
  return forEach<Exclude<ClaimReply, NodeRefusal>>(
    call,
    ids,
    (some) => call.desk.nodes.claimMany(some.map((id) => claimCallOf(call, id, body, requestFor(id)))),
    (claimed) => claimedView(call, claimed),
  );
};

export const renewNodes: Handler = async (call) => {
  const { ids, session } = call.body as RenewNodesRequest;
  const body = session === undefined ? {} : { session };
  return forEach(
    call,
    ids ?? (await ownClaims(call, session)),
    (some) => call.desk.nodes.renewMany(some.map((id) => nodeCallOf(call, id, body))),
    (held) => ({ ok: true, status: "renewed", lease: leaseView(call, held) }),
  );
};

/** All that the caller is on, but what is reserved, or another run's than the one it names. */
async function ownClaims(call: Call, session: string | undefined): Promise<string[]> {
  const { principal } = call.identity;
  const ids: string[] = [];
  for (let after: string | null = null; ; ) {
    const page = await call.desk.nodes.list({
      range: assignedNodes(call.space, principal),
      after,
      limit: ownPage,
      accept: ({ id, claim }) =>
        claim?.by === principal &&
        !claim.reserved &&
        (session === undefined || claim.session === null || claim.session === session) &&
        seesNode(call, id),
    });
    ids.push(...page.nodes.map(({ node }) => node.id));
    if (page.next === null) return ids;
    after = page.next;
  }
}

export const releaseNodes: Handler = async (call) => {
  const { ids, session } = call.body as ReleaseNodesRequest;
  const body = session === undefined ? {} : { session };
  return forEach(
    call,
    ids,
    (some) => call.desk.nodes.releaseMany(some.map((id) => nodeCallOf(call, id, body))),
    ({ edge }, node_id) => ({ ok: true, status: "released", node_id, edge }),
  );
};
