/**
 * Errors under `/v1`: the work graph follows another contract, whose error body is `{error: {code, message, details},
 * holder}`. What the rest of the face answers for every route (who calls, how often, what a body must be) is put into
 * those words here, so that nothing under `/v1` answers in others.
 */
import type { FastifyRequest } from "fastify";
import { printable } from "../../core/names.js";
import type { ErrorCode } from "../../wire/error-codes.js";
import { type NodeErrorCode, nodeErrorMeanings } from "../../wire/node-errors.js";
import type { NodeLease } from "../../wire/node-fields.js";
import { type Answer, type ProblemBody, Refused } from "./answer.js";

/** The error body but the request id, which is added where the answer is written. */
interface NodeProblemBody {
  readonly error: {
    readonly code: NodeErrorCode;
    readonly message: string;
    readonly details?: Readonly<Record<string, unknown>>;
  };
  readonly holder?: NodeLease;
}

interface More {
  readonly status?: number;
  readonly details?: Readonly<Record<string, unknown>>;
  readonly holder?: NodeLease | null;
  readonly retryAfterMs?: number;
}

/** An error answer of the work graph. `message` is shown to people whatever names, labels and reasons it quotes. */
export function nodeProblem(code: NodeErrorCode, message: string, more: More = {}): Answer {
  const { retryAfterMs, holder } = more;
  const details = {
    ...more.details,
    ...(retryAfterMs === undefined ? {} : { retry_after_ms: retryAfterMs }),
  };
  const body: NodeProblemBody = {
    error: {
      code,
      message: printable(message),
      ...(Object.keys(details).length === 0 ? {} : { details }),
    },
    ...(holder ? { holder } : {}),
  };
  const status = more.status ?? nodeErrorMeanings[code].statuses[0];
  return { status, body, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) };
}

export const refuseNode = (...args: Parameters<typeof nodeProblem>): never => {
  throw new Refused(nodeProblem(...args));
};

/** The other routes' codes in these words; the status, where it is another. */
const words = {
  authentication_required: { code: "unauthorized" },
  authentication_failed: { code: "unauthorized" },
  forbidden: { code: "forbidden" },
  invalid_lock_name: { code: "invalid_input" },
  invalid_ttl: { code: "invalid_input" },
  // A wrong shape is 400 here; 422 is for what the rules for nodes forbid.
  invalid_input: { code: "invalid_input", status: { 422: 400 } },
  lease_not_current: { code: "lease_lost", status: { 400: 409, 404: 409 } },
  not_found: { code: "not_found" },
  method_not_allowed: { code: "invalid_input" },
  too_large: { code: "too_large" },
  unsupported_media_type: { code: "invalid_input" },
  held: { code: "already_claimed" },
  delayed: { code: "not_ready" },
  lease_lost: { code: "lease_lost" },
  conflict: { code: "conflict" },
  session_expired: { code: "lease_lost", status: { 410: 409 } },
  rate_limited: { code: "rate_limited" },
  unavailable: { code: "unavailable" },
  unknown_outcome: { code: "unknown_outcome" },
  internal: { code: "internal" },
} as const satisfies Record<
  ErrorCode,
  { readonly code: NodeErrorCode; readonly status?: Readonly<Record<number, number>> }
>;

export const isNodePath = (path: string): boolean => /^\/v1(?:[/?#]|$)/.test(path);

/** Whether what is answered to this request follows the work graph's contract. */
export const isNodeRequest = (request: FastifyRequest): boolean =>
  isNodePath(request.routeOptions.url ?? request.url);

/** Any answer in the work graph's words; one that is in them already, or no error, stays as it is. */
export function inNodeWords(answer: Answer): Answer {
  if (answer.status < 400 || isNodeBody(answer.body)) return answer;
  const { code, details } = answer.body as ProblemBody;
  const word: { code: NodeErrorCode; status?: Readonly<Record<number, number>> } = words[code];
  const { retryAfterMs } = answer;
  return nodeProblem(word.code, details, {
    status: word.status?.[answer.status] ?? answer.status,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  });
}

const isNodeBody = (body: unknown): body is NodeProblemBody =>
  typeof (body as { error?: unknown } | null)?.error === "object";

/** The body as it is written, with the trace id of its response. */
export function withRequestId(body: unknown, requestId: string): object {
  if (!isNodeBody(body)) return { ...(body as object), request_id: requestId };
  const { error } = body;
  return { ...body, error: { ...error, details: { ...error.details, request_id: requestId } } };
}
