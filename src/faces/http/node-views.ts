/** Nodes, their leases and their history as strangers see them: never a lease id, nor a node that scopes do not cover. */
import { nodeLeaseName } from "../../core/nodes/node.js";
import type { NodeNow } from "../../core/nodes/node-now.js";
import { assigneeOf, isCarried } from "../../core/nodes/rank.js";
import type { HistoryRecord, NodeRecord } from "../../core/nodes/records.js";
import type { NodeHolding } from "../../core/nodes/refusal.js";
import { mayTouch } from "../../service/identity.js";
import type { NodeLease } from "../../wire/node-fields.js";
import type { NodeView } from "../../wire/nodes.js";
import type { Call } from "./call.js";

export const seesNode = (call: Call, id: string): boolean => mayTouch(call.identity, nodeLeaseName(id));

export function leaseView(call: Call, { node, holding }: NodeHolding): NodeLease {
  const { present } = call.desk;
  const { claim } = node;
  return {
    node_id: node.id,
    by: claim.by,
    expires: present.instants.epochMs(holding.expiresAt),
    ...present.expiry(holding),
    session: claim.session,
    claimed_at: present.instants.text(claim.since),
    token: claim.token,
    ...(claim.reserved ? { reserved: true as const } : {}),
  };
}

export function nodeView(call: Call, node: NodeRecord, held: NodeHolding | null): NodeView {
  const { instants } = call.desk.present;
  const blockers = node.blockedBy.filter(({ live }) => live).map(({ id }) => id);
  const seen = blockers.filter((id) => seesNode(call, id));
  const { summary, priority, project, parked } = node;
  return {
    id: node.id,
    type: node.type,
    title: node.title,
    ...(summary === null ? {} : { summary }),
    status: node.status,
    ...(priority === null ? {} : { priority }),
    ...(project === null ? {} : { project }),
    created_at: instants.text(node.createdAt),
    updated_at: instants.text(node.updatedAt),
    revision: node.revision,
    edges: node.edges
      .filter(({ type, to }) => type === "assigned" || seesNode(call, to))
      .map(({ type, to, at, by }) => ({ type, to, at: instants.text(at), by })),
    blocked_by: seen,
    ...(seen.length === blockers.length ? {} : { blockers_hidden: blockers.length - seen.length }),
    reclaims: node.lapses,
    ...(held === null ? {} : { lease: leaseView(call, held) }),
    ...(parked === null
      ? {}
      : { parked: { at: instants.text(parked.at), reason: parked.reason, carriers: [...node.carriers] } }),
  };
}

/** A node that was just changed: what it knows of its lease may be older than the lease's end. */
export async function nodeViewNow(call: Call, node: NodeRecord): Promise<NodeView> {
  if (node.claim === null) return nodeView(call, node, null);
  const now = await call.desk.nodes.look(node.space, node.id);
  return "refused" in now ? nodeView(call, node, null) : nodeView(call, now.node, now.held);
}

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;

/** What gives a node its place in the queue, in the order in which it counts. */
export function whyOf(call: Call, { node, held }: NodeNow): string[] {
  const why = [node.priority ?? "no priority"];
  if (node.blocking > 0) why.push(`blocks ${node.blocking}`);
  why.push(`open for ${ageText(Math.max(0, call.desk.leases.store.now() - node.createdAt))}`);
  const carrier = assigneeOf(node);
  if (carrier !== null && held === null)
    why.push(`${isCarried(node) ? "last carried by" : "assigned to"} ${carrier}`);
  if (node.lapses > 0) why.push(node.lapses === 1 ? "lost once" : `lost ${node.lapses} times`);
  return why;
}

function ageText(ms: number): string {
  const [size, unit] =
    ms >= dayMs
      ? [dayMs, "day"]
      : ms >= hourMs
        ? [hourMs, "hour"]
        : ms >= minuteMs
          ? [minuteMs, "minute"]
          : [1000, "second"];
  const count = Math.floor(ms / size);
  return `${count} ${unit}${count === 1 ? "" : "s"}`;
}

export function historyView(call: Call, entry: HistoryRecord): object {
  const { seq, what, at, by, token, session, reason, status, edge, from } = entry;
  const isSeen = edge === undefined || edge.type === "assigned" || seesNode(call, edge.to);
  return {
    seq,
    what,
    at: call.desk.present.instants.text(at),
    by,
    token,
    ...(session === undefined ? {} : { session }),
    ...(reason === undefined ? {} : { reason }),
    ...(status === undefined ? {} : { status }),
    ...(edge === undefined ? {} : { edge: isSeen ? edge : { type: edge.type } }),
    ...(from === undefined ? {} : { from }),
  };
}
