/** What the server answers about the work graph, in the client's spelling: camelCase and dates. */
import type { ErrorCode, NodeErrorCode } from "./errors.js";

export type Priority = "p1" | "p2" | "p3";
export type EdgeType = "assigned" | "blocks" | "resolves" | "relates-to";
/** What a status means: not begun, in work, or over. */
export type Phase = "planned" | "active" | "terminal";

/** Whoever is on a node now. */
export interface NodeLease {
  readonly nodeId: string;
  /** The bearer token's name. */
  readonly by: string;
  /** In ms of Unix time; `expiresAt` is the same. */
  readonly expires: number;
  readonly expiresAt: Date;
  readonly expiresInMs: number;
  /** The run that it is bound to; null: any run of the same person may renew it. */
  readonly session: string | null;
  readonly claimedAt: Date;
  /** The fencing token. */
  readonly token: number;
  /** Kept without heartbeats until it expires. */
  readonly reserved?: true;
}

/** `assigned` points to a principal, every other type to a node. */
export interface NodeEdge {
  readonly type: EdgeType;
  readonly to: string;
  readonly at: Date;
  readonly by: string;
}

/** Out of the queue until somebody says that it may go on. */
export interface Parked {
  readonly at: Date;
  readonly reason: string;
  /** Who lost it, the last few. */
  readonly carriers: readonly { readonly by: string; readonly token: number }[];
}

export interface WorkNode {
  readonly id: string;
  readonly type: string;
  readonly title: string;
  readonly summary?: string;
  readonly status: string;
  readonly priority?: Priority;
  readonly project?: string;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  /** Rises with every change; heartbeats are none. */
  readonly revision: number;
  readonly edges: readonly NodeEdge[];
  /** Live nodes that must be over before this one can be taken. */
  readonly blockedBy: readonly string[];
  /** How many more of them the token may not see. */
  readonly blockersHidden?: number;
  /** How often it was lost since it was last given back cleanly. */
  readonly reclaims: number;
  readonly parked?: Parked;
  readonly lease?: NodeLease;
}

export interface NodePage {
  readonly nodes: readonly WorkNode[];
  /** Null: this is the last page. */
  readonly nextCursor: string | null;
}

export interface EdgeAdded {
  readonly ok: true;
  /** `kept`: it was there already. */
  readonly edge: "added" | "kept";
  readonly node: WorkNode;
}

export interface EdgeRemoved {
  readonly ok: true;
  /** `skipped`: there was none. */
  readonly edge: "removed" | "skipped";
  readonly node: WorkNode;
}

export interface Unparked {
  readonly ok: true;
  readonly status: "unparked";
  readonly node: WorkNode;
}

export interface NodeClaimed {
  readonly ok: true;
  /** `renewed`: it was the caller's already. */
  readonly status: "claimed" | "renewed";
  readonly lease: NodeLease;
  /** Whether this claim wrote the edge that records who carries it. */
  readonly edge: "added" | "kept";
}

export interface NodeRenewed {
  readonly ok: true;
  readonly status: "renewed";
  readonly lease: NodeLease;
}

export interface NodeExtended {
  readonly ok: true;
  readonly status: "extended";
  readonly lease: NodeLease;
  /** It was cut at the ceiling, which stands beside it. */
  readonly cappedToMax?: true;
  readonly claimTtlMaxMs?: number;
}

export interface NodeReserved {
  readonly ok: true;
  readonly status: "reserved";
  readonly lease: NodeLease;
  readonly graceWindowMs: number;
}

export interface NodeReleased {
  readonly ok: true;
  readonly status: "released";
  readonly nodeId: string;
  readonly edge: "removed" | "skipped";
}

/** An active status was written, and yet the node is not the caller's. */
export interface ClaimNotMade {
  readonly error: NodeWireCode;
  /** Who has it and until when, or what else is in the way. */
  readonly message: string;
  readonly holder?: NodeLease;
}

/** What the work graph's routes answer as codes. */
export type NodeWireCode =
  | NodeErrorCode
  | Extract<
      ErrorCode,
      | "forbidden"
      | "not_found"
      | "conflict"
      | "lease_lost"
      | "invalid_input"
      | "too_large"
      | "rate_limited"
      | "internal"
      | "unavailable"
      | "unknown_outcome"
    >;

export interface StatusSet {
  readonly status: "updated";
  readonly id: string;
  readonly revision: number;
  /** The claim that the caller is on now; of an active status, why there is none. */
  readonly lease?: NodeLease | ClaimNotMade;
}

export interface NextClaimed extends NodeClaimed {
  readonly node: WorkNode;
}

/** Nothing is free. */
export interface NothingFree {
  readonly ok: true;
  readonly status: "empty";
  readonly lease: null;
  /** How many others work on. */
  readonly hidden: number;
  /** There are more than were counted. */
  readonly hiddenAtLeast?: true;
}

export interface QueueItem extends WorkNode {
  /** Why it stands where it stands: `p1`, `blocks 3`, `open for 2 days`. */
  readonly why: readonly string[];
}

export interface QueuePage {
  /** The best first. */
  readonly items: readonly QueueItem[];
  /** How many others work on. */
  readonly hidden?: number;
  readonly hiddenAtLeast?: true;
  readonly nextCursor: string | null;
}

export interface HistoryEntry {
  /** 1, 2, 3, … without gaps. */
  readonly seq: number;
  readonly what:
    | "created"
    | "updated"
    | "claimed"
    | "taken_over"
    | "rebound"
    | "reserved"
    | "released"
    | "given_back"
    | "lapsed"
    | "forced"
    | "status"
    | "edge_added"
    | "edge_removed"
    | "parked"
    | "unparked";
  readonly at: Date;
  readonly by: string;
  /** Of the lease that it is about. */
  readonly token: number | null;
  readonly session?: string;
  readonly reason?: string;
  readonly status?: { readonly from: string; readonly to: string };
  readonly edge?: { readonly type: EdgeType; readonly to?: string };
  /** Of a takeover or a force release: whose it was. */
  readonly from?: { readonly by: string; readonly token: number | null };
}

export interface HistoryPage {
  readonly nodeId: string;
  /** Oldest first. */
  readonly history: readonly HistoryEntry[];
  /** To be given as `after`; null: this is the last page. */
  readonly nextAfter: number | null;
}

/** One of many that was not done. */
export interface NotDone {
  readonly id: string;
  readonly ok: false;
  readonly error: {
    readonly code: NodeWireCode;
    readonly message: string;
    readonly details?: Readonly<Record<string, unknown>>;
  };
  readonly holder?: NodeLease;
}

/** For each id, in the order asked: what the call on it alone answers, or why not. */
export interface ForEach<Done> {
  readonly ok: true;
  readonly results: readonly ((Done & { readonly id: string }) | NotDone)[];
}

/** Durations in ms. */
export interface ClaimTimes {
  readonly claimTtlMs: number;
  /** How far an extend may reach from now. */
  readonly claimTtlMaxMs: number;
  /** How long a reserved claim is kept. */
  readonly reserveGraceMs: number;
  /** Work that was lost more often than this without a clean release is parked. */
  readonly reclaimsMax: number;
}

export interface TypePolicy extends Partial<ClaimTimes> {
  readonly statuses: Readonly<Record<string, Phase>>;
}

export interface NodePolicy extends ClaimTimes {
  /** 0: what the server's configuration says. */
  readonly revision: number;
  readonly types: Readonly<Record<string, TypePolicy>>;
}
