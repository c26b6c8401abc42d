/** What a run asks the service beside its workloads: who its bearer tokens are, whether they may work, what is left. */
import { monotonicMs, sleep } from "./clock.js";
import type { Exchange, Heard } from "./exchange.js";
import type { Principal } from "./lab.js";

/** The run cannot begin. */
export class VerifyError extends Error {
  override readonly name = "VerifyError";
  constructor(
    message: string,
    readonly kind: "unreachable" | "refused",
  ) {
    super(message);
  }
}

const timeoutMs = 10_000;

/** Asks who a bearer token is, and tries it on a name below the prefix. */
export async function introduced(
  exchange: Exchange,
  url: string,
  bearer: string,
  prefix: string,
): Promise<Principal> {
  const ask = async (method: "GET" | "POST", path: string, body?: object): Promise<Fields> =>
    fieldsOf(await exchange.ask(bearer, { method, path, ...(body && { body }) }, { timeoutMs }), url, prefix);
  const { principal } = await ask("GET", "/whoami");
  const lock = `/locks/${encodeURIComponent(`${prefix}try`)}`;
  const { lease_id } = await ask("POST", `${lock}/acquire`, { ttl_seconds: 1, wait_seconds: 3 });
  await ask("POST", `${lock}/release`, { lease_id });
  if (typeof principal === "string") return { name: principal, bearer };
  throw new VerifyError(
    `${url} does not answer as a lock service does: /whoami names no principal`,
    "refused",
  );
}

interface Fields {
  readonly principal?: unknown;
  readonly lease_id?: unknown;
  readonly details?: unknown;
  readonly locks?: unknown;
}

function fieldsOf(heard: Heard, url: string, prefix: string): Fields {
  if (heard.kind !== "reply")
    throw new VerifyError(`cannot reach ${url}: ${heard.why}. Is it running?`, "unreachable");
  const fields: Fields = typeof heard.body === "object" && heard.body !== null ? heard.body : {};
  if (heard.status < 300) return fields;
  const details = typeof fields.details === "string" ? fields.details : "no more is said";
  throw new VerifyError(
    `${url} refuses (${heard.status}): ${details} A run needs a worker's token for names as ${prefix}*`,
    "refused",
  );
}

/** Names below the prefix that are held; null where the service does not say. */
async function namesLeft(exchange: Exchange, bearer: string, prefix: string): Promise<string[] | null> {
  const path = `/locks?prefix=${encodeURIComponent(prefix)}&limit=1000`;
  const heard = await exchange.ask(bearer, { method: "GET", path }, { timeoutMs });
  if (heard.kind !== "reply" || heard.status !== 200) return null;
  const { locks } = heard.body as { locks: readonly { readonly name: string }[] };
  return locks.map(({ name }) => name);
}

const lookAgainMs = 200;

/** Lets go, and looks until nothing below the prefix is held or the time is up. Returns what is left. */
export async function emptied(
  exchange: Exchange,
  bearer: string,
  prefix: string,
  letGo: () => Promise<void>,
  withinMs: number,
): Promise<readonly string[] | null> {
  for (const until = monotonicMs() + withinMs; ; await sleep(lookAgainMs)) {
    await letGo();
    const left = await namesLeft(exchange, bearer, prefix);
    if (left?.length === 0 || monotonicMs() > until) return left;
  }
}
