/** Handlers of /tokens, /audit and /whoami. */
import { afterPrefix } from "../../core/keys.js";
import type { TokenRefusal } from "../../core/token.js";
import { covers, hasRole } from "../../service/identity.js";
import type { TokenAct, TokenNameGiven } from "../../service/tokens.js";
import type { AuditQuery } from "../../wire/operate.js";
import type { CreateTokenRequest } from "../../wire/tokens.js";
import { type Answer, ok, problem, refuse } from "./answer.js";
import { type Call, type Handler, pageLimit } from "./call.js";
import { fromCursor, toCursor } from "./cursor.js";

const refusals: Readonly<Record<(TokenRefusal | TokenNameGiven)["refused"], () => Answer>> = {
  name_taken: () =>
    problem(
      "conflict",
      "A token of that name exists in this space: rotate it, revoke it, or choose another name.",
    ),
  name_given: () =>
    problem(
      "conflict",
      "A token of that name comes from the server's configuration: change it there, or choose another name.",
    ),
  token_unknown: () => problem("not_found", "There is no such token in this space. GET /tokens lists them."),
  too_many: () =>
    problem("conflict", "This server holds as many tokens as it may. Revoke some that are not used."),
};

/** A space is part of every key: a short plain word. */
const spacePattern = /^[A-Za-z0-9._-]{1,64}$/;

export const createToken: Handler = async (call) => {
  const body = call.body as CreateTokenRequest;
  const space = body.space ?? call.space;
  if (space !== call.space && !hasRole(call.identity, "operator"))
    return refuse(
      "forbidden",
      `This token acts in the space ${call.space} only; the operator's token may name another.`,
    );
  if (!spacePattern.test(space)) return refuse("invalid_input", "space must be 1 to 64 of A-Z a-z 0-9 . _ -");
  refuseWider(call, body.scopes ?? ["*"]);
  const reply = await call.desk.tokens.create(
    {
      name: body.name,
      space,
      role: body.role ?? "worker",
      scopes: body.scopes ?? ["*"],
      reentrant: body.reentrant ?? false,
      expiresInMs: body.expires_in_seconds === undefined ? null : body.expires_in_seconds * 1000,
    },
    actOf(call),
  );
  if ("refused" in reply) return refusals[reply.refused]();
  return { status: 201, body: { ...call.desk.present.token(reply.record), token: reply.token } };
};

/** Who may touch little must not get at more by way of a token it makes or renews. */
function refuseWider(call: Call, scopes: readonly string[]): void {
  const wider = scopes.find((scope) => !covers(call.identity, scope));
  if (wider !== undefined)
    refuse(
      "forbidden",
      `The scope ${wider} is wider than this token's own (${call.identity.scopes.join(" ")}). Ask an admin that covers it.`,
    );
}

export const listTokens: Handler = async (call) => {
  const records = await call.desk.tokens.list(call.space);
  return ok({ tokens: records.map((record) => call.desk.present.token(record)) });
};

const actOf = (call: Call): TokenAct => ({
  by: call.identity.principal,
  wallAt: call.desk.present.instants.wall(),
});

const tokenId = (call: Call): string => (call.request.params as { id: string }).id;

export const revokeToken: Handler = async (call) => {
  const reply = await call.desk.tokens.revoke(tokenId(call), call.space, actOf(call));
  return "refused" in reply ? refusals[reply.refused]() : { status: 204, body: undefined };
};

export const rotateToken: Handler = async (call) => {
  refuseWider(call, call.desk.tokens.scopesOf(tokenId(call), call.space) ?? []);
  const reply = await call.desk.tokens.rotate(tokenId(call), call.space, actOf(call));
  if ("refused" in reply) return refusals[reply.refused]();
  return ok({ ...call.desk.present.token(reply.record), token: reply.token });
};

export const whoami: Handler = async (call) => {
  const { principal, role, scopes, expiresAt } = call.identity;
  return ok({
    principal,
    space: call.space,
    role,
    scopes,
    expires_at: expiresAt === null ? null : call.desk.present.instants.text(expiresAt),
  });
};

/** Oldest first: a cursor then stays valid while new records come. */
export const listAudit: Handler = async (call) => {
  const query = call.query as AuditQuery;
  const limit = pageLimit(call, query.limit);
  const after = fromCursor(call, query.cursor);
  const prefix = `${call.space}/`;
  const rows = await call.desk.leases.store.list({
    index: "audit",
    from: after === null ? prefix : `${after}\u0000`,
    to: afterPrefix(prefix),
    limit,
  });
  const records = rows.flatMap(({ record }) => {
    if (record.kind !== "audit") return [];
    const { kind: _kind, gcAt: _gcAt, at, wallAt, ...fields } = record;
    // What was done when must not move with the clock that is there now.
    const when = wallAt === undefined ? call.desk.present.instants.text(at) : new Date(wallAt).toISOString();
    return [{ ...fields, at: when }];
  });
  return ok({
    records,
    next_cursor: rows.length === limit ? toCursor(call, rows.at(-1)?.sort ?? null) : null,
  });
};
