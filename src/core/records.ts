/**
 * What Holdfast remembers. Records are immutable values: a change makes a new one. All instants (`…At`) are
 * engine time in whole milliseconds, see docs/architecture.md; 0 in `dueAt`, `gcAt`, `availableAt` means none.
 */
import type { PolicyRecord } from "./nodes/policy.js";
import type { HistoryRecord, NodeEvent, NodeRecord } from "./nodes/records.js";

export type Metadata = string | { readonly [key: string]: unknown } | null;

/** How a lease came to its end. */
export type EndedHow = "released" | "expired" | "forced" | "session";

/** The time-bounded right of one holder over one name. `id` is the secret that proves it. */
export interface Lease {
  readonly id: string;
  readonly principal: string;
  /** Display label under the principal; never an identity. */
  readonly owner: string | null;
  readonly sessionId: string | null;
  /** What others may see of the session. */
  readonly sessionHash: string | null;
  readonly metadata: Metadata;
  /** null: the lease lives exactly as long as its session. */
  readonly ttlMs: number | null;
  readonly since: number;
  readonly renewedAt: number;
  /** The last instant at which the lease is held, unless its session ends first; null: only the session decides. */
  readonly expiresAt: number | null;
  readonly delayMs: number;
  readonly progress: string | null;
  /**
   * Of a cluster: the calls that were told of it, less those that are known not to have heard, or `holder` once its holder has
   * named it. Absent: only the call that it was granted to. As one that nobody heard of it is taken back when none is left.
   */
  readonly told?: readonly string[];
}

/** The last lease of a name that ended. */
export interface Ended {
  readonly leaseId: string;
  readonly principal: string;
  readonly owner: string | null;
  readonly token: number;
  readonly since: number;
  readonly endedAt: number;
  readonly how: EndedHow;
  /** Who ended it and why, for a forced end. */
  readonly by: string | null;
  readonly reason: string | null;
  /** The call that released it, if it said which it is. */
  readonly call?: string;
}

export interface Outcome {
  readonly outcome: "done" | "failed" | "abandoned";
  readonly note: string | null;
  readonly at: number;
}

export interface LockRecord {
  readonly kind: "lock";
  readonly space: string;
  readonly name: string;
  /** The last token granted. */
  readonly token: number;
  /** Grants since the last clean release. */
  readonly attempts: number;
  readonly lease: Lease | null;
  readonly previous: Ended | null;
  readonly outcome: Outcome | null;
  /** End of a lock delay. */
  readonly availableAt: number;
  /** When somebody must look at this record again. May be early, never late. */
  readonly dueAt: number;
  /** When a free record may be folded into the floor. */
  readonly gcAt: number;
}

export interface SessionRecord {
  readonly kind: "session";
  readonly id: string;
  readonly hash: string;
  readonly space: string;
  readonly principal: string;
  readonly metadata: Metadata;
  readonly ttlMs: number;
  readonly createdAt: number;
  readonly expiresAt: number;
  readonly ended: { readonly at: number; readonly how: "deleted" | "expired" } | null;
  /** Leases bound to it, counted here so that a keepalive reads one record. */
  readonly leases: number;
  readonly dueAt: number;
  readonly gcAt: number;
}

/** A claim's request id and what it was granted: written in the grant's own step. */
export interface RequestRecord {
  readonly kind: "request";
  readonly space: string;
  readonly principal: string;
  readonly requestId: string;
  readonly fingerprint: string;
  readonly name: string;
  readonly leaseId: string;
  readonly token: number;
  /** Its lease was seen to be over. */
  readonly over: boolean;
  readonly gcAt: number;
}

/** Per space: below or at `token` nothing is ever granted again. */
export interface FloorRecord {
  readonly kind: "floor";
  readonly space: string;
  readonly token: number;
  /** The longest TTL ever granted: how long a restored copy must wait before it may grant. */
  readonly ttlHighMs: number;
  /** After a restore: no grant before this instant. */
  readonly quietUntil: number;
}

export type Role = "observer" | "worker" | "admin" | "operator";

export interface TokenRecord {
  readonly kind: "token";
  readonly id: string;
  readonly space: string;
  readonly name: string;
  /** SHA-256 of the whole bearer token, hex. */
  readonly hash: string;
  readonly role: Role;
  readonly scopes: readonly string[];
  readonly reentrant: boolean;
  readonly createdAt: number;
  readonly createdBy: string;
  readonly expiresAt: number | null;
}

/** Keeps a token's name unique in its space. */
export interface TokenNameRecord {
  readonly kind: "token-name";
  readonly id: string;
}

export const auditActions = [
  "force_release",
  "token_create",
  "token_revoke",
  "token_rotate",
  "restore",
  "policy_set",
] as const;
export type AuditAction = (typeof auditActions)[number];

export interface AuditRecord {
  readonly kind: "audit";
  readonly id: string;
  readonly space: string;
  readonly at: number;
  /** The wall clock's time of the act, in ms since 1970; older records have none. */
  readonly wallAt?: number;
  readonly principal: string;
  readonly action: AuditAction;
  readonly subject: string;
  readonly reason: string | null;
  readonly token: number | null;
  readonly gcAt: number;
}

/**
 * Of a cluster: the line for a name, while anybody stands in it: a turn for each waiter, in the order in which they came. Whose
 * it is only the server knows that gave it (core/line.ts).
 */
export interface LineRecord {
  readonly kind: "line";
  readonly space: string;
  readonly name: string;
  readonly turns: readonly string[];
}

/** Of a cluster: a server that runs. Its turns count while it says so again and again. */
export interface PeerRecord {
  readonly kind: "peer";
  readonly id: string;
  readonly expiresAt: number;
  readonly dueAt: number;
}

/** Of a cluster: how far the wall clock was ahead of engine time, from which instant on. */
export interface AnchorsRecord {
  readonly kind: "anchors";
  readonly rows: readonly (readonly [from: number, offset: number])[];
}

export type AnyRecord =
  | AnchorsRecord
  | LineRecord
  | PeerRecord
  | LockRecord
  | SessionRecord
  | RequestRecord
  | FloorRecord
  | TokenRecord
  | TokenNameRecord
  | AuditRecord
  | NodeRecord
  | HistoryRecord
  | PolicyRecord;

/** What the change feed tells. */
export interface LeaseEvent {
  readonly type: "acquired" | "renewed" | "released" | "expired";
  readonly space: string;
  readonly name: string;
  readonly token: number;
  readonly principal: string;
  readonly owner: string | null;
  readonly sessionHash: string | null;
  readonly since: number;
  readonly metadata: Metadata;
  /** null: as long as the session. After an end: when it ended. */
  readonly expiresAt: number | null;
  readonly at: number;
}

/** A bearer token was made, replaced or revoked: other nodes must look again. */
export interface TokenEvent {
  readonly type: "token";
  readonly space: string;
  readonly id: string;
}

/** Of a cluster: a name is free, and it is another's turn to take it; null: a server is gone, and any line may have moved. */
export interface LineEvent {
  readonly type: "line";
  readonly space: string | null;
  readonly name: string | null;
}

export type FeedEvent = LeaseEvent | TokenEvent | NodeEvent | LineEvent;

export const isLeaseEvent = (event: FeedEvent): event is LeaseEvent =>
  event.type !== "token" && event.type !== "ready" && event.type !== "line";
