/**
 * Bearer tokens: who may call, in which space, for which names. The secret is shown once, when the token is made
 * or rotated; the server keeps only its hash.
 */
import Type, { type Static } from "typebox";
import { choice, instant, nullable, reply, request, type WireLimits } from "./fields.js";

/** The roles a token can be made with. The operator's token comes from the server's own configuration. */
export const grantableRoles = ["worker", "observer", "admin"] as const;
export type GrantableRole = (typeof grantableRoles)[number];

export const role = choice(["observer", "worker", "admin", "operator"]);
export type WireRole = Static<typeof role>;

const plainWord = "^[A-Za-z0-9._-]+$";

export function createTokenRequest(limits: WireLimits) {
  return request(
    "CreateTokenRequest",
    {
      name: Type.String({
        minLength: 1,
        maxLength: limits.tokenNameCharsMax,
        pattern: plainWord,
        description: "The principal: who its leases are held by. Unique in its space.",
      }),
      role: Type.Optional(
        Type.Enum(grantableRoles, {
          type: "string",
          default: "worker",
          description: "observer: read; worker: also claim; admin: also force a release and manage tokens.",
        }),
      ),
      // An empty list would be a token that can name nothing, or read as "no restriction"; so there is none.
      scopes: Type.Optional(
        Type.Array(Type.String({ minLength: 1, maxLength: limits.scopeCharsMax }), {
          minItems: 1,
          maxItems: limits.scopesMax,
          default: ["*"],
          description: "Names it may touch; `*` matches any characters.",
        }),
      ),
      space: Type.Optional(
        Type.String({
          minLength: 1,
          maxLength: limits.tokenNameCharsMax,
          pattern: plainWord,
          description: "The caller's own if left out; only the operator may name another.",
        }),
      ),
      expires_in_seconds: Type.Optional(
        Type.Integer({
          minimum: 1,
          maximum: limits.tokenExpirySecondsMax,
          description: "Left out: until revoked.",
        }),
      ),
      reentrant: Type.Optional(
        Type.Boolean({
          default: false,
          description: "Callers with this token and the same metadata count as one holder.",
        }),
      ),
    },
    { examples: [{ name: "ci", role: "worker", scopes: ["deploy-*"] }] },
  );
}
export type CreateTokenRequest = Static<ReturnType<typeof createTokenRequest>>;

const tokenFields = {
  id: Type.String(),
  name: Type.String(),
  role,
  scopes: Type.Array(Type.String()),
  space: Type.String(),
  reentrant: Type.Boolean(),
  created_at: instant,
  expires_at: nullable(instant, "null: until revoked."),
};

export const TokenCreated = reply("TokenCreated", {
  ...tokenFields,
  token: Type.String({ description: "The bearer token itself, `hf_<id>_<secret>`. Shown this once." }),
});
export type TokenCreated = Static<typeof TokenCreated>;

export const TokenView = reply("Token", {
  ...tokenFields,
  created_by: Type.String(),
});
export type TokenView = Static<typeof TokenView>;

export const TokenList = reply("TokenList", { tokens: Type.Array(TokenView) });
export type TokenList = Static<typeof TokenList>;
