/**
 * Standing in line for longer than any single call may take: the wait is cut into steps that carry the same request
 * id, which keeps the place in between and finds a grant whose reply was lost.
 */
import { elapsedMs, type Moment, sleep, thisMoment } from "./durations.js";
import { HoldfastError, isTransient } from "./errors.js";
import { newRequestId } from "./request-id.js";
import { pauseMs } from "./transport.js";

/** The first look is short, to tell soon who is in the way. */
const firstStepSeconds = 1;
/** Each later one ends before the proxies on the way lose patience. */
const stepSeconds = 20;
/** A server that answers sooner than it was asked to is not asked again in the same breath. */
const breathMaxMs = 1000;

/** What is asked in one step. */
export interface Step {
  readonly requestId: string;
  readonly waitSeconds: number;
  /** How often the call itself is repeated; left out where it is up to the client's own setting. */
  readonly retries?: number;
}

export interface Answered<Answer> {
  readonly reply: Answer;
  /** The moment before the call was sent that `reply` is the answer to: what a lease's time is counted from. */
  readonly sentAt: Moment;
}

export interface Line<Answer> {
  readonly waitMs: number;
  /** The caller's own: it is never exchanged for another. */
  readonly requestId: string | undefined;
  readonly signal: AbortSignal | undefined;
  readonly ask: (step: Step) => Promise<Answered<Answer>>;
  readonly isGranted: (answer: Answer) => boolean;
  readonly retryAfterMs: (answer: Answer) => number;
  readonly onWaiting?: ((answer: Answer) => void) | undefined;
  readonly onTrouble?: ((error: HoldfastError) => void) | undefined;
}

/** The grant, or what the server said last when the time was up. */
export async function standInLine<Answer>(line: Line<Answer>): Promise<Answered<Answer>> {
  const begunAt = thisMoment();
  const leftMs = (): number => Math.max(0, line.waitMs - elapsedMs(begunAt));
  let requestId = line.requestId ?? newRequestId();
  let hasBeenHeard = false;
  for (let step = 0; ; step++) {
    const waitSeconds = Math.min(Math.ceil(leftMs() / 1000), step === 0 ? firstStepSeconds : stepSeconds);
    const askedAt = thisMoment();
    // Once the server has answered, a wait is gone on with here, for what is left of it.
    const retries = hasBeenHeard && waitSeconds > 0 ? { retries: 0 } : {};
    try {
      const answered = await line.ask({ requestId, waitSeconds, ...retries });
      hasBeenHeard = true;
      if (line.isGranted(answered.reply) || leftMs() === 0) return answered;
      line.onWaiting?.(answered.reply);
      const isEarly = elapsedMs(askedAt) < waitSeconds * 500;
      const breathMs = Math.min(line.retryAfterMs(answered.reply), breathMaxMs, leftMs());
      if (isEarly) await sleep(breathMs, line.signal);
    } catch (error) {
      if (isSpent(error) && line.requestId === undefined && leftMs() > 0) {
        // It was granted, the reply was lost, and by now the lease is over: stand in line anew.
        requestId = newRequestId();
      } else if (isTransient(error) && hasBeenHeard && waitSeconds > 0) {
        // Also when the time is up: a last look tells whether it was granted.
        line.onTrouble?.(error);
        await sleep(Math.min(pauseMs(Math.min(step, 4), error), Math.max(leftMs(), 100)), line.signal);
      } else throw error;
    }
  }
}

/** The request id's lease is over. */
const isSpent = (error: unknown): boolean =>
  error instanceof HoldfastError && (error.code === "lease_lost" || error.code === "lease_not_current");
