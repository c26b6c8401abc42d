/**
 * What is asked of a work graph and what it answers, as a history writes it down. A lease of a node is known by the
 * node and its fencing token: there is no secret id. Ids and labels are those of the run's own.
 */

export const nodeVerbs = [
  "create",
  "claim",
  "next",
  "renew",
  "extend",
  "reserve",
  "release",
  "status",
  "look",
  "history",
  "list",
  "queue",
] as const;
export type NodeVerb = (typeof nodeVerbs)[number];

/** What each status of a run's own type means: one that is over ends the lease of who sets it. */
export const graphStatuses = { open: "planned", active: "active", done: "terminal" } as const;
export type GraphStatus = keyof typeof graphStatuses;

export interface NodeCall {
  readonly op: "node";
  readonly verb: NodeVerb;
  /** Null for `next`, `list` and `queue`, which are about a type. */
  readonly node: string | null;
  readonly type: string;
  /** The caller's run: a lease bound to one label is not another run's. */
  readonly run: string | null;
  /** The lease that is meant. */
  readonly token: number | null;
  readonly requestId: string | null;
  /** Of `next`: how long to wait for work. */
  readonly waitMs: number;
  /** Of `extend`. */
  readonly ms?: number;
  readonly status?: GraphStatus;
  /** Of `status`: no other call has it, so that its entry in the history can be told from all others. */
  readonly reason?: string;
}

/** A lease of a node, as a reply shows it. */
export interface NodeLease {
  readonly by: string;
  readonly run: string | null;
  readonly token: number;
  /** What the reply says is left, in ms. */
  readonly leftMs: number;
}

/** A node and its lease, both as of one instant. */
export interface NodeSeen {
  readonly id: string;
  readonly status: string;
  /** Whom the `assigned` edge names. */
  readonly carrier: string | null;
  readonly lease: NodeLease | null;
  /** Parked, or blocked by another: nobody can take it. */
  readonly isStopped: boolean;
}

/** One entry of a node's history. */
export interface NodeEntry {
  readonly seq: number;
  readonly what: string;
  readonly by: string;
  readonly token: number | null;
  readonly reason: string | null;
  /** Of a status change. */
  readonly to: string | null;
}

export type NodeReply =
  /** Claim, next: the node is the caller's. `isNew` is false where it was before. */
  | { readonly kind: "claimed"; readonly node: string; readonly lease: NodeLease; readonly isNew: boolean }
  /** Renew, extend, reserve. */
  | { readonly kind: "kept"; readonly lease: NodeLease }
  /** Status: written; the claim of an active one, or who has the node instead. */
  | { readonly kind: "updated"; readonly lease: NodeLease | null; readonly holder: NodeLease | null }
  /** Another, or another run of the same person, has it. */
  | { readonly kind: "taken"; readonly holder: NodeLease }
  /** Over, blocked or parked, or the service was just brought back from a backup. */
  | { readonly kind: "unready" }
  /** Next: there is nothing to do. */
  | { readonly kind: "empty" }
  /** Look, list, queue: `isWhole` is false where a page is missing. */
  | { readonly kind: "nodes"; readonly nodes: readonly NodeSeen[]; readonly isWhole: boolean }
  /** History, from the first entry on. */
  | { readonly kind: "entries"; readonly entries: readonly NodeEntry[]; readonly isWhole: boolean };

export function nodeCallText({
  verb,
  node,
  type,
  run,
  token,
  requestId,
  waitMs,
  ms,
  status,
}: NodeCall): string {
  return [
    node === null ? `${verb} of ${type}` : `${verb} ${node}`,
    status === undefined ? "" : `to ${status}`,
    ms === undefined ? "" : `by ${ms} ms`,
    waitMs === 0 ? "" : `waiting ${waitMs / 1000} s`,
    token === null ? "" : `with token ${token}`,
    run === null ? "" : `in run ${run}`,
    requestId === null ? "" : `as ${requestId}`,
  ]
    .filter((part) => part !== "")
    .join(" ");
}

export function nodeReplyText(reply: NodeReply): string {
  const words = ({ by, run, token, leftMs }: NodeLease): string =>
    `token ${token} of ${by}${run === null ? "" : ` in run ${run}`}, ${leftMs} ms left`;
  switch (reply.kind) {
    case "claimed":
      return `${reply.isNew ? "claimed" : "renewed"} ${reply.node}: ${words(reply.lease)}`;
    case "kept":
      return `kept: ${words(reply.lease)}`;
    case "updated":
      if (reply.holder !== null) return `updated, held by ${words(reply.holder)}`;
      return reply.lease === null ? "updated" : `updated and claimed: ${words(reply.lease)}`;
    case "taken":
      return `held by ${words(reply.holder)}`;
    case "unready":
      return "cannot be taken now";
    case "empty":
      return "nothing to do";
    case "nodes":
      return `${reply.nodes.length} nodes`;
    case "entries":
      return `${reply.entries.length} entries`;
  }
}
