/**
 * The error body of the work graph, `/v1`, and its codes. It differs from the other routes' because the contract that
 * it follows does: the code stands in an object, and who holds the node beside it.
 */
import Type, { type Static } from "typebox";
import { choice, reply } from "./fields.js";
import { NodeLease } from "./node-fields.js";

export const nodeErrorCodes = [
  "unauthorized",
  "forbidden",
  "not_found",
  "conflict",
  "already_claimed",
  "lease_lost",
  "not_ready",
  "invalid_node",
  "invalid_input",
  "too_large",
  "rate_limited",
  "internal",
  "unavailable",
  "unknown_outcome",
] as const;
export type NodeErrorCode = (typeof nodeErrorCodes)[number];

/** Each code's statuses, the usual one first, and what it tells the caller. */
export const nodeErrorMeanings = {
  unauthorized: { statuses: [401], meaning: "No bearer token, or one that is unknown, revoked or expired." },
  forbidden: { statuses: [403], meaning: "The token's role, scopes or space do not allow this." },
  not_found: { statuses: [404], meaning: "There is no such node, or no such route." },
  conflict: {
    statuses: [409],
    meaning:
      "What exists forbids this: the id is in use, the revision is not the current one, an edge would close a circle.",
  },
  already_claimed: {
    statuses: [409],
    meaning: "Somebody is on it, perhaps another run of the same person; `holder` says who and until when.",
  },
  lease_lost: {
    statuses: [409],
    meaning: "The claim is over, or not the one that was meant. Stop the work; `holder` is who has it now.",
  },
  not_ready: {
    statuses: [409],
    meaning: "Nobody can take it now: it is over, blocked or parked, or the server was just restored.",
  },
  invalid_node: {
    statuses: [422],
    meaning: "The rules for nodes forbid this: an id, a type, a status, a title, a number of ms.",
  },
  invalid_input: {
    statuses: [400, 405, 408, 415, 422],
    meaning:
      "The request itself is wrong: no JSON, an unknown field, a wrong shape (400), method (405) or content type (415), too slow (408), or its request id came with another request before (422).",
  },
  too_large: { statuses: [413, 431], meaning: "The body, or the headers, are larger than the server reads." },
  rate_limited: { statuses: [429], meaning: "Too many requests from this token; see `Retry-After`." },
  internal: { statuses: [500], meaning: "A bug. Report it with the request id." },
  unavailable: { statuses: [503], meaning: "Certainly not done. Try again." },
  unknown_outcome: {
    statuses: [503],
    meaning: "May have been done. Repeat with the same request id to learn.",
  },
} as const satisfies Record<
  NodeErrorCode,
  { readonly statuses: readonly number[]; readonly meaning: string }
>;

const NodeErrorInfo = reply("NodeErrorInfo", {
  code: choice(nodeErrorCodes, "Stable; branch on this."),
  message: Type.String({ description: "What happened, who holds it and until when, and what to do next." }),
  details: Type.Optional(
    Type.Record(Type.String(), Type.Unknown(), {
      description:
        "The same for programs: `request_id`, `retry_after_ms`, and what else belongs to the code.",
    }),
  ),
});

/** An error, and where it is about a claim the lease that stands in the way. */
export const nodeErrorFields = { error: NodeErrorInfo, holder: Type.Optional(NodeLease) };

export const NodeErrorBody = reply("NodeError", nodeErrorFields, {
  examples: [
    {
      error: {
        code: "not_found",
        message: "There is no node task-api-rate-limits. POST /v1/nodes creates one.",
        details: { request_id: "req_01j9z3k7" },
      },
    },
  ],
});
export type NodeErrorBody = Static<typeof NodeErrorBody>;
