/**
 * What a server answers, answered here, from leases that this process asks a repository for: the same routes, fields,
 * codes and texts, so that every command works on both. No lease rule is here. What is no part of it (jobs, sessions,
 * bearer tokens, the work graph) is refused.
 */
import { createHash } from "node:crypto";
import { canonical } from "../../../core/canonical.js";
import type { Claim } from "../../../core/lease.js";
import { metadataCharsMax, policyDefault } from "../../../core/limits.js";
import type { Holding } from "../../../core/refusal.js";
import type { Pace, SoloLeases, SoloWait } from "../../../service/solo-leases.js";
import { type Answer, ok, problem, refuse } from "../../http/answer.js";
import { parsedName } from "../../http/call.js";
import type { Presenter } from "../../http/present.js";
import { type Asked, lockRefusal } from "../../http/refusals.js";
import type { Actor } from "./actor.js";
import { hashOfNonce, newNonce } from "./lease-ids.js";

/** Everything in a repository is one team's. */
export const space = "default";

/** In seconds, as at a server. */
const ttlDefault = 60;
const waitMax = 600;
const pageDefault = 100;

export interface Request {
  readonly method: string;
  /** Decoded. */
  readonly path: readonly string[];
  readonly query: URLSearchParams;
  readonly body: Readonly<Record<string, unknown>>;
  readonly signal: AbortSignal | undefined;
  /** The same when it is asked again because its outcome is not known. */
  readonly id: string;
}

export class Routes {
  /** Of waits that take several calls. */
  readonly #paces = new Map<string, Pace>();
  /** What the pages of one list are cut from: each look at a repository is a look at all of it. */
  #listed: { readonly prefix: string; readonly holdings: readonly Holding[] } | null = null;

  constructor(
    readonly leases: SoloLeases,
    readonly actor: Actor,
    readonly present: Presenter,
  ) {}

  async answer(request: Request): Promise<Answer> {
    const { method, path } = request;
    const [top, name, verb] = path;
    if (method === "GET" && top === "whoami") return this.#whoami();
    if (top !== "locks" || path.length > 3) return notHere(path);
    if (name === undefined) return method === "GET" ? this.#list(request) : notHere(path);
    if (verb === undefined) return method === "GET" ? this.#inspect(parsedName(name)) : notHere(path);
    if (method !== "POST") return notHere(path);
    const known = parsedName(name);
    switch (verb) {
      case "acquire":
        return this.#acquire(own(known), request);
      case "renew":
        return this.#renew(own(known), request.body);
      case "extend":
        return this.#extend(own(known), request.body);
      case "release":
        return this.#release(own(known), request);
      case "check":
        return this.#check(known, request.body);
      default:
        return notHere(path);
    }
  }

  #whoami(): Answer {
    return ok({ principal: this.actor.id, space, role: "worker", scopes: ["*"], expires_at: null });
  }

  async #acquire(name: string, { body, signal }: Request): Promise<Answer> {
    if (body["session_id"] !== undefined) return notHere(["sessions"]);
    const requestId = textOf(body, "request_id");
    const proof = textOf(body, "lease_id");
    const metadata = metadataOf(body);
    const ttlMs = ttlOf(body) ?? ttlDefault * 1000;
    const nonce = newNonce(this.actor.secret, name, requestId);
    const claim: Claim = {
      space,
      name,
      principal: this.actor.id,
      owner: null,
      metadata,
      ttlMs,
      ttlIsDefault: body["ttl_seconds"] === undefined,
      delayMs: Number(body["lock_delay_seconds"] ?? 0) * 1000,
      sessionId: null,
      leaseId: hashOfNonce(nonce),
      proof: proof === null ? null : hashOfNonce(proof),
      reentrant: false,
      request:
        requestId === null ? null : { id: requestId, fingerprint: fingerprintOf(name, ttlMs, metadata) },
    };
    const outcome = await this.leases.acquire(claim, this.#waitOf(body, requestId, signal));
    if ("refused" in outcome) return lockRefusal(outcome, this.#asked(name));
    if (requestId !== null) this.#paces.delete(requestId);
    const { granted } = outcome;
    const leaseId = [nonce, proof ?? nonce].find((known) => hashOfNonce(known) === granted.lock.lease.id);
    if (leaseId === undefined)
      throw new Error(`the lease that was granted on ${name} is not the one asked for`);
    return ok({ ...this.present.acquired(granted), lease_id: leaseId });
  }

  #waitOf(body: Request["body"], requestId: string | null, signal: AbortSignal | undefined): SoloWait | null {
    const seconds = Math.min(Number(body["wait_seconds"] ?? 0), waitMax);
    if (seconds === 0) return null;
    const pace = this.#paces.get(requestId ?? "") ?? { looks: 0, nextAt: 0 };
    if (requestId !== null) this.#paces.set(requestId, pace);
    return { ms: seconds * 1000, gone: signal ?? new AbortController().signal, pace };
  }

  async #renew(name: string, body: Request["body"]): Promise<Answer> {
    const { leaseId, call } = this.#caller(name, body);
    const outcome = await this.leases.renew({ ...call, ttlMs: ttlOf(body) });
    if ("refused" in outcome) return lockRefusal(outcome, this.#asked(name, call.leaseId));
    return ok({ ...this.present.renewed(outcome.renewed), lease_id: leaseId });
  }

  async #extend(name: string, body: Request["body"]): Promise<Answer> {
    const { leaseId, call } = this.#caller(name, body);
    const ttlMs = ttlOf(body) ?? refuse("invalid_input", "ttl_seconds is missing.");
    const outcome = await this.leases.extend({ ...call, ttlMs });
    if ("refused" in outcome) return lockRefusal(outcome, this.#asked(name, call.leaseId));
    const renewed = { ...this.present.renewed(outcome.renewed), lease_id: leaseId };
    return ok(outcome.capped ? { ...renewed, capped: true } : renewed);
  }

  async #release(name: string, { body, id }: Request): Promise<Answer> {
    const { call } = this.#caller(name, body);
    const release = { ...call, outcome: null, note: null, repeatable: false, call: id };
    const outcome = await this.leases.release(release);
    return "refused" in outcome ? lockRefusal(outcome, this.#asked(name, call.leaseId)) : ok(null);
  }

  async #check(name: string, body: Request["body"]): Promise<Answer> {
    const { token, holding } = await this.leases.inspect(space, name);
    const current = holding !== null && holding.lock.token === body["fencing_token"];
    return ok({ current, fencing_token: token });
  }

  async #inspect(name: string): Promise<Answer> {
    return ok(this.present.lock(name, await this.leases.inspect(space, name), 0));
  }

  async #list({ query }: Request): Promise<Answer> {
    const prefix = (query.get("prefix") ?? "").normalize("NFC");
    const isMine = ["true", "1"].includes(query.get("mine") ?? "");
    const limit = Number(query.get("limit") ?? pageDefault);
    const after = Buffer.from(query.get("cursor") ?? "", "base64url").toString();
    if (after === "" || this.#listed?.prefix !== prefix)
      this.#listed = { prefix, holdings: await this.leases.list(space, prefix) };
    const { holdings } = this.#listed;
    const seen = holdings.findIndex(({ lock }) => lock.name === after) + 1;
    const wanted = holdings
      .slice(seen)
      .filter(({ lock }) => !isMine || lock.lease.principal === this.actor.id);
    const page = wanted.slice(0, limit);
    const last = page.at(-1);
    return ok({
      locks: page.map((holding) => this.present.heldLock(holding, 0)),
      total: page.length,
      prefix: query.get("prefix"),
      next_cursor:
        wanted.length > limit && last !== undefined
          ? Buffer.from(last.lock.name).toString("base64url")
          : null,
    });
  }

  #caller(name: string, body: Request["body"]) {
    const leaseId = textOf(body, "lease_id") ?? refuse("invalid_input", "lease_id is missing.");
    return { leaseId, call: { space, name, principal: this.actor.id, leaseId: hashOfNonce(leaseId) } };
  }

  #asked(name: string, leaseId?: string): Asked {
    return { name, leaseId, waiters: 0, present: this.present };
  }
}

const notHere = (path: readonly string[]): Answer =>
  problem(
    "not_found",
    `A git repository keeps locks only: /${path[0]} needs a server. Start one with holdfast serve, or name one with --server.`,
    { status: 501 },
  );

/** Those of the work graph are no plain locks anywhere, so that a name means the same wherever it is used. */
function own(name: string): string {
  return name.startsWith("node:")
    ? refuse("forbidden", `${name} is a name of the work graph, which needs a server. Use another name.`)
    : name;
}

function textOf(body: Request["body"], field: string): string | null {
  const value = body[field];
  return typeof value === "string" && value !== "" ? value : null;
}

/** In ms; null where none was given. */
function ttlOf(body: Request["body"]): number | null {
  const given = body["ttl_seconds"];
  if (given === undefined) return null;
  const max = policyDefault.ttlMaxMs / 1000;
  const wrong = !Number.isInteger(given)
    ? "must be integer"
    : (given as number) < 1
      ? "must be at least 1"
      : (given as number) > max
        ? `must be at most ${max}`
        : null;
  return wrong === null
    ? (given as number) * 1000
    : refuse("invalid_ttl", `ttl_seconds ${wrong}: give a whole number of seconds within the bounds.`);
}

function metadataOf(body: Request["body"]): string | null {
  const text = textOf(body, "metadata");
  if (text !== null && [...text].length > metadataCharsMax)
    return refuse(
      "invalid_input",
      `metadata is too long: it must NOT have more than ${metadataCharsMax} characters.`,
      { status: 400 },
    );
  return text;
}

const fingerprintOf = (...parts: readonly unknown[]): string =>
  createHash("sha256")
    .update(canonical(["acquire", ...parts]))
    .digest("base64url");
