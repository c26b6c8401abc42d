/** The same leases in the words of work: claim a job, heartbeat, see who owns it, release it. */
import { type Duration, thisMoment, toMs } from "./durations.js";
import { type CallSignal, conflictOf, ttlOf } from "./locks.js";
import { refuseUnknown } from "./options.js";
import { segment } from "./path.js";
import type {
  Claimed,
  ClaimRefused,
  Heartbeat,
  HeartbeatMany,
  Job,
  JobPage,
  NoneClaimed,
} from "./replies.js";
import { newRequestId } from "./request-id.js";
import type { Transport } from "./transport.js";
import { type Answered, type Step, standInLine } from "./waiting.js";

export interface ClaimOptions extends CallSignal {
  /** A label for people; the bearer token's name if left out. */
  readonly owner?: string | undefined;
  /** Text or an object. */
  readonly metadata?: string | Readonly<Record<string, unknown>> | undefined;
  /** 120 s if left out, without a session. */
  readonly ttl?: Duration | undefined;
  /** How long to stand in line if it is owned; longer than any proxy's patience is fine. Not at all if left out. */
  readonly wait?: Duration | undefined;
  readonly sessionId?: string | undefined;
  /** The same id gives the same claim again. Made up if left out. */
  readonly requestId?: string | undefined;
  /** Told who owns it, again and again while waiting. */
  readonly onWaiting?: ((owned: ClaimRefused) => void) | undefined;
}

export interface HeartbeatOptions extends CallSignal {
  /** As it was claimed, if left out. */
  readonly ttl?: Duration | undefined;
  /** How far the work is, for people. */
  readonly progress?: string | undefined;
}

export interface ReleaseJobOptions extends CallSignal {
  readonly outcome?: "done" | "failed" | "abandoned" | undefined;
  readonly note?: string | undefined;
}

export class Jobs {
  constructor(readonly transport: Transport) {}

  /** Claims it, or answers who owns it. */
  async claim(jobId: string, options: ClaimOptions = {}): Promise<Claimed | ClaimRefused> {
    refuseUnknown("claim", options);
    const body = bodyOf(options);
    const line = await standInLine<Claimed | ClaimRefused>({
      waitMs: toMs(options.wait ?? 0, "wait"),
      requestId: options.requestId,
      signal: options.signal,
      ask: (step) => this.#ask(jobId, body, step, options.signal),
      isGranted: (reply) => reply.claimed,
      retryAfterMs: (reply) => (reply.claimed ? 0 : reply.retryAfterMs),
      onWaiting: (reply) => reply.claimed || options.onWaiting?.(reply),
    });
    return line.reply;
  }

  async #ask(
    jobId: string,
    body: Readonly<Record<string, unknown>>,
    { requestId, waitSeconds, ...retries }: Step,
    signal: AbortSignal | undefined,
  ): Promise<Answered<Claimed | ClaimRefused>> {
    const sentAt = thisMoment();
    const answer = await this.transport.call({
      method: "POST",
      path: `/jobs/${segment(jobId)}/claim`,
      body: { ...body, request_id: requestId, ...(waitSeconds === 0 ? {} : { wait_seconds: waitSeconds }) },
      waitMs: waitSeconds * 1000,
      answers: [409],
      expects: ["claimed", "leaseId", "expiresInMs"],
      signal,
      ...retries,
    });
    const reply = answer.body as Claimed | ClaimRefused;
    if (reply.claimed === undefined) throw conflictOf(answer, jobId);
    return { reply, sentAt };
  }

  /** Claims the first of the candidates that is free, or answers who owns each. */
  async claimFirst(
    candidates: readonly string[],
    options: Omit<ClaimOptions, "wait" | "onWaiting"> = {},
  ): Promise<Claimed | NoneClaimed> {
    refuseUnknown("claimFirst", options);
    const reply = await this.transport.call({
      method: "POST",
      path: "/jobs/claim",
      body: { candidates, request_id: options.requestId ?? newRequestId(), ...bodyOf(options) },
      answers: [409],
      expects: ["claimed", "leaseId", "expiresInMs"],
      signal: options.signal,
    });
    const answer = reply.body as
      | Claimed
      | NoneClaimed
      | { readonly claimed?: never; readonly jobId?: string };
    if (answer.claimed === undefined) throw conflictOf(reply, answer.jobId ?? candidates.join(", "));
    return answer;
  }

  /** Keeps the claim. Throws LeaseLostError, which names the present owner, when it is over. */
  async heartbeat(jobId: string, leaseId: string, options: HeartbeatOptions = {}): Promise<Heartbeat> {
    refuseUnknown("heartbeat", options);
    const { progress, signal } = options;
    return this.transport.ask<Heartbeat>({
      method: "POST",
      path: `/jobs/${segment(jobId)}/heartbeat`,
      body: { lease_id: leaseId, ...ttlOf(options), ...(progress === undefined ? {} : { progress }) },
      signal,
      resource: jobId,
      expects: ["leaseId", "expiresInMs"],
    });
  }

  /** Keeps up to 1,000 claims with one call. */
  async heartbeatMany(
    leases: readonly { readonly jobId: string; readonly leaseId: string }[],
    options: CallSignal = {},
  ): Promise<HeartbeatMany> {
    refuseUnknown("heartbeatMany", options);
    return this.transport.ask<HeartbeatMany>({
      method: "POST",
      path: "/jobs/heartbeat",
      body: { leases: leases.map(({ jobId, leaseId }) => ({ job_id: jobId, lease_id: leaseId })) },
      signal: options.signal,
      expects: ["renewed", "lost"],
    });
  }

  /** Ends the claim; a repeat succeeds. Throws LeaseLostError when another owns it. */
  async release(jobId: string, leaseId: string, options: ReleaseJobOptions = {}): Promise<void> {
    refuseUnknown("releaseJob", options);
    const { outcome, note, signal } = options;
    await this.transport.call({
      method: "POST",
      path: `/jobs/${segment(jobId)}/release`,
      body: {
        lease_id: leaseId,
        ...(outcome === undefined ? {} : { outcome }),
        ...(note === undefined ? {} : { note }),
      },
      signal,
      resource: jobId,
      expects: ["released"],
    });
  }

  /** Who owns it. A free job is an answer, too. */
  async owner(jobId: string, options: CallSignal = {}): Promise<Job> {
    refuseUnknown("owner", options);
    return this.transport.ask<Job>({
      method: "GET",
      path: `/jobs/${segment(jobId)}`,
      signal: options.signal,
      expects: ["jobId", "claimed"],
    });
  }

  /** Claimed jobs in order of their ids, one page. */
  async list(query: ListJobsQuery = {}): Promise<JobPage> {
    refuseUnknown("listJobs", query);
    const { signal, ...rest } = query;
    return this.transport.ask<JobPage>({
      method: "GET",
      path: "/jobs",
      query: rest,
      signal,
      expects: ["jobs", "nextCursor"],
    });
  }

  /** Claimed jobs in order of their ids, all of them. */
  async *each(query: ListJobsQuery = {}): AsyncGenerator<Job, void, undefined> {
    let cursor = query.cursor;
    do {
      const page = await this.list({ ...query, ...(cursor === undefined ? {} : { cursor }) });
      yield* page.jobs;
      cursor = page.nextCursor ?? undefined;
    } while (cursor !== undefined);
  }
}

export interface ListJobsQuery extends CallSignal {
  readonly prefix?: string | undefined;
  readonly owner?: string | undefined;
  readonly mine?: boolean | undefined;
  readonly limit?: number | undefined;
  readonly cursor?: string | undefined;
}

function bodyOf(options: Omit<ClaimOptions, "wait">): Record<string, unknown> {
  const { owner, metadata, sessionId } = options;
  return {
    ...ttlOf(options),
    ...(owner === undefined ? {} : { owner }),
    ...(metadata === undefined ? {} : { metadata }),
    ...(sessionId === undefined ? {} : { session_id: sessionId }),
  };
}
