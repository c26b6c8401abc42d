/** What the holder of a node does with its lease: renew, extend, reserve, release. Only the live lease goes on. */
import type { Decision, View } from "../decision.js";
import { type Draft, deciding } from "../draft.js";
import { everySpace, floorKey, type Key, lockKey, nodeKey, policyKey } from "../keys.js";
import { endLease, floorOf, holdingOf, prolongTo, raiseTtlHigh } from "../lease.js";
import type { Policy } from "../limits.js";
import { bumped, isForeignRun, type NodeCall, named } from "./claim.js";
import { nodeLeaseName, saveNode, touchNode } from "./node.js";
import { leaseLost, meansAnother, nodeNow } from "./node-now.js";
import type { TypeRules } from "./policy.js";
import { assigneeOf } from "./rank.js";
import type { NodeClaim, NodeRecord } from "./records.js";
import type { NodeHolding, NodeRefusal } from "./refusal.js";

export const nodeCallKeys = ({ space, id }: Pick<NodeCall, "space" | "id">): Key[] => [
  nodeKey(space, id),
  lockKey(space, nodeLeaseName(id)),
  policyKey(space),
  floorKey(space),
  floorKey(everySpace),
];

interface Own extends NodeHolding {
  readonly rules: TypeRules;
}

/** The caller's live claim, or why it has none. */
function own(draft: Draft, call: NodeCall): Own | NodeRefusal {
  const now = nodeNow(draft, call.space, call.id);
  if ("refused" in now) return now;
  const { held, rules, node } = now;
  if (!rules.isWork) return { refused: "not_work", id: node.id, type: node.type };
  if (held === null || held.node.claim.by !== call.principal) return leaseLost(now, call, null);
  if (meansAnother(call, now)) return leaseLost(now, call, "token");
  if (isForeignRun(call.session, held.node.claim)) return leaseLost(now, call, "session");
  return { ...held, rules };
}

export type RenewNodeReply = NodeHolding | NodeRefusal;

export function decideRenewNode(view: View, call: NodeCall, policy: Policy): Decision<RenewNodeReply> {
  return deciding(view, policy, (draft) => renewNode(draft, call));
}

/** Many at once; each is decided for itself. */
export function decideRenewNodes(
  view: View,
  calls: readonly NodeCall[],
  policy: Policy,
): Decision<readonly RenewNodeReply[]> {
  return decideEach(view, calls, policy, renewNode);
}

/** Whoever renews all that it is on does not mean what is reserved: that comes back as it is. */
function renewNode(draft: Draft, call: NodeCall): RenewNodeReply {
  const mine = own(draft, call);
  if ("refused" in mine || (call.isBlind === true && mine.node.claim.reserved)) return mine;
  return bumped(draft, mine, mine.rules, call);
}

export interface ExtendedNode extends NodeHolding {
  /** The ceiling that cut it short, in ms from now; null: it got all that it asked for. */
  readonly cappedTo: number | null;
}

/**
 * Stretches the lease by so much, as far as the ceiling allows; never shortens it. Of a reserved claim it stretches what
 * is left once the work is taken up again: until then the grace window counts.
 */
export function decideExtendNode(
  view: View,
  call: NodeCall & { readonly ms: number },
  policy: Policy,
): Decision<ExtendedNode | NodeRefusal> {
  return deciding(view, policy, (draft) => {
    const mine = own(draft, call);
    if ("refused" in mine) return mine;
    const { node, holding, rules } = mine;
    const { claim } = node;
    const end = claim.reserved ? (claim.workUntil ?? draft.now) : holding.expiresAt;
    const wanted = Math.max(end, draft.now) + Math.ceil(call.ms);
    const given = Math.max(end, Math.min(wanted, draft.now + rules.claimTtlMaxMs));
    raiseTtlHigh(draft, floorOf(draft, call.space), call.space, given - draft.now);
    const expiresAt = Math.max(holding.expiresAt, given);
    const lock = prolongTo(draft, holding.lock, { ...holding.lock.lease, expiresAt });
    const stretched = {
      ...named(claim),
      session: call.session ?? claim.session,
      ...(claim.reserved ? { workUntil: given } : {}),
    };
    const isSame = !claim.reserved && stretched.session === claim.session && stretched.blind === claim.blind;
    return {
      node: isSame ? node : (touchNode(draft, { ...node, claim: stretched }) as NodeHolding["node"]),
      holding: holdingOf(lock, null, draft.now),
      cappedTo: wanted > given ? rules.claimTtlMaxMs : null,
    };
  });
}

export interface ReservedNode extends NodeHolding {
  readonly graceMs: number;
}

/**
 * Heartbeats stop, the claim is kept for the grace window. The wait after a restore does not count it: whoever reserves
 * says that nobody is at work.
 */
export function decideReserveNode(
  view: View,
  call: NodeCall,
  policy: Policy,
): Decision<ReservedNode | NodeRefusal> {
  return deciding(view, policy, (draft) => {
    const mine = own(draft, call);
    if ("refused" in mine) return mine;
    const { node, holding, rules } = mine;
    const expiresAt = Math.max(holding.expiresAt, draft.now + rules.reserveGraceMs);
    const lock = prolongTo(draft, holding.lock, { ...holding.lock.lease, expiresAt });
    const { token, reserved, workUntil = draft.now } = node.claim;
    const session = call.session ?? node.claim.session;
    const claim: NodeClaim = {
      ...named(node.claim),
      session,
      reserved: true,
      workUntil: reserved ? workUntil : holding.expiresAt,
    };
    const after = saveNode(
      draft,
      node,
      { ...node, claim },
      { what: "reserved", by: call.principal, token, ...(session === null ? {} : { session }) },
    );
    return {
      node: after as NodeHolding["node"],
      holding: holdingOf(lock, null, draft.now),
      graceMs: rules.reserveGraceMs,
    };
  });
}

export interface ReleasedNode {
  readonly node: NodeRecord;
  readonly edge: "removed" | "skipped";
}

export type ReleaseNodeReply = ReleasedNode | NodeRefusal;

export function decideReleaseNode(view: View, call: NodeCall, policy: Policy): Decision<ReleaseNodeReply> {
  return deciding(view, policy, (draft) => releaseNode(draft, call));
}

/** Many at once; each is decided for itself. */
export function decideReleaseNodes(
  view: View,
  calls: readonly NodeCall[],
  policy: Policy,
): Decision<readonly ReleaseNodeReply[]> {
  return decideEach(view, calls, policy, releaseNode);
}

/**
 * Back to the pool: no lease, no edge. Whoever holds nothing leaves nothing behind either, but for what is over: there the
 * edge is the record of who carried it.
 */
function releaseNode(draft: Draft, call: NodeCall): ReleaseNodeReply {
  const now = nodeNow(draft, call.space, call.id);
  if ("refused" in now) return now;
  const { node, held, lock } = now;
  if (meansAnother(call, now)) return leaseLost(now, call, "token");
  if (held !== null && held.node.claim.by !== call.principal)
    return { refused: "already_claimed", held, differs: null };
  if (held !== null && isForeignRun(call.session, held.node.claim)) return leaseLost(now, call, "session");
  if (held !== null && lock !== null)
    endLease(draft, lock, "released", { at: draft.now, event: "released", clean: true });
  const carried = assigneeOf(node) === call.principal;
  if (held === null && (!carried || node.phase === "terminal")) return { node, edge: "skipped" };
  const free = draft.get(nodeKey(call.space, call.id)) ?? node;
  const after = saveNode(
    draft,
    node,
    {
      ...free,
      edges: free.edges.filter((edge) => edge.type !== "assigned"),
      // Only who had it can give it back cleanly.
      ...(held === null ? {} : { lapses: 0, carriers: [] }),
    },
    { what: "released", by: call.principal, token: held?.node.claim.token ?? null },
  );
  return { node: after, edge: carried ? "removed" : "skipped" };
}

function decideEach<Reply>(
  view: View,
  calls: readonly NodeCall[],
  policy: Policy,
  body: (draft: Draft, call: NodeCall) => Reply,
): Decision<readonly Reply[]> {
  return deciding(view, policy, (draft) => {
    draft.require(calls.flatMap(nodeCallKeys));
    const replies: Reply[] = [];
    draft.first(calls, (call) => void replies.push(body(draft, call)));
    return replies;
  });
}
