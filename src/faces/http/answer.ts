/** What a handler gives back, and the one error body. */
import { printable } from "../../core/names.js";
import { type ErrorCode, errorMeanings } from "../../wire/error-codes.js";

export interface Answer {
  readonly status: number;
  readonly body: unknown;
  readonly retryAfterMs?: number;
  /** Called if it could not be written to the caller, who was there when it was decided. */
  readonly undelivered?: () => void;
}

export const ok = (body: unknown): Answer => ({ status: 200, body });

/** Fields of an error body but the request id, which is added where the answer is written. */
export interface ProblemBody {
  readonly error: string;
  readonly code: ErrorCode;
  readonly details: string;
}

/**
 * An error answer. `details` says what happened and what to do next, and is shown to people whatever names, owners and
 * reasons it quotes; `extra` are fields of this kind of reply.
 */
export function problem(
  code: ErrorCode,
  details: string,
  more: { status?: number; extra?: object; retryAfterMs?: number } = {},
): Answer {
  const { retryAfterMs } = more;
  const body: ProblemBody & { retry_after_ms?: number } = {
    error: code.replaceAll("_", " "),
    code,
    details: printable(details),
    ...more.extra,
    ...(retryAfterMs === undefined ? {} : { retry_after_ms: retryAfterMs }),
  };
  const status = more.status ?? errorMeanings[code].statuses[0];
  return { status, body, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) };
}

/** Thrown where a call cannot go on; the answer is what the caller gets. */
export class Refused extends Error {
  override readonly name = "Refused";

  constructor(readonly answer: Answer) {
    const { stackTraceLimit } = Error;
    // Refusals are ordinary, and most frequent when the server has least time to spare: no stack is collected.
    Error.stackTraceLimit = 0;
    super((answer.body as ProblemBody).details);
    Error.stackTraceLimit = stackTraceLimit;
  }
}

/** Refused for lack of room. Told only after a pause: who calls again at once would take the little room there is. */
export class Busy extends Refused {}

export const refuse = (...args: Parameters<typeof problem>): never => {
  throw new Refused(problem(...args));
};
