// Requests as a proxy saw them, read back into operations of a history.
import type { Call, Operation } from "../../src/verify/history.js";
import { StandIns } from "../../src/verify/http/lab.js";
import { nodeCallFrom } from "../../src/verify/http/node-replies.js";
import { replyFrom } from "../../src/verify/http/replies.js";
import { principals } from "./principals.js";
import type { Request, Struck } from "./proxy.js";

interface Body {
  readonly ttl_seconds?: number;
  readonly wait_seconds?: number;
  readonly lock_delay_seconds?: number;
  readonly request_id?: string;
  readonly session_id?: string;
  readonly lease_id?: string;
  readonly metadata?: string;
}

const ids = new StandIns();
const hidden = (id: string | undefined): string | null => (id === undefined ? null : ids.hide(id));
const inMs = (seconds: number | undefined): number | null => (seconds === undefined ? null : seconds * 1000);

/** What the server was asked by somebody called `process`, and what it said. */
export function operationOf({ request, answer, began, ended }: Struck, process: string): Operation {
  const principal = principals.find(({ bearer }) => bearer === request.bearer)?.name;
  if (principal === undefined) throw new Error(`nobody here has sent ${request.method} ${request.path}`);
  const call = callOf(request);
  if (answer === null)
    return {
      process,
      principal,
      call,
      began,
      ended: Number.POSITIVE_INFINITY,
      reply: { kind: "unknown", why: "no answer" },
    };
  const heard = { kind: "reply", status: answer.status, body: parsed(answer.body), retryAfterMs: 0 } as const;
  const reply = replyFrom(call, heard, ids);
  return {
    process,
    principal,
    call,
    began,
    ended: reply.kind === "unknown" ? Number.POSITIVE_INFINITY : ended,
    reply,
  };
}

function callOf({ path, body: text }: Request): Call {
  const node = nodeCallFrom(path, text);
  if (node !== null) return node;
  const [, encoded = "", verb] = /^\/locks\/([^/]+)\/(acquire|renew|release)$/.exec(path) ?? [];
  const name = decodeURIComponent(encoded);
  const body = JSON.parse(text) as Body;
  const ttlMs = inMs(body.ttl_seconds);
  const lease = hidden(body.lease_id);
  if (verb === "acquire")
    return {
      op: "acquire",
      name,
      ttlMs,
      waitMs: inMs(body.wait_seconds) ?? 0,
      requestId: body.request_id ?? null,
      session: hidden(body.session_id),
      lease,
      delayMs: inMs(body.lock_delay_seconds) ?? 0,
      ...(body.metadata === undefined ? {} : { label: body.metadata }),
    };
  if (lease === null || verb === undefined) throw new Error(`no call of a lease: ${path}`);
  return verb === "renew" ? { op: "renew", name, lease, ttlMs } : { op: "release", name, lease };
}

const parsed = (text: string): unknown => (text === "" ? undefined : JSON.parse(text));
