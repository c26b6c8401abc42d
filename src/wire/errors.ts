/**
 * The one error body. A client branches on `code`, shows `details` to a person and quotes `request_id` to an operator.
 */
import Type, { type Static } from "typebox";
import { errorCodes } from "./error-codes.js";
import { choice, reply, retryAfterMs } from "./fields.js";

/** The fields of every error, for replies that add their own beside them. */
export const errorFields = {
  error: Type.String({ description: "Short text." }),
  code: choice(errorCodes, "Stable; branch on this."),
  details: Type.String({ description: "What happened, who holds it, and what to do next." }),
  request_id: Type.String({ description: "The trace id of this response, also in `X-Request-Id`." }),
  retry_after_ms: Type.Optional(retryAfterMs),
};

export const ErrorBody = reply("Error", errorFields, {
  examples: [
    {
      error: "lease not current",
      code: "lease_not_current",
      details: "`deploy-main` is free: the lease expired. Acquire it again before going on.",
      request_id: "req_01j9z3k7",
    },
  ],
});
export type ErrorBody = Static<typeof ErrorBody>;
