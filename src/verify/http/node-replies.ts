/**
 * The work graph's API, both ways: what a call is as a request, and what a reply means. As for locks, a 4xx and 503
 * `unavailable` had no effect, any other failure may have had one.
 */
import type { Reply } from "../history.js";
import {
  type GraphStatus,
  type NodeCall,
  type NodeEntry,
  type NodeLease,
  type NodeSeen,
  nodeVerbs,
} from "../node-calls.js";
import type { Asked, Heard } from "./exchange.js";

/** More than a run has nodes, and more than a node has entries at the end of one. */
const pageMax = 1000;

export function nodeRequestFor(call: NodeCall): Asked {
  const { verb, node, type } = call;
  switch (verb) {
    case "create":
      return { method: "POST", path: "/v1/nodes", body: { id: node, type, title: "holdfast verify" } };
    case "look":
      return { method: "GET", path: `/v1/nodes/${node}` };
    case "history":
      return { method: "GET", path: `/v1/nodes/${node}/history?limit=${pageMax}` };
    case "list":
      return { method: "GET", path: `/v1/nodes?type=${type}&limit=${pageMax}` };
    case "queue":
      return { method: "GET", path: `/v1/queue?type=${type}&limit=${pageMax}` };
    case "next":
      return { method: "POST", path: "/v1/queue/next", body: { type, ...fieldsOf(call) } };
    default:
      return { method: "POST", path: `/v1/nodes/${node}/${verb}`, body: fieldsOf(call) };
  }
}

const fieldsOf = ({ run, token, requestId, waitMs, ms, status, reason }: NodeCall): object => ({
  ...(run === null ? {} : { session: run }),
  ...(token === null ? {} : { token }),
  ...(requestId === null ? {} : { request_id: requestId }),
  ...(waitMs === 0 ? {} : { wait_seconds: Math.round(waitMs / 1000) }),
  ...(ms === undefined ? {} : { ms }),
  ...(status === undefined ? {} : { status }),
  ...(reason === undefined ? {} : { reason }),
});

/** The call behind a request that changes a node, as somebody between caller and service saw it; null: it is none. */
export function nodeCallFrom(path: string, text: string): NodeCall | null {
  const [, node = null, verb] = /^\/v1\/(?:nodes\/([^/]+)|queue)\/(\w+)$/.exec(path) ?? [];
  const known = nodeVerbs.find((one) => one === verb);
  if (known === undefined) return null;
  const body = JSON.parse(text) as Partial<Record<string, string | number>>;
  return {
    op: "node",
    verb: known,
    node,
    type: String(body.type ?? ""),
    run: (body.session as string | undefined) ?? null,
    token: (body.token as number | undefined) ?? null,
    requestId: (body.request_id as string | undefined) ?? null,
    waitMs: 1000 * Number(body.wait_seconds ?? 0),
    ...(body.ms === undefined ? {} : { ms: Number(body.ms) }),
    ...(body.status === undefined ? {} : { status: body.status as GraphStatus }),
    ...(body.reason === undefined ? {} : { reason: String(body.reason) }),
  };
}

export function nodeReplyFrom(call: NodeCall, { status, body }: Extract<Heard, { kind: "reply" }>): Reply {
  const fields = recordIn(body);
  if (status < 300) {
    const reply = success(call, fields);
    return reply ?? { kind: "unknown", why: `${status} without what it promises`, isHollow: true };
  }
  const { code } = recordIn(fields.error);
  const holder = leaseIn(fields.holder);
  if (code === "already_claimed" && holder !== null) return { kind: "taken", holder };
  if (code === "lease_lost") return { kind: "lost" };
  if (code === "not_ready") return { kind: "unready" };
  const said = typeof code === "string" ? code : String(status);
  const isCertain = (status >= 400 && status < 500) || said === "unavailable";
  return isCertain ? { kind: "refused", code: said } : { kind: "unknown", why: said };
}

/** Null where the reply lacks what it promises. */
function success({ verb, node }: NodeCall, fields: Fields): Reply | null {
  const lease = leaseIn(fields.lease);
  switch (verb) {
    case "create":
      return fields.id === node ? { kind: "done" } : null;
    case "release":
      return fields.status === "released" ? { kind: "done" } : null;
    case "claim":
    case "next": {
      if (verb === "next" && fields.status === "empty") return { kind: "empty" };
      const id = recordIn(fields.lease).node_id;
      if (lease === null || typeof id !== "string") return null;
      return { kind: "claimed", node: id, lease, isNew: fields.status === "claimed" };
    }
    case "renew":
    case "extend":
    case "reserve":
      return lease === null ? null : { kind: "kept", lease };
    case "status":
      if (fields.status !== "updated") return null;
      return { kind: "updated", lease, holder: leaseIn(recordIn(fields.lease).holder) };
    case "look": {
      const seen = nodeIn(fields);
      return seen === null ? null : { kind: "nodes", nodes: [seen], isWhole: true };
    }
    case "list":
    case "queue":
      return nodesIn(verb === "list" ? fields.nodes : fields.items, fields.next_cursor);
    case "history":
      return entriesIn(fields.history, fields.next_after);
  }
}

function nodesIn(found: unknown, next: unknown): Reply | null {
  if (!Array.isArray(found)) return null;
  const nodes = found.map(nodeIn).filter((one) => one !== null);
  return nodes.length < found.length ? null : { kind: "nodes", nodes, isWhole: next === null };
}

function entriesIn(found: unknown, next: unknown): Reply | null {
  if (!Array.isArray(found)) return null;
  const entries = found.map(entryIn).filter((one) => one !== null);
  return entries.length < found.length ? null : { kind: "entries", entries, isWhole: next === null };
}

type Fields = Readonly<Record<string, unknown>>;

const recordIn = (value: unknown): Fields =>
  typeof value === "object" && value !== null ? (value as Fields) : {};

const textIn = (value: unknown): string | null => (typeof value === "string" ? value : null);

function leaseIn(value: unknown): NodeLease | null {
  const { by, session, token, expires_in_ms: leftMs } = recordIn(value);
  if (typeof by !== "string" || typeof token !== "number" || typeof leftMs !== "number") return null;
  return { by, run: textIn(session), token, leftMs };
}

function nodeIn(value: unknown): NodeSeen | null {
  const { id, status, edges, lease, parked, blocked_by } = recordIn(value);
  if (typeof id !== "string" || typeof status !== "string" || !Array.isArray(edges)) return null;
  const carrier = edges.map(recordIn).find(({ type }) => type === "assigned")?.to;
  return {
    id,
    status,
    carrier: textIn(carrier),
    lease: leaseIn(lease),
    isStopped: parked !== undefined || (Array.isArray(blocked_by) && blocked_by.length > 0),
  };
}

function entryIn(value: unknown): NodeEntry | null {
  const { seq, what, by, token, reason, status } = recordIn(value);
  if (typeof seq !== "number" || typeof what !== "string" || typeof by !== "string") return null;
  return {
    seq,
    what,
    by,
    token: typeof token === "number" ? token : null,
    reason: textIn(reason),
    to: textIn(recordIn(status).to),
  };
}
