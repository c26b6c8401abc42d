/**
 * The stable codes of errors and what each tells the caller. Codes are only ever added; none changes its meaning. Apart
 * from the schemas, because a command that answers in the same words without a server loads no schema.
 */
export const errorCodes = [
  "authentication_required",
  "authentication_failed",
  "forbidden",
  "invalid_lock_name",
  "invalid_ttl",
  "invalid_input",
  "lease_not_current",
  "not_found",
  "method_not_allowed",
  "too_large",
  "unsupported_media_type",
  "held",
  "delayed",
  "lease_lost",
  "conflict",
  "session_expired",
  "rate_limited",
  "unavailable",
  "unknown_outcome",
  "internal",
] as const;
export type ErrorCode = (typeof errorCodes)[number];

/** Each code's statuses, the usual one first, and what it tells the caller. */
export const errorMeanings = {
  authentication_required: { statuses: [401], meaning: "No bearer token was sent." },
  authentication_failed: { statuses: [401], meaning: "The bearer token is unknown, revoked or expired." },
  forbidden: { statuses: [403], meaning: "The token's role, scopes or space do not allow this." },
  invalid_lock_name: { statuses: [400], meaning: "The name breaks the rules for names." },
  invalid_ttl: { statuses: [400], meaning: "The TTL is not a whole number of seconds within the bounds." },
  invalid_input: {
    statuses: [422, 400, 408],
    meaning:
      "422: a field is missing, unknown or mistyped, or a request id came with another body. 400: malformed JSON or too long. 408: the request did not arrive in time.",
  },
  lease_not_current: {
    statuses: [404, 400],
    meaning: "404: the lock is free or the lease expired. 400: another lease or principal holds it.",
  },
  not_found: { statuses: [404], meaning: "There is no such thing here, or it belongs to another." },
  method_not_allowed: { statuses: [405], meaning: "The path exists, with other methods." },
  too_large: { statuses: [413, 431], meaning: "The body, or the headers, are larger than the server reads." },
  unsupported_media_type: { statuses: [415], meaning: "Bodies are JSON." },
  held: { statuses: [409], meaning: "Another owns it; the reply says who and until when." },
  delayed: { statuses: [409], meaning: "Nobody may take it until its lock delay is over." },
  lease_lost: { statuses: [409], meaning: "The lease is over. Stop the work; it may have another owner." },
  conflict: { statuses: [409], meaning: "What exists forbids this, as a name already in use." },
  session_expired: {
    statuses: [410],
    meaning: "The session is over, and its leases with it. Make a new one.",
  },
  rate_limited: { statuses: [429], meaning: "Too many requests from this token; see `Retry-After`." },
  unavailable: { statuses: [503], meaning: "Certainly not done. Try again." },
  unknown_outcome: {
    statuses: [503],
    meaning: "May have been done. Repeat with the same request id to learn.",
  },
  internal: { statuses: [500], meaning: "A bug. Report it with the request id." },
} as const satisfies Record<ErrorCode, { readonly statuses: readonly number[]; readonly meaning: string }>;
