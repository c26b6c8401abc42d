/** What the server answers, in the client's spelling: camelCase and dates. A newer server may add fields. */

export interface Holder {
  /** The bearer token's name. */
  readonly principal: string;
  /** What the holder calls itself, where it claimed a job under a label. */
  readonly owner?: string;
  /** A short hash of the holder's session, never its id. */
  readonly session: string | null;
  readonly since: Date;
}

export interface PreviousHolder {
  readonly principal: string;
  readonly owner: string | null;
  readonly token: number;
  readonly endedAt: Date;
  readonly how: "released" | "expired" | "forced" | "session";
  readonly by?: string | null;
  readonly reason?: string | null;
}

export interface Acquired {
  readonly status: "acquired";
  readonly name: string;
  /** Secret: whoever has it can renew and release. */
  readonly leaseId: string;
  readonly fencingToken: number;
  readonly expiresAt: Date;
  readonly expiresInMs: number;
  readonly renewAfterMs: number;
  readonly metadata: string | null;
}

export interface Held {
  readonly status: "held";
  readonly name: string;
  readonly holder: Holder;
  readonly holderId: string;
  readonly fencingToken: number;
  readonly expiresAt: Date;
  readonly expiresInMs: number;
  readonly retryAfterMs: number;
  readonly metadata: unknown;
  readonly waiters: number;
  /** Place in line of a request that waited. */
  readonly position?: number;
}

/** Nobody holds it, and nobody may take it before `availableAt`. */
export interface Delayed {
  readonly status: "delayed";
  readonly availableAt: Date;
  readonly retryAfterMs: number;
  readonly details: string;
}

export interface Renewed {
  readonly leaseId: string;
  readonly fencingToken: number;
  readonly expiresAt: Date;
  readonly expiresInMs: number;
  readonly renewAfterMs: number;
}

export interface Extended extends Renewed {
  /** True when the end of the session cut it short. */
  readonly capped?: boolean;
}

export interface Lock {
  readonly name: string;
  readonly status: "free" | "held";
  readonly holder: Holder | null;
  readonly holderId: string | null;
  /** Of a free lock the last one granted, 0 if never. */
  readonly fencingToken: number;
  readonly expiresAt: Date | null;
  readonly expiresInMs: number | null;
  readonly metadata: unknown;
  readonly waiters: number;
  readonly availableAt?: Date | null;
  readonly previous?: PreviousHolder | null;
}

/** One page of held locks. */
export interface LockPage {
  readonly locks: readonly Lock[];
  /** How many are on this page. */
  readonly total: number;
  readonly prefix: string | null;
  /** Null: this is the last page. */
  readonly nextCursor: string | null;
}

export interface Claimed {
  readonly jobId: string;
  readonly claimed: true;
  /** Secret: whoever has it can heartbeat and release. */
  readonly leaseId: string;
  readonly token: number;
  readonly owner: string;
  readonly metadata: unknown;
  readonly expiresAt: Date;
  readonly expiresInMs: number;
  readonly heartbeatAfterMs: number;
  /** Grants since the last clean release, this one included. */
  readonly attempts: number;
}

export interface ClaimRefused {
  readonly jobId: string;
  readonly claimed: false;
  readonly code: "held" | "delayed";
  /** Null where nobody stands in the way: a lock delay has no owner. */
  readonly owner: string | null;
  readonly metadata: unknown;
  readonly since: Date | null;
  readonly expiresAt: Date | null;
  readonly expiresInMs: number | null;
  readonly retryAfterMs: number;
  /** In words: who has it, until when, what to do next. */
  readonly details: string;
}

export interface CandidateRefused extends Omit<ClaimRefused, "claimed" | "details"> {
  /** Of a delayed one: when it can be taken. */
  readonly availableAt?: Date | null;
}

export interface NoneClaimed {
  readonly claimed: false;
  /** In the order asked, each true when it was decided. */
  readonly candidates: readonly CandidateRefused[];
  readonly details: string;
}

export interface Heartbeat {
  readonly jobId: string;
  readonly leaseId: string;
  readonly token: number;
  readonly expiresAt: Date;
  readonly expiresInMs: number;
  readonly heartbeatAfterMs: number;
}

export interface LostLease {
  readonly jobId: string;
  readonly leaseId: string;
  readonly owner?: string | null;
  /** Who has it now, where anybody has. */
  readonly holder?: Holder | null;
  readonly expiresAt?: Date | null;
  readonly previous?: PreviousHolder | null;
  readonly code: string;
  readonly details: string;
}

export interface HeartbeatMany {
  readonly renewed: readonly Heartbeat[];
  /** Stop this work; each says why. */
  readonly lost: readonly LostLease[];
}

export interface Job {
  readonly jobId: string;
  readonly claimed: boolean;
  readonly owner: string | null;
  readonly principal: string | null;
  readonly metadata: unknown;
  readonly progress: string | null;
  readonly since: Date | null;
  readonly lastHeartbeatAt: Date | null;
  readonly expiresAt: Date | null;
  readonly expiresInMs: number | null;
  readonly token: number;
  readonly attempts: number;
  readonly lastOutcome?: {
    readonly outcome: "done" | "failed" | "abandoned";
    readonly note: string | null;
    readonly at: Date;
  } | null;
  readonly previous?: PreviousHolder | null;
}

/** One page of claimed jobs. */
export interface JobPage {
  readonly jobs: readonly Job[];
  /** Null: this is the last page. */
  readonly nextCursor: string | null;
}

export interface SessionCreated {
  readonly sessionId: string;
  readonly expiresAt: Date;
  readonly expiresInMs: number;
  readonly keepaliveIntervalSecs: number;
}

export interface Keepalive {
  readonly sessionId: string;
  readonly expiresAt: Date;
  readonly expiresInMs: number;
  readonly leases: number;
}

export interface Session {
  readonly sessionId: string;
  readonly principal: string;
  readonly expiresAt: Date;
  readonly lockCount: number;
  readonly active: boolean;
}

export interface WhoAmI {
  readonly principal: string;
  readonly space: string;
  readonly role: "observer" | "worker" | "admin" | "operator";
  readonly scopes: readonly string[];
  readonly expiresAt: Date | null;
}

/** A lock as it was when the stream began, or a change of it. */
export interface LockEvent {
  readonly event: "snapshot" | "acquired" | "renewed" | "released" | "expired";
  readonly name: string;
  readonly fencingToken: number;
  readonly holder: Holder | null;
  readonly expiresAt: Date | null;
  readonly observedAt: Date;
}

/** `synced`: the snapshot is complete. `reset`: events were missed; a new snapshot follows. */
export interface StreamEvent {
  readonly event: "synced" | "reset";
  readonly observedAt: Date;
}

export type WatchEvent = LockEvent | StreamEvent;
