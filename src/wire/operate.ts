/**
 * What people and machines that run Holdfast ask for: force release, who am I, audit, health, readiness.
 * Backup and metrics are streams and text, so they have no schema here.
 */
import Type, { type Static } from "typebox";
import { auditActions } from "../core/records.js";
import {
  choice,
  fencingToken,
  instant,
  nextCursor,
  nullable,
  paging,
  reply,
  request,
  type WireLimits,
} from "./fields.js";
import { Holder } from "./locks.js";
import { role } from "./tokens.js";

export function forceReleaseRequest(limits: WireLimits) {
  return request(
    "ForceReleaseRequest",
    {
      reason: Type.String({
        minLength: 1,
        maxLength: limits.reasonCharsMax,
        description: "Kept in the audit trail and told to the holder on its next call.",
      }),
    },
    { examples: [{ reason: "runner-7 is gone, see incident 311" }] },
  );
}
export type ForceReleaseRequest = Static<ReturnType<typeof forceReleaseRequest>>;

export const ForceReleased = reply("ForceReleased", {
  name: Type.String(),
  released: Type.Boolean({ description: "False: nobody held it, nothing changed." }),
  fencing_token: fencingToken,
  holder: nullable(Holder, "Who held it."),
});
export type ForceReleased = Static<typeof ForceReleased>;

export const WhoAmI = reply("WhoAmI", {
  principal: Type.String(),
  space: Type.String(),
  role,
  scopes: Type.Array(Type.String()),
  expires_at: nullable(instant, "When this bearer token expires."),
});
export type WhoAmI = Static<typeof WhoAmI>;

export function auditQuery(limits: WireLimits) {
  return request("AuditQuery", paging(limits));
}
export type AuditQuery = Static<ReturnType<typeof auditQuery>>;

export const AuditEntry = reply("AuditEntry", {
  id: Type.String(),
  at: instant,
  principal: Type.String({ description: "Who did it." }),
  action: choice(auditActions),
  subject: Type.String({ description: "What it was done to: a lock's or a token's name, or `policy`." }),
  reason: nullable(Type.String()),
  space: Type.String(),
  token: Type.Optional(nullable(fencingToken)),
});
export type AuditEntry = Static<typeof AuditEntry>;

export const AuditList = reply("AuditList", { records: Type.Array(AuditEntry), next_cursor: nextCursor });
export type AuditList = Static<typeof AuditList>;

export const Health = reply("Health", {
  status: Type.Literal("ok"),
  version: Type.Optional(Type.String()),
  engine: Type.Optional(Type.String()),
  late_ms: Type.Optional(
    Type.Integer({
      description:
        "Where several servers share a store: how much longer than its TTL a lease may last, in ms, while all is well. Absent: no longer.",
    }),
  ),
});
export type Health = Static<typeof Health>;

export const Ready = reply("Ready", { status: Type.Literal("ready") });
export type Ready = Static<typeof Ready>;
