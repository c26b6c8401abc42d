/**
 * Locks: acquire, renew, extend, release, look, watch, check. Compatible with the lock API in the wild that this
 * one grew from, so "held" is an answer (200) and a release answers `null`.
 */
import Type, { type Static } from "typebox";
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

export function acquireRequest(limits: WireLimits) {
  return request(
    "AcquireRequest",
    {
      // No `default`: with a session and no TTL the lease lives as long as the session, and a validator that
      // fills in 60 would hide that none was given.
      ttl_seconds: Type.Optional(
        ttlSeconds(limits, "How long the lease lasts unless renewed. 60 if left out, without a session."),
      ),
      metadata: Type.Optional(
        Type.String({
          maxLength: limits.metadataCharsMax,
          description: "Shown to everybody who finds it held.",
        }),
      ),
      wait_seconds: Type.Optional(waitSeconds(limits)),
      session_id: Type.Optional(sessionId(limits)),
      request_id: Type.Optional(requestId(limits)),
      lease_id: Type.Optional(leaseId(limits)),
      lock_delay_seconds: Type.Optional(
        Type.Integer({
          minimum: 0,
          maximum: limits.lockDelaySecondsMax,
          default: 0,
          description:
            "If this lease ends other than by its release, nobody is granted the name for this long.",
        }),
      ),
      ephemeral: Type.Optional(
        Type.Boolean({
          description:
            "Accepted for compatibility; needs `session_id` and has no effect: leases of a session always end with it.",
        }),
      ),
    },
    { examples: [{ ttl_seconds: 60, metadata: "host=runner-7 build=1842" }] },
  );
}
export type AcquireRequest = Static<ReturnType<typeof acquireRequest>>;

export function renewRequest(limits: WireLimits) {
  return request(
    "RenewRequest",
    {
      lease_id: leaseId(limits),
      ttl_seconds: Type.Optional(
        ttlSeconds(limits, "The new TTL from now; may shorten. Left out: the lease's own, never shortening."),
      ),
    },
    { examples: [{ lease_id: "ls_4mZq", ttl_seconds: 120 }] },
  );
}
export type RenewRequest = Static<ReturnType<typeof renewRequest>>;

export function extendRequest(limits: WireLimits) {
  return request(
    "ExtendRequest",
    {
      lease_id: leaseId(limits),
      ttl_seconds: ttlSeconds(limits, "At least this long from now. Never shortens."),
    },
    { examples: [{ lease_id: "ls_4mZq", ttl_seconds: 3600 }] },
  );
}
export type ExtendRequest = Static<ReturnType<typeof extendRequest>>;

export function releaseRequest(limits: WireLimits) {
  return request("ReleaseRequest", { lease_id: leaseId(limits) }, { examples: [{ lease_id: "ls_4mZq" }] });
}
export type ReleaseRequest = Static<ReturnType<typeof releaseRequest>>;

export const CheckRequest = request(
  "CheckRequest",
  { fencing_token: fencingToken },
  { examples: [{ fencing_token: 42 }] },
);
export type CheckRequest = Static<typeof CheckRequest>;

export function listLocksQuery(limits: WireLimits) {
  return request("ListLocksQuery", {
    prefix: Type.Optional(prefixField(limits)),
    mine: Type.Optional(mineField),
    ...paging(limits),
  });
}
export type ListLocksQuery = Static<ReturnType<typeof listLocksQuery>>;

export function watchQuery(limits: WireLimits) {
  return request("WatchQuery", { prefix: Type.Optional(prefixField(limits)) });
}
export type WatchQuery = Static<ReturnType<typeof watchQuery>>;

/** Who holds a lock, as anyone may see it: never the lease id, and of the session only a short hash. */
export const Holder = reply("Holder", {
  principal: Type.String({ description: "The bearer token's name." }),
  session: nullable(Type.String(), "A short hash of the holder's session, never its id."),
  since: instant,
  owner: Type.Optional(
    Type.String({ description: "What the holder calls itself, where it claimed a job under a label." }),
  ),
});
export type Holder = Static<typeof Holder>;

export const Acquired = reply("Acquired", {
  status: Type.Literal("acquired"),
  name: Type.String(),
  lease_id: Type.String({ description: "Secret: whoever has it can renew and release." }),
  fencing_token: fencingToken,
  expires_at: instant,
  expires_in_ms: expiresInMs,
  renew_after_ms: durationMs,
  metadata: anyMetadata,
});
export type Acquired = Static<typeof Acquired>;

export const Held = reply("Held", {
  status: Type.Literal("held"),
  name: Type.String(),
  holder: Holder,
  holder_id: Type.String(),
  fencing_token: fencingToken,
  expires_at: instant,
  expires_in_ms: expiresInMs,
  retry_after_ms: retryAfterMs,
  metadata: anyMetadata,
  waiters: count,
  position: Type.Optional(
    Type.Integer({ minimum: 1, description: "This request's place among the waiters." }),
  ),
});
export type Held = Static<typeof Held>;

export const AcquireReply = Type.Union([Acquired, Held], { title: "AcquireReply" });
export type AcquireReply = Static<typeof AcquireReply>;

export const Delayed = reply("Delayed", {
  ...errorFields,
  status: Type.Literal("delayed"),
  available_at: instant,
  retry_after_ms: retryAfterMs,
});
export type Delayed = Static<typeof Delayed>;

const renewedFields = {
  lease_id: Type.String(),
  fencing_token: fencingToken,
  expires_at: instant,
  expires_in_ms: expiresInMs,
  renew_after_ms: durationMs,
};

export const Renewed = reply("Renewed", renewedFields);
export type Renewed = Static<typeof Renewed>;

export const Extended = reply("Extended", {
  ...renewedFields,
  capped: Type.Optional(Type.Boolean({ description: "True when the end of the session cut it short." })),
});
export type Extended = Static<typeof Extended>;

/** A release has nothing to tell. */
export const Released = Type.Null({ description: "`null`" });
export type Released = Static<typeof Released>;

export const LockView = reply("Lock", {
  name: Type.String(),
  status: choice(["free", "held"]),
  holder: nullable(Holder),
  holder_id: nullable(Type.String()),
  fencing_token: fencingToken,
  expires_at: nullable(instant),
  expires_in_ms: nullable(expiresInMs),
  metadata: anyMetadata,
  waiters: count,
  available_at: Type.Optional(
    nullable(instant, "A free lock cannot be taken before: a lock delay, or the wait after a restore."),
  ),
  previous: Type.Optional(nullable(PreviousHolder)),
});
export type LockView = Static<typeof LockView>;

export const LockList = reply("LockList", {
  locks: Type.Array(LockView, { description: "Held locks only." }),
  total: Type.Integer({ minimum: 0, description: "The number of rows on this page, not of all matches." }),
  prefix: nullable(Type.String()),
  next_cursor: nextCursor,
});
export type LockList = Static<typeof LockList>;

/** The `data:` of one server-sent event. A snapshot tells a lock as it is when the stream begins. */
export const LockEvent = reply("LockEvent", {
  event: choice(["snapshot", "acquired", "renewed", "released", "expired"]),
  name: Type.String(),
  lock_name: Type.String({ description: "The same as `name`." }),
  fencing_token: fencingToken,
  holder: nullable(Holder),
  expires_at: nullable(instant),
  observed_at: instant,
});
export type LockEvent = Static<typeof LockEvent>;

/** The resume point is too old: what came between is not known, and a new snapshot follows. */
export const ResetEvent = reply("ResetEvent", { event: Type.Literal("reset"), observed_at: instant });
export type ResetEvent = Static<typeof ResetEvent>;

/** The snapshot is complete; from here on the stream can be resumed. */
export const SyncedEvent = reply("SyncedEvent", { event: Type.Literal("synced"), observed_at: instant });
export type SyncedEvent = Static<typeof SyncedEvent>;

/** The server stops: connect again. */
export const ReconnectEvent = reply("ReconnectEvent", { event: Type.Literal("reconnect") });
export type ReconnectEvent = Static<typeof ReconnectEvent>;

export const WatchEvent = Type.Union([LockEvent, SyncedEvent, ResetEvent, ReconnectEvent], {
  title: "WatchEvent",
});
export type WatchEvent = Static<typeof WatchEvent>;

export const CheckReply = reply("CheckReply", {
  current: Type.Boolean({ description: "Whether the token sent is that of the live lease." }),
  fencing_token: fencingToken,
});
export type CheckReply = Static<typeof CheckReply>;
