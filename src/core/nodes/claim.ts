/**
 * Claiming a node: the lease and the `assigned` edge in one step. The graph is person-scoped: the same person's claim
 * of what it holds renews it, unless a label says that another of its runs holds it.
 */
import type { Decision, View } from "../decision.js";
import { type Draft, deciding } from "../draft.js";
import { noHeirs, repeated } from "../heirs.js";
import { everySpace, floorKey, type Key, lockKey, nodeKey, policyKey, requestKey } from "../keys.js";
import { type Claim, floorOf, grant, holdingOf, prolongTo, quietUntil, raiseTtlHigh } from "../lease.js";
import type { Policy } from "../limits.js";
import type { Holding } from "../refusal.js";
import { nodeIdOf, nodeLeaseName, saveNode, touchNode } from "./node.js";
import { leaseLost, meansAnother, type NodeNow, nodeNow } from "./node-now.js";
import type { TypeRules } from "./policy.js";
import { assigneeOf, isBlocked, isCarried } from "./rank.js";
import type { Edge, NodeClaim, NodeRecord } from "./records.js";
import type { NodeHolding, NodeRefusal } from "./refusal.js";

/** Somebody speaking of a node. */
export interface NodeCall {
  readonly space: string;
  readonly principal: string;
  readonly id: string;
  /** The caller's run label. */
  readonly session: string | null;
  /** The fencing token of the lease that is meant. */
  readonly token: number | null;
  /**
   * The call names no node: it is about the next of the queue, or about all that the caller is on. That it succeeds does
   * not show that anybody knows of this one.
   */
  readonly isBlind?: boolean;
}

export interface ClaimCall extends NodeCall {
  readonly dispatch: string | null;
  /** The claim moves from the run that it is bound to, to this one. */
  readonly rebind: boolean;
  /** The id the lease gets if it is granted. */
  readonly leaseId: string;
  readonly request: Claim["request"];
}

export interface Claimed extends NodeHolding {
  readonly status: "claimed" | "renewed";
  readonly edge: "added" | "kept";
}

export type ClaimReply = Claimed | NodeRefusal;

export function claimKeys({ space, principal, id, request }: ClaimCall): Key[] {
  const keys: Key[] = [
    nodeKey(space, id),
    lockKey(space, nodeLeaseName(id)),
    policyKey(space),
    floorKey(space),
    floorKey(everySpace),
  ];
  if (request !== null) keys.push(requestKey(space, principal, request.id));
  return keys;
}

export function decideClaim(view: View, call: ClaimCall, policy: Policy): Decision<ClaimReply> {
  return deciding(view, policy, (draft) => claimNode(draft, call));
}

export function claimNode(draft: Draft, call: ClaimCall): ClaimReply {
  const again = repeatedClaim(draft, call);
  if (again !== null) return asMeant(draft, call, again);
  const now = nodeNow(draft, call.space, call.id);
  if ("refused" in now) return now;
  const { node, held, rules } = now;
  if (!rules.isWork) return { refused: "not_work", id: node.id, type: node.type };
  if (meansAnother(call, now)) return leaseLost(now, call, "token");
  if (held !== null) return reclaim(draft, call, held, rules);
  const why = whyNotReady(node);
  if (why !== null) return { refused: "not_ready", why, node };
  const quiet = quietUntil(floorOf(draft, call.space), draft.earliest);
  if (quiet !== 0) return { refused: "delayed", availableAt: quiet, now: draft.now, why: "restore" };
  return takeNode(draft, call, now, rules);
}

/** A repeat that means another claim than the one its request was granted is as lost as any other call. */
function asMeant(draft: Draft, call: ClaimCall, again: ClaimReply): ClaimReply {
  if ("refused" in again || call.token === null || call.token === again.node.claim.token) return again;
  const now = nodeNow(draft, call.space, again.node.id);
  return "refused" in now ? now : leaseLost(now, call, "token");
}

export function whyNotReady(node: NodeRecord): "terminal" | "blocked" | "parked" | null {
  if (node.phase === "terminal") return "terminal";
  if (node.parked !== null) return "parked";
  return isBlocked(node) ? "blocked" : null;
}

/** Grants a free node and writes the edge that records it. */
function takeNode(draft: Draft, call: ClaimCall, { node, lock }: NodeNow, rules: TypeRules): Claimed {
  const { principal, session, dispatch } = call;
  const granted = grant(draft, lock, leaseClaim(call, rules));
  const { token } = granted.lock;
  const carrier = assigneeOf(node);
  const isTakeover = carrier !== null && carrier !== principal && isCarried(node);
  const found = node.edges.find(({ type }) => type === "assigned");
  const claim: NodeClaim = {
    by: principal,
    token,
    since: draft.now,
    session,
    dispatch,
    reserved: false,
    ...(found === undefined ? {} : { found }),
    ...(call.isBlind === true ? { blind: true } : {}),
  };
  const last = node.lastCarrier;
  const after = saveNode(
    draft,
    node,
    { ...node, claim, edges: carrier === principal ? node.edges : assignedTo(node, principal, draft.now) },
    {
      what: isTakeover ? "taken_over" : "claimed",
      by: principal,
      token,
      ...(session === null ? {} : { session }),
      ...(isTakeover ? { from: { by: carrier, token: last?.by === carrier ? last.token : null } } : {}),
    },
  );
  return {
    status: "claimed",
    edge: carrier === principal ? "kept" : "added",
    node: after as NodeHolding["node"],
    holding: granted,
  };
}

const leaseClaim = (call: ClaimCall, rules: TypeRules): Claim => ({
  space: call.space,
  name: nodeLeaseName(call.id),
  principal: call.principal,
  owner: null,
  metadata: null,
  ttlMs: rules.claimTtlMs,
  delayMs: 0,
  sessionId: null,
  leaseId: call.leaseId,
  proof: null,
  reentrant: false,
  request: call.request,
});

/** The edges with this one carrier: there is one at a time, history has the ones before. */
export function assignedTo(node: NodeRecord, principal: string, at: number): readonly Edge[] {
  const others = node.edges.filter((edge) => edge.type !== "assigned");
  return [...others, { type: "assigned", to: principal, at, by: principal }];
}

/** Somebody is on it. The same person renews, with the same labels or none. */
function reclaim(draft: Draft, call: ClaimCall, held: NodeHolding, rules: TypeRules): ClaimReply {
  const { claim } = held.node;
  if (claim.by !== call.principal) return { refused: "already_claimed", held, differs: null };
  if (isForeignDispatch(call.dispatch, claim) || isNoDispatch(call, claim))
    return { refused: "already_claimed", held, differs: "dispatch" };
  if (isForeignRun(call.session, claim) && !call.rebind)
    return { refused: "already_claimed", held, differs: "session" };
  return { ...bumped(draft, held, rules, call), status: "renewed", edge: "kept" };
}

export const isForeignDispatch = (dispatch: string | null, claim: NodeClaim): boolean =>
  dispatch !== null && dispatch !== claim.dispatch;

/** A claim that leaves out the nonce may be another dispatch's, unless it shows the token or says that it takes over. */
const isNoDispatch = ({ dispatch, token, rebind }: ClaimCall, claim: NodeClaim): boolean =>
  dispatch === null && claim.dispatch !== null && token === null && !rebind;

export const isForeignRun = (session: string | null, claim: NodeClaim): boolean =>
  session !== null && claim.session !== null && session !== claim.session;

/**
 * The heartbeat: a later end, never below what an extend gave. What was reserved is in work again, and lasts as it would
 * have without that. A label binds the lease to that run; moving it from one run to another is history. Whoever names the
 * node has heard of it.
 */
export function bumped(
  draft: Draft,
  { node, holding }: NodeHolding,
  rules: TypeRules,
  { session, isBlind = false }: Pick<NodeCall, "session" | "isBlind">,
): NodeHolding {
  const { lease } = holding.lock;
  const { workUntil = 0, ...before } = isBlind ? node.claim : named(node.claim);
  const until = draft.now + rules.claimTtlMs;
  const expiresAt = Math.max(before.reserved ? workUntil : holding.expiresAt, until);
  raiseTtlHigh(draft, floorOf(draft, node.space), node.space, rules.claimTtlMs);
  const lock = prolongTo(draft, holding.lock, { ...lease, ttlMs: rules.claimTtlMs, expiresAt });
  const claim: NodeClaim = { ...before, reserved: false, session: session ?? before.session };
  return { node: reclaimed(draft, node, claim), holding: holdingOf(lock, null, draft.now) };
}

/** The claim of somebody who knows of it. */
export function named(claim: NodeClaim): NodeClaim {
  if (claim.blind === undefined) return claim;
  const { blind, ...rest } = claim;
  return rest;
}

function reclaimed(draft: Draft, node: NodeHolding["node"], claim: NodeClaim): NodeHolding["node"] {
  const { by, token, session } = claim;
  const isSame =
    claim.reserved === node.claim.reserved &&
    session === node.claim.session &&
    claim.blind === node.claim.blind;
  if (isSame) return node;
  const isMoved = session !== null && isForeignRun(session, node.claim);
  const after = isMoved
    ? saveNode(draft, node, { ...node, claim }, { what: "rebound", by, token, session })
    : touchNode(draft, { ...node, claim });
  return after as NodeHolding["node"];
}

/** A request id that was granted before: the same claim while it is live, else spent. */
export function repeatedClaim(draft: Draft, call: ClaimCall): ClaimReply | null {
  if (call.request === null) return null;
  const known = repeated(draft, { ...leaseClaim(call, noTimes), request: call.request }, [], noHeirs);
  if (known === null) return null;
  if ("granted" in known) return claimedAgain(draft, known.granted);
  return known.refused === "request_reused" || known.refused === "request_spent" ? known : null;
}

/** Only the request is looked at. */
const noTimes: TypeRules = {
  claimTtlMs: 0,
  claimTtlMaxMs: 0,
  reserveGraceMs: 0,
  reclaimsMax: 0,
  statuses: {},
  isWork: true,
};

function claimedAgain(draft: Draft, holding: Holding): Claimed | null {
  const id = nodeIdOf(holding.lock.name);
  const node = id === null ? null : draft.get(nodeKey(holding.lock.space, id));
  if (node === null || node.claim === null) return null;
  // As the first reply said: whether that claim wrote the edge.
  const edge = node.edges.find(({ type }) => type === "assigned")?.at === node.claim.since ? "added" : "kept";
  return { status: "claimed", edge, node: node as NodeHolding["node"], holding };
}
