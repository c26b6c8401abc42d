/** Handlers of /jobs: the words users think in, over the same leases. */
import type { Claim } from "../../core/lease.js";
import type { Metadata } from "../../core/records.js";
import type { Refusal } from "../../core/refusal.js";
import { mayTouch } from "../../service/identity.js";
import type {
  ClaimAnyRequest,
  ClaimRequest,
  HeartbeatManyRequest,
  HeartbeatRequest,
  ListJobsQuery,
  ReleaseJobRequest,
} from "../../wire/jobs.js";
import { type Answer, ok, problem, refuse } from "./answer.js";
import { type Call, type Handler, nameOf, pageLimit, pathName, requestOf } from "./call.js";
import { fromCursor, toCursor } from "./cursor.js";
import { acquire, asked, caller, defaultTtl, isTrue, newLeaseId } from "./locks.js";
import { ownerOf } from "./present.js";
import { jobRefusal, reasonsOf, withinSight } from "./refusals.js";

const ttlDefaultMs = 120_000;

function claimOf(
  call: Call,
  body: ClaimRequest | ClaimAnyRequest,
  name: string,
  request: Claim["request"],
): Claim {
  const sessionId = body.session_id ?? null;
  return {
    space: call.space,
    name,
    principal: call.identity.principal,
    owner: body.owner ?? null,
    metadata: metadataOf(call, body.metadata),
    ttlMs:
      body.ttl_seconds === undefined
        ? sessionId === null
          ? defaultTtl(call, ttlDefaultMs)
          : null
        : body.ttl_seconds * 1000,
    ttlIsDefault: body.ttl_seconds === undefined,
    delayMs: 0,
    sessionId,
    leaseId: newLeaseId(),
    proof: null,
    reentrant: call.identity.reentrant,
    request,
  };
}

/** An object counts as its JSON, in code points as text does. */
function metadataOf(call: Call, metadata: ClaimRequest["metadata"]): Metadata {
  if (metadata === undefined) return null;
  const max = call.desk.limits.metadataCharsMax;
  const text = typeof metadata === "string" ? metadata : jsonOf(metadata);
  if (text === null || (text.length > max && [...text].length > max))
    return refuse(
      "invalid_input",
      `metadata is longer than ${max} characters${typeof metadata === "string" ? "" : " as JSON"}: keep it small, link to the rest.`,
      { status: 400 },
    );
  return metadata as Metadata;
}

/** Null when it is nested deeper than the machine can write; that is far beyond what may be kept. */
function jsonOf(value: object): string | null {
  try {
    return JSON.stringify(value);
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}

const printOf = (call: Call, body: ClaimRequest | ClaimAnyRequest): unknown[] => [
  body.ttl_seconds ?? null,
  body.owner ?? null,
  metadataOf(call, body.metadata),
  body.session_id ?? null,
];

export const claimJob: Handler = async (call) => {
  const body = call.body as ClaimRequest;
  const name = pathName(call, "write");
  const request = requestOf(call, body.request_id, ["claim", name, ...printOf(call, body)]);
  const claim = claimOf(call, body, name, request);
  return acquire(
    call,
    claim,
    body.wait_seconds ?? 0,
    (granted) => ok(call.desk.present.claimed(granted)),
    jobRefusal,
  );
};

export const claimAnyJob: Handler = async (call) => {
  const body = call.body as ClaimAnyRequest;
  const names = [...new Set(body.candidates.map((raw) => nameOf(call, raw, "write")))];
  const request = requestOf(call, body.request_id, ["claim-any", names, ...printOf(call, body)]);
  const claims = names.map((name) => claimOf(call, body, name, request));
  const { granted, refusals } = await call.desk.leases.acquireFirst(claims);
  if (granted !== null) return ok(call.desk.present.claimed(granted.granted));
  const general = refusals.find(({ refusal }) => !isInTheWay(refusal));
  if (general !== undefined) return jobRefusal(general.refusal, asked(call, general.name));
  return noneFree(call, refusals);
};

const isInTheWay = (refusal: Refusal): boolean =>
  refusal.refused === "held" ||
  refusal.refused === "delayed" ||
  refusal.refused === "queued" ||
  refusal.refused === "overlap_too_wide";

/** Each candidate's owner, as each was when it was decided. */
function noneFree(
  call: Call,
  refusals: readonly { readonly name: string; readonly refusal: Refusal }[],
): Answer {
  const candidates = refusals.map(({ name, refusal: decided }) => {
    const refusal = withinSight(decided, name, (other) => mayTouch(call.identity, other));
    const { body, retryAfterMs } = jobRefusal(refusal, asked(call, name));
    const { code, available_at } = body as { code: string; available_at?: string };
    const holding = refusal.refused === "held" ? refusal.holding : null;
    return {
      ...call.desk.present.inTheWay(name, holding),
      code,
      retry_after_ms: retryAfterMs ?? 0,
      ...(available_at === undefined ? {} : { available_at }),
    };
  });
  const more = {
    extra: { claimed: false, candidates },
    retryAfterMs: Math.min(...candidates.map((candidate) => candidate.retry_after_ms)),
  };
  const [none, later] = [`None of the ${candidates.length} candidates`, "Try others, or again later."];
  const delays = refusals.flatMap(({ refusal }) => (refusal.refused === "delayed" ? [refusal.why] : []));
  return delays.length === refusals.length
    ? problem("delayed", `${none} can be taken yet: ${reasonsOf(delays)}. ${later}`, more)
    : problem("held", `${none} is free. ${later}`, more);
}

export const heartbeatJob: Handler = async (call) => {
  const body = call.body as HeartbeatRequest;
  const name = pathName(call, "write");
  const outcome = await call.desk.leases.renew({
    ...caller(call, name, body.lease_id),
    ttlMs: body.ttl_seconds === undefined ? null : body.ttl_seconds * 1000,
    ...(body.progress === undefined ? {} : { progress: body.progress }),
  });
  if ("refused" in outcome) return jobRefusal(outcome, asked(call, name, body.lease_id));
  return ok(call.desk.present.beaten(outcome.renewed));
};

export const heartbeatJobs: Handler = async (call) => {
  const { leases } = call.body as HeartbeatManyRequest;
  const calls = leases.map(({ job_id, lease_id }) => ({
    ...caller(call, nameOf(call, job_id, "write"), lease_id),
    ttlMs: null,
  }));
  const outcomes = calls.length === 0 ? [] : await call.desk.leases.renewMany(calls);
  const renewed: object[] = [];
  const lost: object[] = [];
  for (const [i, outcome] of outcomes.entries()) {
    const { name = "", leaseId = "" } = calls[i] ?? {};
    if (!("refused" in outcome)) renewed.push(call.desk.present.beaten(outcome.renewed));
    else {
      const { error: _, ...body } = jobRefusal(outcome, asked(call, name, leaseId)).body as { error: string };
      lost.push({ ...body, job_id: name, lease_id: leaseId });
    }
  }
  return ok({ renewed, lost });
};

export const releaseJob: Handler = async (call) => {
  const body = call.body as ReleaseJobRequest;
  const name = pathName(call, "write");
  const outcome = await call.desk.leases.release({
    ...caller(call, name, body.lease_id),
    outcome: body.outcome ?? null,
    note: body.note ?? null,
    repeatable: true,
  });
  if ("refused" in outcome) return jobRefusal(outcome, asked(call, name, body.lease_id));
  return ok({ job_id: name, released: true });
};

export const getJob: Handler = async (call) => {
  const name = pathName(call, "read");
  const { lock, holding, token } = await call.desk.leases.inspect(call.space, name);
  return ok(call.desk.present.job(name, lock, holding, token));
};

export const listJobs: Handler = async (call) => {
  const query = call.query as ListJobsQuery;
  const mine = isTrue(query.mine);
  const page = await call.desk.leases.list({
    space: call.space,
    prefix: (query.prefix ?? "").normalize("NFC"),
    after: fromCursor(call, query.cursor),
    limit: pageLimit(call, query.limit),
    accept: ({ name, lease }) =>
      lease !== null &&
      mayTouch(call.identity, name) &&
      (!mine || lease.principal === call.identity.principal) &&
      (query.owner === undefined || ownerOf(lease) === query.owner),
  });
  const jobs = page.holdings.map((holding) =>
    call.desk.present.job(holding.lock.name, holding.lock, holding, holding.lock.token),
  );
  return ok({ jobs, next_cursor: toCursor(call, page.next) });
};
