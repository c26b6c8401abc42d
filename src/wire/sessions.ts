/**
 * Sessions: one run of a worker. All leases bound to a session live and end with it, so that one keepalive
 * renews them all.
 */
import Type, { type Static } from "typebox";
import { count, expiresInMs, instant, reply, request, type WireLimits } from "./fields.js";

export function createSessionRequest(limits: WireLimits) {
  return request(
    "CreateSessionRequest",
    {
      ttl_seconds: Type.Optional(
        Type.Integer({
          minimum: limits.sessionTtlSecondsMin,
          maximum: limits.sessionTtlSecondsMax,
          default: 60,
          description: "How long the session lives without a keepalive.",
        }),
      ),
      metadata: Type.Optional(Type.String({ maxLength: limits.metadataCharsMax })),
    },
    { examples: [{ ttl_seconds: 60, metadata: "host=runner-7" }] },
  );
}
export type CreateSessionRequest = Static<ReturnType<typeof createSessionRequest>>;

export const SessionCreated = reply("SessionCreated", {
  session_id: Type.String({ description: "Secret, like a lease id." }),
  expires_at: instant,
  expires_in_ms: expiresInMs,
  keepalive_interval_secs: Type.Number({ exclusiveMinimum: 0, description: "Send a keepalive this often." }),
});
export type SessionCreated = Static<typeof SessionCreated>;

export const KeepaliveReply = reply("KeepaliveReply", {
  session_id: Type.String(),
  expires_at: instant,
  expires_in_ms: expiresInMs,
  leases: Type.Integer({ minimum: 0, description: "How many leases this kept alive." }),
});
export type KeepaliveReply = Static<typeof KeepaliveReply>;

export const SessionView = reply("Session", {
  session_id: Type.String(),
  principal: Type.String(),
  expires_at: instant,
  lock_count: count,
  active: Type.Boolean(),
});
export type SessionView = Static<typeof SessionView>;
