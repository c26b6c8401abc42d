/** What a run asks the service beside its workloads: who its bearer tokens are, whether they may work, what is left. */
import { VerifyError } from "../error.js";
import type { Terms } from "../history.js";
import { monotonicMs, sleep } from "./clock.js";
import type { Contact } from "./contact.js";
import type { Asked, Exchange, Heard } from "./exchange.js";
import type { Principal } from "./lab.js";

const timeoutMs = 10_000;

/** A bearer token, and what messages call it. */
export interface Bearer {
  readonly bearer: string;
  readonly called: string;
}

/** Asks who the bearer tokens are, that they are of one space, and tries each on a name below each prefix. */
export async function introduced(
  exchange: Exchange,
  url: string,
  bearers: readonly Bearer[],
  prefixes: readonly string[],
): Promise<Principal[]> {
  const principals: (Principal & { readonly called: string })[] = [];
  const spaces = new Map<string, string>();
  for (const { bearer, called } of bearers) {
    const { principal, space } = await whoami(exchange, url, bearer, called);
    principals.push({ name: principal, bearer, called });
    if (space !== null && !spaces.has(space)) spaces.set(space, called);
  }
  if (spaces.size > 1) {
    const which = [...spaces].map(([space, called]) => `${called} of ${JSON.stringify(space)}`).join(", ");
    throw new VerifyError(
      `the tokens are of different spaces (${which}), where the same name is another lock: use tokens of one space`,
      "refused",
    );
  }
  for (const principal of principals)
    for (const prefix of prefixes) await tryOut(exchange, url, principal, prefix);
  return principals.map(({ name, bearer }) => ({ name, bearer }));
}

/** Before a run begins: how long a service that has too much to do is asked again, and how often, in ms. */
const patienceMs = 10_000;
const askAgainMs = 250;

/** The reply, once it is one about the request: a service that is busy, or a proxy that cannot reach it, is asked again. */
async function asked(exchange: Exchange, url: string, bearer: string, request: Asked): Promise<Replied> {
  for (const until = monotonicMs() + patienceMs; ; ) {
    const heard = await exchange.ask(bearer, request, { timeoutMs });
    if (heard.kind !== "reply") throw unreached(url, heard.why);
    const { status, retryAfterMs } = heard;
    if (status !== 429 && status < 500) return heard;
    const pauseMs = Math.max(askAgainMs, retryAfterMs);
    if (monotonicMs() + pauseMs > until)
      throw new VerifyError(
        `${url} answers ${status} to ${request.method} ${request.path}${because(fieldsOf(heard).details)} Try again when it has less to do`,
        "unreachable",
      );
    await sleep(pauseMs);
  }
}

async function whoami(
  exchange: Exchange,
  url: string,
  bearer: string,
  called: string,
): Promise<{ readonly principal: string; readonly space: string | null }> {
  const heard = await asked(exchange, url, bearer, { method: "GET", path: "/whoami" });
  const { principal, space, code, details } = fieldsOf(heard);
  if (heard.status === 401)
    throw new VerifyError(`${url} refuses (401) ${called}${because(details)}`, "refused");
  if (heard.status < 300 && typeof principal === "string")
    return { principal, space: typeof space === "string" ? space : null };
  if (typeof code === "string" && heard.status !== 404)
    throw new VerifyError(`${url} refuses (${heard.status}) ${called}${because(details)}`, "refused");
  throw new VerifyError(
    `${url} is not a Holdfast server: GET /whoami answered ${heard.status}${heard.body === undefined ? " and no JSON" : ""}. Check the URL`,
    "refused",
  );
}

async function tryOut(
  exchange: Exchange,
  url: string,
  { bearer, name, called }: Principal & { readonly called: string },
  prefix: string,
): Promise<void> {
  const ask = async (path: string, body: object): Promise<Fields> => {
    const heard = await asked(exchange, url, bearer, { method: "POST", path, body });
    const fields = fieldsOf(heard);
    if (heard.status < 300) return fields;
    throw new VerifyError(
      `${url} refuses (${heard.status}) ${called} (${name})${because(fields.details)} A run needs a worker's token for names as ${prefix}*${prefix.includes(":") ? ", or leaves out the workload that uses them (--workloads)" : ""}`,
      "refused",
    );
  };
  const lock = `/locks/${encodeURIComponent(`${prefix}try`)}`;
  const { lease_id } = await ask(`${lock}/acquire`, { ttl_seconds: 1, wait_seconds: 3 });
  // Somebody's lease on all paths may stand in the way: the workload says so by what it does not reach.
  if (lease_id !== undefined) await ask(`${lock}/release`, { lease_id });
}

/** What the service states of itself: several servers that share a store have one clock between them, and one line. */
export async function termsOf(
  exchange: Exchange,
  url: string,
  { bearer }: Principal,
): Promise<Terms | undefined> {
  const { late_ms } = fieldsOf(await asked(exchange, url, bearer, { method: "GET", path: "/health" }));
  if (typeof late_ms !== "number" || late_ms <= 0) return undefined;
  return { lateMs: Math.min(late_ms, statedMaxMs), keepsTurns: true };
}

/** The most that a service may state of its own lateness, in ms: with more, nothing would be shown. */
const statedMaxMs = 2000;

interface Fields {
  readonly late_ms?: unknown;
  readonly principal?: unknown;
  readonly space?: unknown;
  readonly code?: unknown;
  readonly lease_id?: unknown;
  readonly details?: unknown;
  readonly locks?: unknown;
}

type Replied = Extract<Heard, { kind: "reply" }>;

const fieldsOf = ({ body }: Replied): Fields => (typeof body === "object" && body !== null ? body : {});

const because = (details: unknown): string => (typeof details === "string" ? `: ${details}` : ".");

/** Why there was no answer, for people. The code stays: it is what they look up. */
const hints: readonly (readonly [RegExp, string])[] = [
  [/ECONNREFUSED/, "Is it running?"],
  [/ENOTFOUND|EAI_AGAIN/, "Check the host's name."],
  [/WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|EPROTO/, "It does not speak TLS there: use http://"],
  [/ECONNRESET|HPE_/, "If it speaks TLS there, use https://"],
  [/SELF_SIGNED|UNABLE_TO_/, "Its certificate is not trusted: name its authority with NODE_EXTRA_CA_CERTS."],
];

export function unreached(url: string, why: string): VerifyError {
  const hint = hints.find(([pattern]) => pattern.test(why))?.[1] ?? "Is it running?";
  return new VerifyError(`cannot reach ${url}: ${why}. ${hint}`, "unreachable");
}

const lookAgainMs = 200;
/** A service that has not answered for long will hardly do so in time. */
const lookTimeoutMs = 3000;

export interface Leaving {
  readonly principal: Principal;
  readonly prefixes: readonly string[];
  readonly contact: Contact;
  /** Gives back what is known to be held, as far as it gets until then. */
  readonly letGo: (until: number) => Promise<void>;
  readonly withinMs: number;
}

/** Lets go, and looks until nothing below the prefixes is held or the time is up. Null: the service did not say. */
export async function emptied(exchange: Exchange, leaving: Leaving): Promise<readonly string[] | null> {
  const { prefixes, letGo } = leaving;
  const until = monotonicMs() + leaving.withinMs;
  for (;;) {
    await letGo(until);
    let left: string[] | null = [];
    let pauseMs = lookAgainMs;
    for (const prefix of prefixes) {
      const heard = await heldBelow(exchange, leaving, prefix);
      const names = namesIn(heard);
      left = left === null || names === null ? null : [...left, ...names];
      if (heard.kind === "reply") pauseMs = Math.max(pauseMs, heard.retryAfterMs);
    }
    if (left?.length === 0 || monotonicMs() > until) return left;
    await sleep(Math.min(pauseMs, Math.max(lookAgainMs, until - monotonicMs())));
  }
}

async function heldBelow(exchange: Exchange, leaving: Leaving, prefix: string): Promise<Heard> {
  const { name, bearer } = leaving.principal;
  const path = `/locks?prefix=${encodeURIComponent(prefix)}&limit=1000`;
  const began = monotonicMs();
  const heard = await exchange.ask(bearer, { method: "GET", path }, { timeoutMs: lookTimeoutMs });
  leaving.contact.note(heard, name, began);
  return heard;
}

function namesIn(heard: Heard): string[] | null {
  if (heard.kind !== "reply" || heard.status !== 200) return null;
  const { locks } = fieldsOf(heard);
  if (!Array.isArray(locks)) return null;
  return locks.map((lock: { readonly name?: unknown }) => String(lock.name));
}
