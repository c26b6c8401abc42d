/**
 * What can go wrong, each with a stable `code`. The message is made for people: what happened, who holds the name,
 * until when, what to do next.
 */

/** The server's codes, and two of the client's own. */
export type ErrorCode =
  | "authentication_required"
  | "authentication_failed"
  | "forbidden"
  | "invalid_lock_name"
  | "invalid_ttl"
  | "invalid_input"
  | "lease_not_current"
  | "not_found"
  | "method_not_allowed"
  | "too_large"
  | "unsupported_media_type"
  | "held"
  | "delayed"
  | "lease_lost"
  | "conflict"
  | "session_expired"
  | "rate_limited"
  | "unavailable"
  | "unknown_outcome"
  | "internal"
  | NodeErrorCode
  /** No reply came: wrong address, server down, connection cut. */
  | "unreachable"
  /** A reply that no Holdfast server writes: a proxy's page, another program on that port. */
  | "not_holdfast";

/** What only the work graph answers. */
export type NodeErrorCode = "unauthorized" | "already_claimed" | "not_ready" | "invalid_node";

export interface Problem {
  readonly code: ErrorCode;
  /** null: there was no reply. */
  readonly status: number | null;
  /** The trace id of the reply, to find it in the server's log. */
  readonly requestId: string | null;
  /** The reply's fields, as far as there are any. */
  readonly fields: Readonly<Record<string, unknown>>;
}

export class HoldfastError extends Error {
  override readonly name: string = "HoldfastError";
  readonly code: ErrorCode;
  readonly status: number | null;
  readonly requestId: string | null;
  /** Fields of the reply beside code and message. */
  readonly fields: Readonly<Record<string, unknown>>;

  constructor(message: string, problem: Problem, options?: ErrorOptions) {
    super(message, options);
    this.code = problem.code;
    this.status = problem.status;
    this.requestId = problem.requestId;
    this.fields = problem.fields;
  }
}

/** Who stands in the way, as anyone may see it. */
export interface HeldBy {
  readonly resource: string;
  /** The bearer token's name; null during a lock delay, when nobody holds it. */
  readonly principal: string | null;
  /** What the holder calls itself, where it claimed a job under a label. */
  readonly owner: string | null;
  readonly since: Date | null;
  readonly expiresAt: Date | null;
  readonly metadata: unknown;
  /** Place in line when the wait ended. */
  readonly position: number | null;
  readonly waiters: number;
}

/** Not granted: another holds it, or (`delayed`) nobody may take it yet. */
export class HeldError extends HoldfastError {
  override readonly name = "HeldError";

  constructor(
    readonly by: HeldBy,
    waitedMs = 0,
    /** The server's own words for it. */
    said: { readonly message: string; readonly problem: Problem } | null = null,
  ) {
    const code = by.principal === null ? "delayed" : "held";
    const problem: Problem = { code, status: null, requestId: null, fields: {} };
    super(said?.message ?? heldMessage(by, waitedMs), said?.problem ?? problem);
  }
}

/** A label alone would be anybody's word: the principal behind it is named as well. */
export const whoIs = (principal: string, owner: string | null | undefined): string =>
  owner == null || owner === principal ? principal : `${owner} (${principal})`;

function heldMessage(by: HeldBy, waitedMs: number): string {
  const since = by.since === null ? "" : ` since ${by.since.toISOString()}`;
  const until = by.expiresAt === null ? "" : ` until ${by.expiresAt.toISOString()} unless renewed`;
  const who =
    by.principal === null
      ? `${by.resource} cannot be taken yet${until}`
      : `${by.resource} is held by ${whoIs(by.principal, by.owner)}${since}${until}`;
  const line = by.position === null ? "" : `, place ${by.position} in line`;
  return waitedMs === 0 ? who : `${who}; waited ${Math.round(waitedMs / 1000)} s${line}`;
}

/** Who has a name now. */
export type NowHeldBy = Pick<HeldBy, "principal" | "owner" | "since" | "expiresAt">;

/** The lease is over, or may be: stop the work. */
export class LeaseLostError extends HoldfastError {
  override readonly name = "LeaseLostError";
  /** Who has it now, where the server said so. Null: nobody, or nobody was asked. */
  readonly by: NowHeldBy | null;

  constructor(
    readonly resource: string,
    readonly why: string,
    /** The server's own word that it is over; its text says of what. */
    said: Problem | null = null,
  ) {
    super(
      said === null ? `The lease on ${resource} is lost: ${why}` : why,
      said ?? { code: "lease_lost", status: null, requestId: null, fields: {} },
    );
    this.by = nowHeldBy(this.fields);
  }
}

/** A lock's holder has its lease's end beside it; a node's is the lease itself, with both. */
function nowHeldBy(fields: Problem["fields"]): NowHeldBy | null {
  const holder = Object(fields["holder"]) as Readonly<Record<string, unknown>>;
  const { owner, by, principal = by, claimedAt, since = claimedAt } = holder;
  const expiresAt = holder["expiresAt"] ?? fields["expiresAt"];
  if (typeof principal !== "string") return null;
  return {
    principal,
    owner: typeof owner === "string" ? owner : null,
    since: since instanceof Date ? since : null,
    expiresAt: expiresAt instanceof Date ? expiresAt : null,
  };
}

/** Somebody is on a node already. */
function claimedBy(resource: string, message: string, problem: Problem): HeldError {
  const nobody = { principal: null, owner: null, since: null, expiresAt: null };
  const by = nowHeldBy(problem.fields) ?? nobody;
  return new HeldError({ resource, ...by, metadata: null, position: null, waiters: 0 }, 0, {
    message,
    problem,
  });
}

/** The error that a server's refusal stands for. `resource`: what the call was about, if it was about a lease. */
export function refusalOf(details: string, problem: Problem, resource?: string): HoldfastError {
  if (resource === undefined) return new HoldfastError(details, problem);
  if (problem.code === "already_claimed") return claimedBy(resource, details, problem);
  return problem.code === "lease_lost" || problem.code === "lease_not_current"
    ? new LeaseLostError(resource, details, problem)
    : new HoldfastError(details, problem);
}

/** Somebody answers at this address, in words that are not Holdfast's. */
export function notHoldfastText(base: string, status: number, said: string): string {
  const shown = said
    .replace(/[^ -~]+/g, " ")
    .trim()
    .slice(0, 120);
  return `${base} does not answer as a Holdfast server (status ${status}): check the address, its port and path, and whether a proxy or another program answers there. It says: ${shown || "nothing"}`;
}

/** Codes after which the same call may succeed. */
export const isTransient = (error: unknown): error is HoldfastError =>
  error instanceof HoldfastError &&
  (error.code === "unreachable" ||
    error.code === "unavailable" ||
    error.code === "unknown_outcome" ||
    error.code === "rate_limited" ||
    // A proxy before a server that is being restarted.
    (error.code === "not_holdfast" && (error.status ?? 0) >= 500));

/** Codes that say nothing about the lease itself: a renewal is tried again as long as there is time. */
export const isPassing = (error: HoldfastError): boolean =>
  error.code === "not_holdfast" || error.code === "internal" || isTransient(error);

/** Codes that say: this lease is not yours any more. */
export const isLoss = (error: unknown): error is HoldfastError =>
  error instanceof HoldfastError &&
  (error.code === "lease_not_current" || error.code === "lease_lost" || error.code === "session_expired");
