/**
 * The lock API, both ways: what a call is as a request, and what a reply means. Only what the API promises counts: a
 * 4xx and 503 `unavailable` had no effect, any other failure may have had one.
 */

import type { Call, Holder, Reply } from "../history.js";
import type { Asked, Heard } from "./exchange.js";
import { nodeReplyFrom, nodeRequestFor } from "./node-replies.js";

/** Ids are secret, so a history names them by stand-ins. */
export interface Ids {
  /** The stand-in of an id. */
  readonly hide: (id: string) => string;
  /** The id behind a stand-in. */
  readonly reveal: (standIn: string) => string;
}

const seconds = (ms: number): number => Math.round(ms / 1000);
const lockPath = (name: string, verb = ""): string => `/locks/${encodeURIComponent(name)}${verb}`;
const sessionPath = (id: string, verb = ""): string => `/sessions/${encodeURIComponent(id)}${verb}`;

type LockCall = Exclude<Call, { op: "node" }>;

/** `label` is shown to everybody who finds the name held. */
export function requestFor(call: Call, ids: Ids, label: string): Asked {
  switch (call.op) {
    case "acquire":
      return {
        method: "POST",
        path: lockPath(call.name, "/acquire"),
        body: {
          metadata: label,
          ...(call.ttlMs === null ? {} : { ttl_seconds: seconds(call.ttlMs) }),
          ...(call.waitMs === 0 ? {} : { wait_seconds: seconds(call.waitMs) }),
          ...(call.requestId === null ? {} : { request_id: call.requestId }),
          ...(call.session === null ? {} : { session_id: ids.reveal(call.session) }),
          ...(call.lease === null ? {} : { lease_id: ids.reveal(call.lease) }),
          ...(call.delayMs === 0 ? {} : { lock_delay_seconds: seconds(call.delayMs) }),
        },
      };
    case "renew":
      return {
        method: "POST",
        path: lockPath(call.name, "/renew"),
        body: {
          lease_id: ids.reveal(call.lease),
          ...(call.ttlMs === null ? {} : { ttl_seconds: seconds(call.ttlMs) }),
        },
      };
    case "release":
      return {
        method: "POST",
        path: lockPath(call.name, "/release"),
        body: { lease_id: ids.reveal(call.lease) },
      };
    case "force":
      return { method: "DELETE", path: lockPath(call.name), body: { reason: label } };
    case "read":
      return { method: "GET", path: lockPath(call.name) };
    case "open":
      return {
        method: "POST",
        path: "/sessions",
        body: { ttl_seconds: seconds(call.ttlMs), metadata: label },
      };
    case "keepalive":
      return { method: "POST", path: sessionPath(ids.reveal(call.session), "/keepalive"), body: {} };
    case "end":
      return { method: "DELETE", path: sessionPath(ids.reveal(call.session)) };
    case "node":
      return nodeRequestFor(call);
  }
}

/** The fields that a verdict needs; which are there depends on the route. */
interface Body {
  readonly status?: unknown;
  readonly code?: unknown;
  readonly lease_id?: unknown;
  readonly session_id?: unknown;
  readonly fencing_token?: unknown;
  readonly expires_in_ms?: unknown;
  readonly conflicts_with?: unknown;
  readonly name?: unknown;
  readonly holder?: unknown;
  readonly metadata?: unknown;
}

export function replyFrom(call: Call, heard: Heard, ids: Ids): Reply {
  if (heard.kind === "unsent") return { kind: "refused", code: `unsent: ${heard.why}` };
  if (heard.kind === "lost") return { kind: "unknown", why: heard.why };
  if (call.op === "node") return nodeReplyFrom(call, heard);
  const { status } = heard;
  const body: Body = typeof heard.body === "object" && heard.body !== null ? heard.body : {};
  const reply = status < 300 ? success(call, body, ids) : refusal(call, status, body);
  if (reply !== null) return reply;
  if (status < 300) return { kind: "unknown", why: `${status} without what it promises`, isHollow: true };
  const code = typeof body.code === "string" ? body.code : String(status);
  const isCertain = (status >= 400 && status < 500) || code === "unavailable";
  return isCertain ? { kind: "refused", code } : { kind: "unknown", why: code };
}

/** Null where the reply lacks what it promises. */
function success(call: LockCall, body: Body, ids: Ids): Reply | null {
  const { lease_id, session_id, fencing_token: token, expires_in_ms: leftMs } = body;
  // An answer about something else is none.
  if ("name" in call && body.name !== undefined && body.name !== call.name) return null;
  switch (call.op) {
    case "acquire":
      if (body.status === "held" && typeof token === "number") return held(token, body);
      if (body.status !== "acquired") return null;
      return granted(lease_id, token, leftMs, ids);
    case "renew":
      return granted(lease_id, token, leftMs, ids);
    case "read":
      return typeof token === "number" && (body.status === "held" || body.status === "free")
        ? { kind: "state", held: body.status === "held", token, ...holderIn(body) }
        : null;
    case "open":
      return typeof session_id === "string" && typeof leftMs === "number"
        ? { kind: "opened", session: ids.hide(session_id), leftMs }
        : null;
    case "keepalive":
      return typeof leftMs === "number" ? { kind: "done", leftMs } : null;
    case "release":
    case "force":
    case "end":
      return { kind: "done" };
  }
}

/** A token of 0 stands for a lease on a name that the caller may not see. */
function held(token: number, body: Body): Reply {
  const { conflicts_with: overlapping } = body;
  if (typeof overlapping === "string") return { kind: "held", token: null, overlapping };
  return token === 0
    ? { kind: "held", token: null, overlapping: null }
    : { kind: "held", token, ...holderIn(body) };
}

/** Who has it, where it is held and the reply says so. */
function holderIn({ holder, metadata, expires_in_ms: leftMs }: Body): { readonly holder?: Holder } {
  const { principal } = (holder ?? {}) as { readonly principal?: unknown };
  if (typeof principal !== "string" || typeof leftMs !== "number") return {};
  return { holder: { principal, label: typeof metadata === "string" ? metadata : null, leftMs } };
}

const granted = (lease: unknown, token: unknown, leftMs: unknown, ids: Ids): Reply | null =>
  typeof lease === "string" && typeof token === "number" && typeof leftMs === "number"
    ? { kind: "granted", lease: ids.hide(lease), token, leftMs }
    : null;

/** Refusals that say something about the lease; null for the others. */
function refusal(call: LockCall, status: number, { code }: Body): Reply | null {
  const isGone = (status === 404 && code === "not_found") || code === "session_expired";
  switch (call.op) {
    case "acquire":
      if (code === "delayed") return { kind: "delayed" };
      if (code === "lease_lost") return { kind: "lost" };
      if (isGone && call.session !== null) return { kind: "gone" };
      // The requests made here lack no field and have none too many, so only the id can be wrong.
      return status === 422 && call.requestId !== null ? { kind: "reused" } : null;
    case "renew":
    case "release":
      return code === "lease_not_current" || code === "lease_lost" ? { kind: "lost" } : null;
    case "keepalive":
    case "end":
      return isGone ? { kind: "gone" } : null;
    default:
      return null;
  }
}
