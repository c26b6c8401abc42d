/** The rows of the route table under `/jobs`. */
import Type from "typebox";
import { ErrorBody } from "./errors.js";
import type { WireLimits } from "./fields.js";
import {
  ClaimAnyRefused,
  Claimed,
  ClaimRefused,
  claimAnyRequest,
  claimRequest,
  HeartbeatManyReply,
  HeartbeatReply,
  heartbeatManyRequest,
  heartbeatRequest,
  JobList,
  JobReleased,
  JobView,
  LeaseLost,
  listJobsQuery,
  releaseJobRequest,
} from "./jobs.js";
import { problem, type Replies, type Route } from "./route.js";

const sessionRefusals: Replies = {
  404: problem("`not_found`: the session is unknown or another's."),
  410: problem("`session_expired`."),
};

export function jobRoutes(limits: WireLimits): Route[] {
  return [
    {
      id: "claimJob",
      tag: "jobs",
      method: "POST",
      path: "/jobs/{id}/claim",
      summary: "Claim a job",
      description:
        "Makes the caller the job's one live owner, until released or until heartbeats stop for the TTL.",
      access: "worker",
      names: "path",
      load: "take",
      headers: ["Idempotency-Key"],
      body: claimRequest(limits),
      replies: {
        200: { description: "Claimed.", schema: Claimed },
        409: {
          description:
            "`held` or `delayed`, with the owner. `lease_lost`: the repeated request's lease is over.",
          schema: Type.Union([ClaimRefused, ErrorBody]),
        },
        ...sessionRefusals,
      },
    },
    {
      id: "claimAnyJob",
      tag: "jobs",
      method: "POST",
      path: "/jobs/claim",
      summary: "Claim the first free job of several",
      description: "Tries the candidates in order and grants at most one. Does not wait.",
      access: "worker",
      names: "candidates",
      load: "take",
      headers: ["Idempotency-Key"],
      body: claimAnyRequest(limits),
      replies: {
        200: { description: "Claimed; `job_id` says which.", schema: Claimed },
        409: {
          description:
            "`held`: none was free, with each candidate's owner. `delayed`: all wait out a delay. `lease_lost`: the repeated request's lease is over.",
          schema: Type.Union([ClaimAnyRefused, ErrorBody]),
        },
        ...sessionRefusals,
      },
    },
    {
      id: "heartbeatJob",
      tag: "jobs",
      method: "POST",
      path: "/jobs/{id}/heartbeat",
      summary: "Stay the owner",
      description: "Renews the claim and may report progress. After 409 stop the work: another may own it.",
      access: "worker",
      names: "path",
      load: "keep",
      body: heartbeatRequest(limits),
      replies: {
        200: { description: "Still yours.", schema: HeartbeatReply },
        409: {
          description: "`lease_lost`, with the current owner and how the lease ended.",
          schema: LeaseLost,
        },
      },
    },
    {
      id: "heartbeatJobs",
      tag: "jobs",
      method: "POST",
      path: "/jobs/heartbeat",
      summary: "Stay the owner of many jobs",
      description: "One request for all the leases of a worker, in as few writes as the engine allows.",
      access: "worker",
      names: "leases",
      load: "keep",
      body: heartbeatManyRequest(limits),
      replies: {
        200: { description: "Which are still yours and which are lost.", schema: HeartbeatManyReply },
      },
    },
    {
      id: "releaseJob",
      tag: "jobs",
      method: "POST",
      path: "/jobs/{id}/release",
      summary: "Release a job",
      description:
        "Ends the claim and may record how the work ended. Repeating it for the same lease succeeds.",
      access: "worker",
      names: "path",
      load: "keep",
      body: releaseJobRequest(limits),
      replies: {
        200: { description: "Released.", schema: JobReleased },
        409: { description: "`lease_lost`: another owns it.", schema: LeaseLost },
      },
    },
    {
      id: "getJob",
      tag: "jobs",
      method: "GET",
      path: "/jobs/{id}",
      summary: "Who owns a job",
      description:
        "Never 404 for a free job: `claimed` is false, and `last_outcome` says how the last run ended.",
      access: "observer",
      names: "path",
      load: "look",
      replies: { 200: { description: "The job as it is now.", schema: JobView } },
    },
    {
      id: "listJobs",
      tag: "jobs",
      method: "GET",
      path: "/jobs",
      summary: "List claimed jobs",
      description: "Claimed jobs that the token's scopes allow, by id, a page at a time.",
      access: "observer",
      names: "prefix",
      load: "look",
      query: listJobsQuery(limits),
      replies: { 200: { description: "One page.", schema: JobList } },
    },
  ];
}
