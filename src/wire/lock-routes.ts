/** The rows of the route table under `/locks` and `/watch`. */
import Type from "typebox";
import { ErrorBody } from "./errors.js";
import type { WireLimits } from "./fields.js";
import {
  AcquireReply,
  acquireRequest,
  CheckReply,
  CheckRequest,
  Delayed,
  Extended,
  extendRequest,
  LockList,
  LockView,
  listLocksQuery,
  Released,
  Renewed,
  releaseRequest,
  renewRequest,
  WatchEvent,
  watchQuery,
} from "./locks.js";
import { ForceReleased, forceReleaseRequest } from "./operate.js";
import { problem, type Replies, type Route } from "./route.js";

const notCurrent: Replies = {
  400: problem(
    "`lease_not_current`: another lease or principal holds it; `holder` and `expires_at` say who and until when. Also `invalid_ttl`, `invalid_input`.",
  ),
  404: problem("`lease_not_current`: the lock is free, or the lease expired."),
};

const events: Replies = {
  200: {
    description:
      "Server-sent events, each with `event:` and `id:` lines and the JSON below as `data:`. First a snapshot, then changes; a comment every 15 s; `reset` when the resume point is too old.",
    schema: WatchEvent,
    contentType: "text/event-stream",
  },
};

export function lockRoutes(limits: WireLimits): Route[] {
  return [
    {
      id: "acquireLock",
      tag: "locks",
      method: "POST",
      path: "/locks/{name}/acquire",
      summary: "Acquire a lock, or learn who holds it",
      description:
        "Grants a free name to the caller. A held name is an answer, not an error: 200 with `status` `held`. The same lease comes back only on proof: the same request id, `lease_id` or `session_id`.",
      access: "worker",
      names: "path",
      load: "take",
      headers: ["Idempotency-Key"],
      body: acquireRequest(limits),
      replies: {
        200: { description: "`acquired`, or `held` with the holder.", schema: AcquireReply },
        404: problem("`not_found`: the session is unknown or another's."),
        409: {
          description:
            "`delayed`: its lock delay is under way. `lease_lost`: the repeated request's lease is over.",
          schema: Type.Union([Delayed, ErrorBody]),
        },
        410: problem("`session_expired`."),
      },
    },
    {
      id: "renewLock",
      tag: "locks",
      method: "POST",
      path: "/locks/{name}/renew",
      summary: "Renew a lease",
      description:
        "Moves the expiry to now + TTL, never back unless `ttl_seconds` says so. Keeps the fencing token. Never revives a lease that is over.",
      access: "worker",
      names: "path",
      load: "keep",
      body: renewRequest(limits),
      replies: { 200: { description: "Renewed.", schema: Renewed }, ...notCurrent },
    },
    {
      id: "extendLock",
      tag: "locks",
      method: "POST",
      path: "/locks/{name}/extend",
      summary: "Lengthen a lease",
      description:
        "As renew, but only ever lengthens, up to the policy's maximum, and says when it was capped.",
      access: "worker",
      names: "path",
      load: "keep",
      body: extendRequest(limits),
      replies: { 200: { description: "Extended.", schema: Extended }, ...notCurrent },
    },
    {
      id: "releaseLock",
      tag: "locks",
      method: "POST",
      path: "/locks/{name}/release",
      summary: "Release a lease",
      description: "Frees the name and grants it to the first waiter in the same step.",
      access: "worker",
      names: "path",
      load: "keep",
      body: releaseRequest(limits),
      replies: { 200: { description: "Released.", schema: Released }, ...notCurrent },
    },
    {
      id: "getLock",
      tag: "locks",
      method: "GET",
      path: "/locks/{name}",
      summary: "Look at a lock",
      description:
        "A free name is 200 too, with the last fencing token granted (0 if never) and how its last lease ended.",
      access: "observer",
      names: "path",
      load: "look",
      replies: { 200: { description: "The lock as it is now.", schema: LockView } },
    },
    {
      id: "listLocks",
      tag: "locks",
      method: "GET",
      path: "/locks",
      summary: "List held locks",
      description: "Held locks that the token's scopes allow, by name, a page at a time.",
      access: "observer",
      names: "prefix",
      load: "look",
      query: listLocksQuery(limits),
      replies: { 200: { description: "One page.", schema: LockList } },
    },
    {
      id: "watchLock",
      tag: "locks",
      method: "GET",
      path: "/locks/{name}/watch",
      summary: "Watch one lock",
      description: "A stream of what happens to this name, from its state now or from `Last-Event-ID` on.",
      access: "observer",
      names: "path",
      load: "look",
      headers: ["Last-Event-ID"],
      replies: events,
    },
    {
      id: "watchLocks",
      tag: "locks",
      method: "GET",
      path: "/watch",
      summary: "Watch all locks below a prefix",
      description:
        "A stream of what happens to the names that start with `prefix` and that the token's scopes allow.",
      access: "observer",
      names: "prefix",
      load: "look",
      headers: ["Last-Event-ID"],
      query: watchQuery(limits),
      replies: events,
    },
    {
      id: "checkLock",
      tag: "locks",
      method: "POST",
      path: "/locks/{name}/check",
      summary: "Check a fencing token",
      description:
        "For resources that want to ask whether a token is still that of the live lease. Better: remember the highest token seen and refuse a lower one.",
      access: "observer",
      names: "path",
      load: "look",
      body: CheckRequest,
      replies: {
        200: { description: "Whether it is current, and the last token granted.", schema: CheckReply },
      },
    },
    {
      id: "forceReleaseLock",
      tag: "locks",
      method: "DELETE",
      path: "/locks/{name}",
      summary: "Force a release",
      description: "Ends another's lease. Audited; the holder's next call says who did it and why.",
      access: "admin",
      names: "path",
      load: "operate",
      body: forceReleaseRequest(limits),
      replies: { 200: { description: "Done, or there was nothing to end.", schema: ForceReleased } },
    },
  ];
}
