/**
 * What a route is: one row from which the HTTP face validates, authorises and sheds load, and from which the
 * OpenAPI document is made. Rows state only what is their own; refusals that every route of a kind shares are
 * added here, once.
 */
import type { TSchema } from "typebox";
import { ErrorBody } from "./errors.js";

export const routeIds = [
  "acquireLock",
  "renewLock",
  "extendLock",
  "releaseLock",
  "getLock",
  "listLocks",
  "watchLock",
  "watchLocks",
  "checkLock",
  "forceReleaseLock",
  "claimJob",
  "claimAnyJob",
  "heartbeatJob",
  "heartbeatJobs",
  "releaseJob",
  "getJob",
  "listJobs",
  "createSession",
  "keepaliveSession",
  "getSession",
  "deleteSession",
  "createToken",
  "listTokens",
  "revokeToken",
  "rotateToken",
  "whoami",
  "listAudit",
  "backup",
  "health",
  "ready",
  "metrics",
  "openapi",
  "docs",
  "createNode",
  "listNodes",
  "getNode",
  "updateNode",
  "addEdge",
  "removeEdge",
  "nodeHistory",
  "unparkNode",
  "getPolicy",
  "setPolicy",
  "claimNode",
  "renewNode",
  "extendNode",
  "reserveNode",
  "releaseNode",
  "setNodeStatus",
  "listQueue",
  "nextWork",
  "claimNodes",
  "renewNodes",
  "releaseNodes",
] as const;
export type RouteId = (typeof routeIds)[number];

/** The least role that may call it. `open` needs no bearer token. */
export type Access = "open" | "observer" | "worker" | "admin" | "operator";

/**
 * Where the names stand that a token's scopes are matched against. `prefix` and `none` name nothing exactly:
 * a list shows only what the scopes allow. `node` is an id, whose lease is `node:<id>`; of
 * `nodes`, each is judged for itself.
 */
export type Naming = "path" | "node" | "nodes" | "candidates" | "leases" | "prefix" | "none";

/**
 * What may be refused under overload: `look` first, then `take`, `keep` only after those, because a refused
 * renewal costs a healthy worker its lease and a refused release keeps others waiting. `operate` is how people
 * see and end an overload, and stands apart.
 */
export type Load = "keep" | "take" | "look" | "operate";

export type Tag = "locks" | "jobs" | "sessions" | "nodes" | "tokens" | "operate";

/** Request headers that mean something beyond plain HTTP. */
export type RequestHeader = "Idempotency-Key" | "Last-Event-ID" | "Holdfast-Space";

export interface Reply {
  readonly description: string;
  readonly schema?: TSchema;
  /** `application/json` unless said. */
  readonly contentType?: string;
}

export type Replies = Readonly<Record<number, Reply>>;

export interface Route {
  /** OpenAPI operationId. */
  readonly id: RouteId;
  readonly tag: Tag;
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** OpenAPI style: `/locks/{name}/acquire`. */
  readonly path: string;
  readonly summary: string;
  readonly description: string;
  readonly access: Access;
  readonly names: Naming;
  readonly load: Load;
  readonly headers?: readonly RequestHeader[];
  readonly body?: TSchema;
  readonly query?: TSchema;
  readonly replies: Replies;
}

export function problem(description: string): Reply {
  return { description, schema: ErrorBody };
}

/** The row with the refusals and headers of its kind added; what the row itself says about a status stands. */
export function withSharedReplies(route: Route): Route {
  const replies: Record<number, Reply> = {
    422: problem("`invalid_input`: an unknown or malformed parameter."),
    500: problem("`internal`: a bug; report it with the request id."),
  };
  if (route.access !== "open") {
    replies[401] = problem("`authentication_required` or `authentication_failed`.");
    replies[403] = problem("`forbidden`: the token's role, scopes or space do not allow this.");
    replies[429] = problem("`rate_limited`: wait as long as `Retry-After` says.");
    replies[503] = problem(
      "`unavailable`: certainly not done, try again. `unknown_outcome`: may be done, repeat with the same request id.",
    );
  }
  if (route.names === "path")
    replies[400] = problem("`invalid_lock_name`: the name breaks the rules for names.");
  if (route.body !== undefined) {
    replies[400] = problem(
      "`invalid_input` (malformed JSON, too long), `invalid_ttl` or `invalid_lock_name`.",
    );
    replies[413] = problem("`too_large`: the body is larger than the server reads.");
    replies[415] = problem("`unsupported_media_type`: bodies are JSON.");
    replies[422] = problem(
      "`invalid_input`: a missing, unknown or mistyped field; the nearest known one is named.",
    );
  }
  const headers: RequestHeader[] = [...(route.headers ?? [])];
  if (route.access !== "open") headers.push("Holdfast-Space");
  return { ...route, headers, replies: { ...replies, ...route.replies } };
}
