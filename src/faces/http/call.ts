/** One HTTP call as handlers see it: authenticated, its name parsed and allowed, its body validated. */
import { createHash } from "node:crypto";
import type { FastifyReply, FastifyRequest } from "fastify";
import { canonical } from "../../core/canonical.js";
import { parseName } from "../../core/names.js";
import { nodeIdOf } from "../../core/nodes/node.js";
import { type Identity, mayTouch } from "../../service/identity.js";
import type { Leases } from "../../service/leases.js";
import type { Nodes } from "../../service/nodes.js";
import type { Tokens } from "../../service/tokens.js";
import type { WireLimits } from "../../wire/fields.js";
import type { Answer } from "./answer.js";
import { refuse } from "./answer.js";
import type { PageRoom } from "./page-room.js";
import type { Presenter } from "./present.js";

/** What the handlers work with. */
export interface Desk {
  readonly leases: Leases;
  readonly nodes: Nodes;
  readonly tokens: Tokens;
  readonly present: Presenter;
  readonly limits: WireLimits;
  readonly pages: PageRoom;
  readonly version: string;
}

export interface Call<Body = unknown, Query = unknown> {
  readonly desk: Desk;
  readonly identity: Identity;
  /** The space the call acts in: the token's own, or the one an operator names. */
  readonly space: string;
  readonly body: Body;
  readonly query: Query;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
}

/** Answers, or writes its own reply and returns null. */
export type Handler = (call: Call) => Promise<Answer | null>;

/** What is done to a name: a node's lease is the work graph's to change, but an admin may end any. */
export type NameUse = "read" | "write" | "force";

/** Parses a name and checks that this token may touch it. */
export function nameOf(call: Call, raw: string, use: NameUse): string {
  const name = parsedName(raw);
  if (!mayTouch(call.identity, name))
    return refuse(
      "forbidden",
      `The scopes of this token (${call.identity.scopes.join(" ")}) do not cover ${name}. Ask an admin for one that does.`,
    );
  const node = nodeIdOf(name);
  if (use === "write" && node !== null)
    return refuse(
      "forbidden",
      `${name} is the lease of a node of the work graph. Here it can be read and watched; take it with POST /v1/nodes/${node}/claim, and then renew and release it there.`,
    );
  return name;
}

/** In its one normal form, or refused. */
export function parsedName(raw: string): string {
  const parsed = parseName(raw);
  return "invalid" in parsed ? refuse("invalid_lock_name", `${shown(raw)}: ${parsed.invalid}.`) : parsed.name;
}

/** The name in the path. */
export const pathName = (call: Call, use: NameUse): string =>
  nameOf(
    call,
    (call.request.params as { name?: string; id?: string }).name ??
      (call.request.params as { id?: string }).id ??
      "",
    use,
  );

/** A name in a message: short, and harmless on a terminal. */
const shown = (raw: string): string => JSON.stringify(raw.length > 80 ? `${raw.slice(0, 80)}…` : raw);

/** Request id from the header or the body, with what must be the same when it comes again. */
export function requestOf(
  call: Call,
  bodyId: string | undefined,
  fingerprint: readonly unknown[],
): { id: string; fingerprint: string } | null {
  const header = call.request.headers["idempotency-key"];
  const key = Array.isArray(header) ? header[0] : header;
  if (key !== undefined && bodyId !== undefined && key !== bodyId)
    return refuse(
      "invalid_input",
      "Idempotency-Key and request_id differ: send one of them, or the same in both.",
    );
  const id = bodyId ?? key;
  if (id === undefined) return null;
  if (!/^[ -~]{1,128}$/.test(id))
    return refuse("invalid_input", "Idempotency-Key must be 1 to 128 printable ASCII characters.");
  return { id, fingerprint: createHash("sha256").update(canonical(fingerprint)).digest("base64url") };
}

const pageDefault = "100";

/** Page size from a query, with room taken for such a page; the schema has checked that it is digits. */
export function pageLimit(call: Call, text: string = pageDefault): number {
  const limit = Number(text);
  const { limits, pages } = call.desk;
  if (limit < 1 || limit > limits.pageMax)
    return refuse("invalid_input", `limit must be 1 to ${limits.pageMax}.`);
  pages.take(call.identity, limit, call.reply);
  return limit;
}
