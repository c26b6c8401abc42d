/** What `holdfast doctor` asks the server: is it there and ready, does it take the token, and does a lease work. */
import { randomUUID } from "node:crypto";
import type { Client } from "../../../client/client.js";
import { HoldfastError } from "../../../client/errors.js";
import type { WhoAmI } from "../../../client/replies.js";
import { exitCodeByCode } from "../explain.js";
import { exitCodes } from "../failure.js";
import { whyNoAnswer } from "../no-answer.js";
import { durationText } from "../output.js";
import { smallFetch } from "../small-fetch.js";
import { version } from "../version.js";
import { doubtful, type Finding, failed, fine, skipped } from "./finding.js";

const timeoutMs = 10_000;
/** The date in a reply is in whole seconds, and the reply took a while. */
const clockSlackMs = 2000;
const expirySoonMs = 7 * 86_400_000;

interface Heard {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
  /** The server's clock less this machine's, in ms; null where the reply has no date. */
  readonly aheadMs: number | null;
}

export async function checkServer(url: string): Promise<Finding[]> {
  const health = await ask(url, "/health");
  if (typeof health === "string")
    return [
      failed(
        "server",
        `no reply from ${url}: ${health}`,
        "start it, or name another with --server or HOLDFAST_URL",
        exitCodes.storage,
      ),
    ];
  const { status, body } = health;
  const details = String(body["details"] ?? `status ${status}`);
  if (status !== 200 || typeof body["version"] !== "string")
    return [
      body["code"] === "unavailable"
        ? failed(
            "store",
            details,
            "look at the server's log: its disk, data file or database is in trouble",
            exitCodes.storage,
          )
        : failed(
            "server",
            `${url} does not answer as a Holdfast server (${details})`,
            "check the address, its port and path, and whether a proxy or another program answers there",
            exitCodes.storage,
          ),
    ];
  return [
    checkVersion(url, body["version"]),
    fine("store", `the store answers (${String(body["engine"])})`),
    await checkReady(url),
    checkClock(health.aheadMs),
  ];
}

function checkVersion(url: string, theirs: string): Finding {
  if (theirs === version) return fine("server", `${url} answers, version ${theirs}`);
  return doubtful(
    "server",
    `${url} answers, version ${theirs}; this program is ${version}`,
    "use the same version on both sides",
  );
}

async function checkReady(url: string): Promise<Finding> {
  const ready = await ask(url, "/ready");
  if (typeof ready !== "string" && ready.status === 200) return fine("ready", "the server is ready");
  const why = typeof ready === "string" ? ready : String(ready.body["details"] ?? ready.status);
  return failed("ready", `not ready: ${why}`, "try again in a moment", exitCodes.storage);
}

/** Leases do not depend on it: durations are counted, on each side by its own clock. */
export function checkClock(aheadMs: number | null): Finding {
  if (aheadMs === null) return skipped("clock", "the reply has no date to compare with");
  const off = Math.abs(aheadMs);
  if (off <= clockSlackMs) return fine("clock", "this machine's clock agrees with the server's");
  return doubtful(
    "clock",
    `this machine's clock is ${durationText(off)} ${aheadMs > 0 ? "behind" : "ahead of"} the server's. Leases are safe: durations are counted, not compared`,
    "set the clock if you compare expires_at or since with this machine's time; use expires_in_ms instead",
  );
}

/** The reply, or why there is none. No token goes along. */
async function ask(url: string, path: string): Promise<Heard | string> {
  const askedAt = Date.now();
  try {
    const response = await smallFetch(url.replace(/\/+$/, "") + path, {
      signal: AbortSignal.timeout(timeoutMs),
    });
    const halfway = (askedAt + Date.now()) / 2;
    const date = Date.parse(response.headers.get("date") ?? "");
    const body = Object(await response.json().catch(() => null)) as Heard["body"];
    // A date of whole seconds is on average half a second old.
    return { status: response.status, body, aheadMs: Number.isNaN(date) ? null : date + 500 - halfway };
  } catch (error) {
    return whyNoAnswer(error);
  }
}

export async function checkToken(client: Client): Promise<{ finding: Finding; me: WhoAmI | null }> {
  try {
    const me = await client.whoami();
    return { finding: tokenFinding(me), me };
  } catch (error) {
    return {
      finding: refusalOf(
        "token",
        error,
        "set another HOLDFAST_TOKEN; where the server's data is, this makes one: holdfast token create --name ME --data DIR",
      ),
      me: null,
    };
  }
}

function tokenFinding({ principal, role, space, scopes, expiresAt }: WhoAmI): Finding {
  const who = `the token is ${principal}: ${role} in space ${space}, names ${scopes.join(" ")}`;
  if (expiresAt === null) return fine("token", `${who}, never expires`);
  const leftMs = expiresAt.getTime() - Date.now();
  const until = `${who}, expires ${expiresAt.toISOString()}`;
  if (leftMs > expirySoonMs) return fine("token", until);
  return doubtful("token", `${until} (in ${durationText(leftMs)})`, `holdfast token rotate ${principal}`);
}

/** A lease on a name of its own: taken, renewed, released. */
export async function checkLease(client: Client, { role }: WhoAmI): Promise<Finding> {
  if (role === "observer") return skipped("lease", "not tried: an observer's token may only look");
  const name = `doctor/${randomUUID()}`;
  const startedAt = performance.now();
  try {
    const taken = await client.locks.acquire(name, { ttl: 10, metadata: "holdfast doctor" });
    if (taken.status === "delayed")
      return doubtful("lease", `nothing is granted yet: ${taken.details}`, "wait until then");
    if (taken.status !== "acquired") throw new Error(`${name} is held by another`);
    await client.locks.renew(name, taken.leaseId);
    await client.locks.release(name, taken.leaseId);
  } catch (error) {
    if (error instanceof HoldfastError && error.code === "forbidden")
      return skipped("lease", `not tried: ${error.message}`);
    return refusalOf("lease", error, "look at the server's log");
  }
  const ms = Math.round(performance.now() - startedAt);
  return fine("lease", `a lease on ${name} was taken, renewed and released (${ms} ms)`);
}

function refusalOf(check: string, error: unknown, advice: string): Finding {
  const message = error instanceof Error ? error.message : String(error);
  const known = error instanceof HoldfastError ? exitCodeByCode[error.code] : undefined;
  const code = known ?? exitCodes.other;
  return failed(check, message, advice, code);
}
