/**
 * Jobs: the words users think in (claim, heartbeat, owner, release) over the same leases as locks. A refused
 * claim is a 409 here, so that `curl -f` and shells can branch on it.
 */
import Type, { type Static } from "typebox";
import { errorCodes } from "./error-codes.js";
import { errorFields } from "./errors.js";
import {
  anyMetadata,
  choice,
  count,
  durationMs,
  expiresInMs,
  fencingToken,
  instant,
  leaseId,
  mineField,
  nameField,
  nextCursor,
  nullable,
  PreviousHolder,
  paging,
  prefixField,
  reply,
  request,
  requestId,
  retryAfterMs,
  sessionId,
  ttlSeconds,
  type WireLimits,
  waitSeconds,
} from "./fields.js";
import { Holder } from "./locks.js";

const outcomes = ["done", "failed", "abandoned"] as const;

/** What one claim and a claim among candidates have in common. */
function claimFields(limits: WireLimits) {
  return {
    owner: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: limits.ownerCharsMax,
        description:
          "A label for people, under the authenticated principal, which it defaults to. Never an identity.",
      }),
    ),
    // An object's size is its JSON's, which no schema keyword can bound; the face measures both kinds the same way.
    metadata: Type.Optional(
      Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.String()], {
        description: `Text or object, at most ${limits.metadataCharsMax} characters as JSON.`,
      }),
    ),
    ttl_seconds: Type.Optional(
      ttlSeconds(limits, "How long the claim lasts without a heartbeat. 120 if left out, without a session."),
    ),
    session_id: Type.Optional(sessionId(limits)),
    request_id: Type.Optional(requestId(limits)),
  };
}

export function claimRequest(limits: WireLimits) {
  return request(
    "ClaimRequest",
    { ...claimFields(limits), wait_seconds: Type.Optional(waitSeconds(limits)) },
    { examples: [{ owner: "agent-7", ttl_seconds: 120, metadata: { branch: "fix-1842" } }] },
  );
}
export type ClaimRequest = Static<ReturnType<typeof claimRequest>>;

export function claimAnyRequest(limits: WireLimits) {
  return request(
    "ClaimAnyRequest",
    {
      candidates: Type.Array(nameField(limits), {
        minItems: 1,
        maxItems: limits.candidatesMax,
        description: "Job ids, tried in this order.",
      }),
      ...claimFields(limits),
    },
    { examples: [{ candidates: ["issue-1842", "issue-1843"], owner: "agent-7" }] },
  );
}
export type ClaimAnyRequest = Static<ReturnType<typeof claimAnyRequest>>;

export function heartbeatRequest(limits: WireLimits) {
  return request(
    "HeartbeatRequest",
    {
      lease_id: leaseId(limits),
      ttl_seconds: Type.Optional(
        ttlSeconds(limits, "The new TTL from now; may shorten. Left out: the claim's own."),
      ),
      progress: Type.Optional(
        Type.String({
          maxLength: limits.progressCharsMax,
          description: "Replaces the last one; everybody may read it.",
        }),
      ),
    },
    { examples: [{ lease_id: "ls_4mZq", progress: "tests running" }] },
  );
}
export type HeartbeatRequest = Static<ReturnType<typeof heartbeatRequest>>;

export function heartbeatManyRequest(limits: WireLimits) {
  const lease = request("LeaseProof", { job_id: nameField(limits), lease_id: leaseId(limits) });
  return request(
    "HeartbeatManyRequest",
    { leases: Type.Array(lease, { maxItems: limits.bulkMax }) },
    { examples: [{ leases: [{ job_id: "issue-1842", lease_id: "ls_4mZq" }] }] },
  );
}
export type HeartbeatManyRequest = Static<ReturnType<typeof heartbeatManyRequest>>;

export function releaseJobRequest(limits: WireLimits) {
  return request(
    "ReleaseJobRequest",
    {
      lease_id: leaseId(limits),
      outcome: Type.Optional(choice(outcomes, "How the work ended; shown with the job.")),
      note: Type.Optional(Type.String({ maxLength: limits.noteCharsMax })),
    },
    { examples: [{ lease_id: "ls_4mZq", outcome: "done" }] },
  );
}
export type ReleaseJobRequest = Static<ReturnType<typeof releaseJobRequest>>;

export function listJobsQuery(limits: WireLimits) {
  return request("ListJobsQuery", {
    prefix: Type.Optional(prefixField(limits)),
    owner: Type.Optional(Type.String({ maxLength: limits.ownerCharsMax, description: "Only this owner's." })),
    mine: Type.Optional(mineField),
    ...paging(limits),
  });
}
export type ListJobsQuery = Static<ReturnType<typeof listJobsQuery>>;

export const Claimed = reply("Claimed", {
  job_id: Type.String(),
  claimed: Type.Literal(true),
  lease_id: Type.String({ description: "Secret: whoever has it can heartbeat and release." }),
  token: fencingToken,
  owner: Type.String(),
  metadata: anyMetadata,
  expires_at: instant,
  expires_in_ms: expiresInMs,
  heartbeat_after_ms: durationMs,
  attempts: Type.Integer({
    minimum: 1,
    description: "Grants since the last clean release, this one included.",
  }),
});
export type Claimed = Static<typeof Claimed>;

/** Who stands in the way. Null where nobody does: a lock delay has no owner. */
const refusedFields = {
  job_id: Type.String(),
  owner: nullable(Type.String()),
  metadata: anyMetadata,
  since: nullable(instant),
  expires_at: nullable(instant),
  expires_in_ms: nullable(expiresInMs),
};

export const ClaimRefused = reply("ClaimRefused", {
  ...errorFields,
  ...refusedFields,
  claimed: Type.Literal(false),
  retry_after_ms: retryAfterMs,
});
export type ClaimRefused = Static<typeof ClaimRefused>;

export const CandidateRefused = reply("CandidateRefused", {
  ...refusedFields,
  code: choice(errorCodes, "Why this one: `held` or `delayed`."),
  retry_after_ms: retryAfterMs,
  available_at: Type.Optional(nullable(instant, "Of a delayed one: when it can be taken.")),
});
export type CandidateRefused = Static<typeof CandidateRefused>;

export const ClaimAnyRefused = reply("ClaimAnyRefused", {
  ...errorFields,
  claimed: Type.Literal(false),
  candidates: Type.Array(CandidateRefused, {
    description: "In the order asked, each true when it was decided.",
  }),
});
export type ClaimAnyRefused = Static<typeof ClaimAnyRefused>;

export const HeartbeatReply = reply("HeartbeatReply", {
  job_id: Type.String(),
  lease_id: Type.String(),
  token: fencingToken,
  expires_at: instant,
  expires_in_ms: expiresInMs,
  heartbeat_after_ms: durationMs,
});
export type HeartbeatReply = Static<typeof HeartbeatReply>;

/** What a worker needs to know when it no longer owns its job: who does, and how its own lease ended. */
const lostFields = {
  job_id: Type.String(),
  owner: Type.Optional(nullable(Type.String(), "The current owner, if any.")),
  holder: Type.Optional(nullable(Holder, "Who that is, where anybody is.")),
  expires_at: Type.Optional(nullable(instant, "Until when the current owner has it, unless renewed.")),
  previous: Type.Optional(
    nullable(PreviousHolder, "How the lease ended; after a force release also who and why."),
  ),
};

export const LeaseLost = reply("LeaseLost", { ...errorFields, ...lostFields });
export type LeaseLost = Static<typeof LeaseLost>;

export const LostLease = reply("LostLease", {
  ...lostFields,
  lease_id: Type.String(),
  code: choice(errorCodes),
  details: Type.String(),
});
export type LostLease = Static<typeof LostLease>;

export const HeartbeatManyReply = reply("HeartbeatManyReply", {
  renewed: Type.Array(HeartbeatReply),
  lost: Type.Array(LostLease, { description: "Stop this work; each says why." }),
});
export type HeartbeatManyReply = Static<typeof HeartbeatManyReply>;

export const JobReleased = reply("JobReleased", { job_id: Type.String(), released: Type.Literal(true) });
export type JobReleased = Static<typeof JobReleased>;

export const JobOutcome = reply("JobOutcome", {
  outcome: choice(outcomes),
  note: nullable(Type.String()),
  at: instant,
});
export type JobOutcome = Static<typeof JobOutcome>;

export const JobView = reply("Job", {
  job_id: Type.String(),
  claimed: Type.Boolean(),
  owner: nullable(Type.String()),
  principal: nullable(Type.String()),
  metadata: anyMetadata,
  progress: nullable(Type.String()),
  since: nullable(instant),
  last_heartbeat_at: nullable(instant),
  expires_at: nullable(instant),
  expires_in_ms: nullable(expiresInMs),
  token: fencingToken,
  attempts: count,
  last_outcome: Type.Optional(nullable(JobOutcome)),
  previous: Type.Optional(nullable(PreviousHolder)),
});
export type JobView = Static<typeof JobView>;

export const JobList = reply("JobList", { jobs: Type.Array(JobView), next_cursor: nextCursor });
export type JobList = Static<typeof JobList>;
