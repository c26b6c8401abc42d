/**
 * The work graph: a node is work, its `assigned` edge says who carried it, and the lease `node:<id>` says who is on it
 * now. What must be known about that lease to rank and hand out work stands in the node itself, as `claim`, and changes
 * in the same step as the lease.
 */

/** What a status means for the queue: not begun, in work, or over. */
export type Phase = "planned" | "active" | "terminal";
export const phases = ["planned", "active", "terminal"] as const satisfies readonly Phase[];

export type Priority = "p1" | "p2" | "p3";
export const priorities = ["p1", "p2", "p3"] as const satisfies readonly Priority[];

export const edgeTypes = ["assigned", "blocks", "resolves", "relates-to"] as const;
export type EdgeType = (typeof edgeTypes)[number];

/** `assigned` points to a principal, every other type to a node. */
export interface Edge {
  readonly type: EdgeType;
  readonly to: string;
  readonly at: number;
  readonly by: string;
}

/** A node with a `blocks` edge to this one; it counts while it is live. */
export interface Blocker {
  readonly id: string;
  readonly live: boolean;
}

/** Who lost the node without a clean release. */
export interface Carrier {
  readonly by: string;
  readonly token: number;
}

/** What the node knows of its live lease. */
export interface NodeClaim {
  readonly by: string;
  readonly token: number;
  readonly since: number;
  /** The caller's run that the lease is bound to; null: any run of the same person may renew. */
  readonly session: string | null;
  /** Tells two dispatches of the same person apart. */
  readonly dispatch: string | null;
  /** Kept without heartbeats for the grace window. */
  readonly reserved: boolean;
  /** The `assigned` edge that it found: there again if the claim turns out never to have been heard of. */
  readonly found?: Edge;
  /** Its claimer did not ask for this node, and has not named it since: it may never have heard of it. */
  readonly blind?: true;
  /** While it is reserved: until when it lasts at least once the work is taken up again, which an extend may have given. */
  readonly workUntil?: number;
}

export interface NodeRecord {
  readonly kind: "node";
  readonly space: string;
  readonly id: string;
  readonly type: string;
  readonly title: string;
  readonly summary: string | null;
  readonly status: string;
  readonly phase: Phase;
  readonly priority: Priority | null;
  readonly project: string | null;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** Rises with every durable change; heartbeats are none. */
  readonly revision: number;
  readonly edges: readonly Edge[];
  readonly blockedBy: readonly Blocker[];
  /** How many live nodes it blocks: part of its rank. */
  readonly blocking: number;
  readonly claim: NodeClaim | null;
  /** Leases that ended without a clean release since the last clean one. */
  readonly lapses: number;
  /** Whose they were, the last few. */
  readonly carriers: readonly Carrier[];
  /** Whose lease ended last, however it ended. */
  readonly lastCarrier?: Carrier;
  /** Out of the queue until somebody says that it may go on. */
  readonly parked: { readonly at: number; readonly reason: string } | null;
  /** Entries in its history so far. */
  readonly history: number;
}

export const historyKinds = [
  "created",
  "updated",
  "claimed",
  "taken_over",
  "rebound",
  "reserved",
  "released",
  "given_back",
  "lapsed",
  "forced",
  "status",
  "edge_added",
  "edge_removed",
  "parked",
  "unparked",
] as const;
export type HistoryKind = (typeof historyKinds)[number];

/** One thing that happened to a node. Heartbeats are not history. */
export interface HistoryRecord {
  readonly kind: "history";
  readonly space: string;
  readonly node: string;
  /** 1, 2, 3, … without gaps. */
  readonly seq: number;
  readonly what: HistoryKind;
  readonly at: number;
  readonly by: string;
  /** The token of the lease that it is about. */
  readonly token: number | null;
  readonly session?: string;
  readonly reason?: string;
  readonly status?: { readonly from: string; readonly to: string };
  /** Of a claim given back: the edge that it had found. */
  readonly edge?: { readonly type: EdgeType; readonly to: string };
  /** Of a takeover: whose claim had written the edge, and the token of that carrier's last lease. */
  readonly from?: { readonly by: string; readonly token: number | null };
}

/** A node can be taken from now on: who waits for work may look. */
export interface NodeEvent {
  readonly type: "ready";
  readonly space: string;
  readonly id: string;
  readonly nodeType: string;
}
