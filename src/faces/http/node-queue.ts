/** Handlers of the queue: what is there to do, the next of it, and many nodes at once. */
import type { ClaimReply, NodeCall } from "../../core/nodes/claim.js";
import type { ReleaseNodeReply, RenewNodeReply } from "../../core/nodes/lease-calls.js";
import { nodeLeaseName } from "../../core/nodes/node.js";
import type { NodeNow } from "../../core/nodes/node-now.js";
import { assigneeOf } from "../../core/nodes/rank.js";
import type { NodeRecord } from "../../core/nodes/records.js";
import type { NodeRefusal } from "../../core/nodes/refusal.js";
import { covers } from "../../service/identity.js";
import type { NextAsk, NextOutcome } from "../../service/next-work.js";
import {
  assignedNodes,
  type EachReply,
  type NodeQuery,
  parkedNodes,
  readyNodes,
  takenNodes,
} from "../../service/nodes.js";
import type { NodeScope } from "../../service/ready-places.js";
import type { Wait } from "../../service/waiting.js";
import type {
  ClaimNodesRequest,
  NextWorkRequest,
  NodeRef,
  QueueQuery,
  ReleaseNodesRequest,
  RenewNodesRequest,
} from "../../wire/node-claims.js";
import { type Answer, ok } from "./answer.js";
import { type Call, type Handler, pageLimit, requestOf } from "./call.js";
import { fromCursor, toCursor } from "./cursor.js";
import { answerTo } from "./failures.js";
import { isTrue, newLeaseId } from "./locks.js";
import { claimCallOf, claimedView, nodeCallOf } from "./node-claims.js";
import { claimRefusal, nodeRefusal } from "./node-refusals.js";
import { leaseView, nodeView, seesNode, whyOf } from "./node-views.js";
import { nodeIdProblem, unknownWord } from "./nodes.js";
import { inNodeWords } from "./v1-errors.js";
import { refuseRevoked, waitOf } from "./waiting-caller.js";

/** Claims read at a time where all of a caller's are renewed. */
const ownPage = 256;
/** Leases that are looked at to count the hidden ones: for who reads the queue, and for who is told that it is empty. */
const hiddenMax = { list: 4096, empty: 128 } as const;

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
    ...(isOpen ? await hiddenWork(call, type ?? null, hiddenMax.list) : {}),
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
async function hiddenWork(call: Call, type: string | null, most: number): Promise<object> {
  const isOthers = ({ id, claim }: NodeRecord): boolean =>
    claim !== null && claim.by !== call.identity.principal && seesNode(call, id);
  const { count, isLeast } = await call.desk.nodes.count(takenNodes(call.space, type), isOthers, most);
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
    scope: scopeOf(call),
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

/** Null: the token covers every node, by whatever words. */
const scopeOf = (call: Call): NodeScope | null =>
  covers(call.identity, nodeLeaseName("*"))
    ? null
    : { key: JSON.stringify(call.identity.scopes), covers: (id) => seesNode(call, id) };

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
  return ok({ ok: true, status: "empty", lease: null, ...(await hiddenWork(call, type, hiddenMax.empty)) });
}

/** A node that is meant, and which lease of it. */
const meant = (ref: NodeRef): { readonly id: string; readonly token?: number } =>
  typeof ref === "string" ? { id: ref } : ref;

/** What was asked for twice counts once. */
const distinct = (refs: readonly NodeRef[]) => [
  ...new Map(refs.map(meant).map((ref) => [`${ref.id} ${ref.token ?? ""}`, ref])).values(),
];

/** One result for each, in the order asked: what is no id, or not the token's to touch, is refused for itself. */
async function forEach<Reply extends object>(
  call: Call,
  refs: ReturnType<typeof distinct>,
  run: (calls: readonly NodeCall[]) => Promise<readonly EachReply<Reply | NodeRefusal>[]>,
  done: (reply: Reply, id: string) => object | null,
  labels: { readonly session?: string } = {},
): Promise<Answer> {
  const wrong = refs.map(({ id }) => nodeIdProblem(call, id));
  const right = refs.filter((_, nth) => wrong[nth] === null);
  const replies =
    right.length === 0 ? [] : await run(right.map((ref) => nodeCallOf(call, ref.id, { ...labels, ...ref })));
  // The request id is the whole call's.
  const [first] = replies;
  if (first !== undefined && replies.every(isReused)) return nodeRefusal(call, first as NodeRefusal);
  const results: object[] = [];
  let nth = 0;
  for (const [at, { id }] of refs.entries()) {
    const answer = wrong[at] ?? (await notDone(call, replies[nth] as EachReply<Reply | NodeRefusal>));
    const result =
      answer === null ? done(replies[nth] as Reply, id) : { ok: false, ...(answer.body as object) };
    if (wrong[at] === null) nth++;
    if (result !== null) results.push({ id, ...result });
  }
  return ok({ ok: true, results });
}

const isReused = (reply: object): boolean => "refused" in reply && reply.refused === "request_reused";

/** Why it was not done, or is not known to be; null: it was. */
async function notDone(call: Call, reply: EachReply<object>): Promise<Answer | null> {
  if ("failed" in reply) return inNodeWords(answerTo(reply.failed, call.request));
  return "refused" in reply ? claimRefusal(call, reply as NodeRefusal) : null;
}

export const claimNodes: Handler = async (call) => {
  const { ids, ...body } = call.body as ClaimNodesRequest;
  const { request_id, session = null, dispatch = null } = body;
  const refs = distinct(ids);
  const names = refs.map(({ id, token = null }) => [id, token]).toSorted();
  const request = requestOf(call, request_id, ["claim-nodes", names, session, dispatch]);
  const { space, identity } = call;
  return forEach<Exclude<ClaimReply, NodeRefusal>>(
    call,
    refs,
    (calls) =>
      call.desk.nodes.claimMany({
        space,
        principal: identity.principal,
        calls: calls.map((one) => ({ ...claimCallOf(call, one.id, body, null), token: one.token })),
        request,
      }),
    (claimed) => claimedView(call, claimed),
  );
};

export const renewNodes: Handler = async (call) => {
  const { ids, ...labels } = call.body as RenewNodesRequest;
  const isBlind = ids === undefined;
  return forEach<Exclude<RenewNodeReply, NodeRefusal>>(
    call,
    distinct(ids ?? (await ownClaims(call, labels.session))),
    (calls) => call.desk.nodes.renewMany(calls.map((one) => ({ ...one, isBlind }))),
    // What was reserved since it was found is left alone.
    (held) =>
      isBlind && held.node.claim.reserved
        ? null
        : { ok: true, status: "renewed", lease: leaseView(call, held) },
    labels,
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
  const { ids, ...labels } = call.body as ReleaseNodesRequest;
  return forEach<Exclude<ReleaseNodeReply, NodeRefusal>>(
    call,
    distinct(ids),
    (calls) => call.desk.nodes.releaseMany(calls),
    ({ edge }, node_id) => ({ ok: true, status: "released", node_id, edge }),
    labels,
  );
};
