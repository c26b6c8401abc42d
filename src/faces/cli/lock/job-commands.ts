/** `holdfast job claim|heartbeat|release|owner|list`: the same leases, in the words of work. */
import { isLoss } from "../../../client/errors.js";
import type { ClaimOptions } from "../../../client/jobs.js";
import type { Waiting } from "../../../client/locks.js";
import type { Claimed, ClaimRefused, Heartbeat, Job, NoneClaimed } from "../../../client/replies.js";
import { newRequestId } from "../../../client/request-id.js";
import { CliError, exitCodes, ttlSecondsOf, waitSecondsOf } from "../failure.js";
import { durationText, instantText, printJson, printLines } from "../output.js";
import { WaitingLine } from "../waiting-line.js";
import { reasonOf } from "../wording.js";
import { ask, recovered } from "./attempts.js";
import { type Desk, type DeskFlags, nameOf, openDesk } from "./desk.js";
import type { Grant, Kept } from "./kept-leases.js";
import { moved } from "./lock-commands.js";
import { isLeaseOfRun, type ProofFlags, withProof } from "./proof.js";
import { rowsIn, shortOwner } from "./rows.js";

export interface ClaimFlags extends DeskFlags {
  readonly owner?: string;
  readonly metadata?: string;
  readonly ttl?: string;
  readonly wait?: string;
}

/** One id, or several of which the first free one is claimed. */
export async function claimCommand(given: readonly string[], flags: ClaimFlags): Promise<void> {
  const jobIds = [...new Set(given.map(nameOf))];
  const waitSeconds = waitSecondsOf(flags.wait);
  if (jobIds.length > 1 && waitSeconds > 0)
    throw new CliError("--wait stands in line for one job: name one, or leave it out", exitCodes.usage);
  const metadata = flags.metadata === undefined ? null : objectOrText(flags.metadata);
  const ttlSeconds = flags.ttl === undefined ? null : ttlSecondsOf(flags.ttl);
  const desk = await openDesk(flags, "server");
  const again = await regained(desk, jobIds, ttlSeconds);
  if (again !== null) return showClaimed(desk, again, flags);
  const wish = {
    kind: "job",
    resources: jobIds,
    requestId: newRequestId(),
    ttlSeconds,
    metadata,
    owner: flags.owner ?? null,
  } as const;
  const options: ClaimOptions = {
    requestId: wish.requestId,
    ...(ttlSeconds === null ? {} : { ttl: ttlSeconds }),
    ...(flags.owner === undefined ? {} : { owner: flags.owner }),
    ...(metadata === null ? {} : { metadata }),
  };
  const reply = await ask(desk, wish, (signal) => claimed(desk, jobIds, waitSeconds, { ...options, signal }));
  if (!reply.claimed) throw conflict(jobIds, reply);
  showClaimed(desk, reply, flags);
}

async function claimed(
  { client }: Desk,
  jobIds: readonly string[],
  waitSeconds: number,
  options: ClaimOptions,
): Promise<Claimed | ClaimRefused | NoneClaimed> {
  const [jobId = ""] = jobIds;
  if (jobIds.length > 1) return client.jobs.claimFirst(jobIds, options);
  const line = new WaitingLine(jobId);
  try {
    const onWaiting = (owned: ClaimRefused): void => line.show(waitingFor(owned));
    return await client.jobs.claim(jobId, { ...options, wait: waitSeconds, onWaiting });
  } finally {
    line.clear();
  }
}

/** Who owns it, as whoever waits for a lock is told. */
function waitingFor(owned: ClaimRefused): Waiting {
  const { jobId, owner, since, expiresAt, expiresInMs, retryAfterMs, metadata, details } = owned;
  if (owner === null || since === null || expiresAt === null || expiresInMs === null)
    return { status: "delayed", availableAt: new Date(Date.now() + retryAfterMs), retryAfterMs, details };
  const { position } = owned as { readonly position?: number };
  return {
    status: "held",
    name: jobId,
    holder: { principal: owner, session: null, since },
    holderId: owner,
    fencingToken: 0,
    expiresAt,
    expiresInMs,
    retryAfterMs,
    metadata,
    waiters: position ?? 0,
    ...(position === undefined ? {} : { position }),
  };
}

/** What a named session has claimed already, or a killed command of this session was granted. */
async function regained(
  desk: Desk,
  jobIds: readonly string[],
  ttlSeconds: number | null,
): Promise<Claimed | null> {
  for (const jobId of jobIds) {
    const named = desk.session.kind === "named" ? desk.kept.lease(jobId) : null;
    const kept = named ?? (await recovered(desk, jobId));
    if (kept === null) continue;
    try {
      const beat = await desk.client.jobs.heartbeat(
        jobId,
        kept.leaseId,
        ttlSeconds === null ? {} : { ttl: ttlSeconds },
      );
      moved(desk, kept, grantOf(beat), ttlSeconds);
      const { owner, metadata, attempts } = await desk.client.jobs.owner(jobId);
      return { ...beat, claimed: true, owner: owner ?? desk.principal, metadata, attempts };
    } catch (error) {
      if (!isLoss(error)) throw error;
      desk.kept.forget(kept);
    }
  }
  return null;
}

const grantOf = ({ jobId, leaseId, token, expiresAt }: Heartbeat): Grant => ({
  resource: jobId,
  leaseId,
  token,
  expiresAt: expiresAt.getTime(),
});

function conflict(jobIds: readonly string[], reply: ClaimRefused | NoneClaimed): CliError {
  if ("candidates" in reply)
    return new CliError(reply.details, exitCodes.conflict, {
      code: "held",
      lines: [
        "Error: No job is free",
        ...reply.candidates.map(
          ({ jobId, owner, expiresAt }) =>
            `${jobId}: ${owner === null ? "cannot be claimed yet" : `owned by ${owner}`}${expiresAt === null ? "" : ` until ${instantText(expiresAt)}`}`,
        ),
      ],
      details: { candidates: reply.candidates.map(refusedFields) },
    });
  const { owner, since, expiresAt, details } = reply;
  const reason = reasonOf(reply.metadata);
  // The server says first that it is taken, and then by whom.
  const message = details.replace(`${jobIds[0]} is taken. It is held`, `${jobIds[0]} is held`);
  return new CliError(message, exitCodes.conflict, {
    code: reply.code,
    lines: [
      "Error: Job conflict",
      `Job: ${jobIds[0]}`,
      ...(owner === null ? [details] : [`Owner: ${owner}`]),
      ...(since === null ? [] : [`Since: ${instantText(since)}`]),
      ...(expiresAt === null ? [] : [`Expires: ${instantText(expiresAt)}`]),
      ...(reason === null ? [] : [`Metadata: ${reason}`]),
    ],
    details: refusedFields(reply),
  });
}

const refusedFields = (refused: Omit<ClaimRefused, "claimed" | "details">): Record<string, unknown> => ({
  job_id: refused.jobId,
  owner: refused.owner,
  metadata: refused.metadata,
  since_unix_ms: refused.since?.getTime() ?? null,
  expires_unix_ms: refused.expiresAt?.getTime() ?? null,
  retry_after_ms: refused.retryAfterMs,
});

function showClaimed(desk: Desk, claimed: Claimed, { json }: DeskFlags): void {
  const { jobId, owner, leaseId, token, metadata, attempts, expiresAt, heartbeatAfterMs } = claimed;
  const job = {
    job_id: jobId,
    claimed: true,
    owner,
    principal: desk.principal,
    nonce: leaseId,
    token,
    expires_unix_ms: expiresAt.getTime(),
    heartbeat_after_ms: heartbeatAfterMs,
    attempts,
    metadata,
  };
  if (json === true) printJson({ job });
  else
    printLines("Job claimed", `  Job: ${jobId}`, `  Owner: ${owner}`, `  Expires: ${instantText(expiresAt)}`);
}

export interface HeartbeatFlags extends ProofFlags {
  readonly ttl?: string;
  readonly progress?: string;
}

export async function heartbeatCommand(given: string, flags: HeartbeatFlags): Promise<void> {
  const jobId = nameOf(given);
  const ttlSeconds = flags.ttl === undefined ? null : ttlSecondsOf(flags.ttl);
  const desk = await openDesk(flags, "server");
  const { reply, proof } = await withProof(desk, jobId, flags, "job heartbeat", async (leaseId) => {
    const isOfRun = ttlSeconds !== null && isLeaseOfRun(jobId, leaseId);
    if (isOfRun) await desk.client.locks.extend(jobId, leaseId, ttlSeconds);
    return desk.client.jobs.heartbeat(jobId, leaseId, {
      ...(ttlSeconds === null || isOfRun ? {} : { ttl: ttlSeconds }),
      ...(flags.progress === undefined ? {} : { progress: flags.progress }),
    });
  });
  if (proof.kept !== null) moved(desk, proof.kept, grantOf(reply), ttlSeconds);
  const { leaseId, token, expiresAt, heartbeatAfterMs } = reply;
  if (flags.json === true)
    return printJson({
      job: {
        job_id: jobId,
        nonce: leaseId,
        token,
        expires_unix_ms: expiresAt.getTime(),
        heartbeat_after_ms: heartbeatAfterMs,
      },
    });
  printLines("Heartbeat sent", `  Job: ${jobId}`, `  Expires: ${instantText(expiresAt)}`);
}

export interface ReleaseJobFlags extends ProofFlags {
  readonly outcome?: string;
  readonly note?: string;
}

const outcomes = ["done", "failed", "abandoned"] as const;

export async function releaseJobCommand(given: string, flags: ReleaseJobFlags): Promise<void> {
  const jobId = nameOf(given);
  const outcome = outcomes.find((one) => one === flags.outcome);
  if (flags.outcome !== undefined && outcome === undefined)
    throw new CliError(`--outcome ${flags.outcome}: use ${outcomes.join(", ")}`, exitCodes.usage);
  if (flags.note !== undefined && outcome === undefined)
    throw new CliError("--note belongs to an --outcome: give both", exitCodes.usage);
  const desk = await openDesk(flags, "server");
  const { proof } = await withProof(desk, jobId, flags, "job release", (leaseId) =>
    desk.client.jobs.release(jobId, leaseId, {
      ...(outcome === undefined ? {} : { outcome }),
      ...(flags.note === undefined ? {} : { note: flags.note }),
    }),
  );
  if (proof.kept !== null) desk.kept.forget(proof.kept);
  if (flags.json === true)
    return printJson({ job: { job_id: jobId, outcome: outcome ?? null }, released: true });
  printLines("Job released", `  Job: ${jobId}`, ...(outcome === undefined ? [] : [`  Outcome: ${outcome}`]));
}

export async function ownerCommand(given: string, flags: DeskFlags): Promise<void> {
  const jobId = nameOf(given);
  const desk = await openDesk(flags, "server");
  const job = await desk.client.jobs.owner(jobId);
  if (flags.json === true)
    return printJson({ job: { ...jobFields(job), mine: isOfSession(desk.kept.lease(jobId), job) } });
  const { claimed, owner, principal, since, expiresAt, progress, lastOutcome } = job;
  if (!claimed || since === null || expiresAt === null)
    return printLines(
      `${jobId} is free`,
      ...(lastOutcome ? [`  Last outcome: ${lastOutcome.outcome} at ${instantText(lastOutcome.at)}`] : []),
    );
  printLines(
    jobId,
    `  Owner: ${owner}${owner === principal ? "" : ` (${principal})`}`,
    `  Since: ${instantText(since)}`,
    `  Expires: ${instantText(expiresAt)}`,
    ...(progress === null ? [] : [`  Progress: ${progress}`]),
  );
}

export interface ListJobsFlags extends DeskFlags {
  readonly prefix?: string;
  readonly owner?: string;
  readonly mine?: boolean;
}

export async function listJobsCommand(flags: ListJobsFlags): Promise<void> {
  const desk = await openDesk(flags, "server");
  const { prefix, owner, mine } = flags;
  const jobs: Job[] = [];
  for await (const job of desk.client.jobs.each({
    ...(prefix === undefined ? {} : { prefix }),
    ...(owner === undefined ? {} : { owner }),
    ...(mine === true ? { mine } : {}),
  }))
    if (mine !== true || isOfSession(desk.kept.lease(job.jobId), job)) jobs.push(job);
  if (flags.json === true) return printJson({ jobs: jobs.map(jobFields), total: jobs.length });
  if (jobs.length === 0) return printLines("No claimed jobs");
  printLines(
    "Claimed Jobs:",
    ...rowsIn(
      jobs.map(({ jobId, owner: label, expiresInMs, progress }) => [
        jobId,
        shortOwner(label ?? ""),
        `expires in ${durationText(expiresInMs ?? 0)}${progress === null ? "" : `  ${progress}`}`,
      ]),
    ),
  );
}

const isOfSession = (kept: Kept | null, { claimed, token }: Job): boolean => claimed && kept?.token === token;

const jobFields = (job: Job): Record<string, unknown> => ({
  job_id: job.jobId,
  claimed: job.claimed,
  owner: job.owner,
  principal: job.principal,
  token: job.token,
  since_unix_ms: job.since?.getTime() ?? null,
  last_heartbeat_unix_ms: job.lastHeartbeatAt?.getTime() ?? null,
  expires_unix_ms: job.expiresAt?.getTime() ?? null,
  expires_in_ms: job.expiresInMs,
  attempts: job.attempts,
  progress: job.progress,
  metadata: job.metadata,
  ...(job.lastOutcome ? { last_outcome: job.lastOutcome } : {}),
});

/** What looks like a JSON object is one; anything else is text. */
function objectOrText(text: string): string | Record<string, unknown> {
  if (!text.trimStart().startsWith("{")) return text;
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    throw new CliError(`--metadata ${text}: begins as JSON, but is none`, exitCodes.usage);
  }
}
