/** What a failure on the way means to the caller. Only bugs are logged as errors: the rest is the caller's to mend. */
import type { FastifyError, FastifyRequest } from "fastify";
import { MovedError, StoreError } from "../../store/store.js";
import { type Answer, problem, Refused } from "./answer.js";

/** Bytes. A bulk heartbeat of 1000 leases with the longest names fits; anything else is far smaller. */
export const bodyMax = 1_048_576;

export function answerTo(error: unknown, request: FastifyRequest): Answer {
  if (error instanceof Refused) return error.answer;
  if (error instanceof StoreError) return storeAnswer(error);
  switch ((error as Partial<FastifyError>).statusCode) {
    case 413:
      return problem("too_large", `The body is larger than ${bodyMax} bytes.`);
    case 415:
      return problem(
        "unsupported_media_type",
        "Send the body as JSON, with the header Content-Type: application/json.",
      );
    case 400:
      return problem("invalid_input", `The body could not be read: ${(error as Error).message}.`, {
        status: 400,
      });
    default:
      request.log.error({ err: error, request_id: request.id }, "a request failed");
      return problem("internal", "Something went wrong here. The log has more under this request id.", {
        status: 500,
      });
  }
}

/** A store that fails, in the words of the wire. */
export function storeAnswer(error: StoreError): Answer {
  if (error.kind === "unknown")
    return problem(
      "unknown_outcome",
      `It may have been done: ${error.message}. Repeat with the same request id to learn.`,
      { retryAfterMs: 1000 },
    );
  if (error.kind === "unsupported") return refusedByStore(error);
  if (error instanceof MovedError) return problem("unavailable", `Certainly not done: ${error.message}.`);
  return problem("unavailable", `Certainly not done: ${error.message}. Try again.`, { retryAfterMs: 1000 });
}

const refusedByStore = (error: StoreError): Answer => problem("conflict", error.message);
