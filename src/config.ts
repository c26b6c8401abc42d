/**
 * What an operator can set: flags first, then the environment, then the default. Every value is checked here,
 * with a message that names where it came from.
 */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { type Policy, policyDefault } from "./core/limits.js";
import { nearest } from "./core/nearest.js";
import type { NodePolicy } from "./core/nodes/policy.js";
import type { Role } from "./core/records.js";
import { isStoreUrl, storeForms, storeIn, withoutPassword } from "./engines/open.js";
import { type GateLimits, gateLimitsDefault, timeLimits } from "./faces/http/gate-limits.js";
import { operatorName, type StaticToken } from "./service/tokens.js";
import { readPolicy } from "./wire/node-policy.js";

export class ConfigError extends Error {
  override readonly name = "ConfigError";
}

export interface Config {
  readonly host: string;
  readonly port: number;
  readonly dataDir: string;
  readonly store: string;
  readonly tokens: readonly StaticToken[];
  readonly adminToken: string | null;
  readonly gate: GateLimits;
  readonly policy: Policy;
  readonly waitersMax: number;
  readonly waitersPerNameMax: number;
  readonly streamsMax: number;
  readonly connectionsMax: number;
  readonly feedEventsMax: number;
  readonly feedAgeMaxMs: number;
  readonly corsOrigins: readonly string[];
  readonly trustProxy: boolean;
  readonly tlsCert: string | null;
  readonly tlsKey: string | null;
  readonly logLevel: string;
}

export interface ServeFlags {
  readonly host?: string;
  readonly port?: string;
  readonly data?: string;
  readonly store?: string;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly trustProxy?: boolean;
}

export type Environment = Readonly<Record<string, string | undefined>>;

export const isLoopback = (host: string): boolean =>
  host === "localhost" || host === "::1" || /^127\./.test(host);

export function readConfig(flags: ServeFlags, env: Environment): Config {
  const text = (name: string): string | null => env[name] || null;
  const whole = (name: string, fallback: number, min: number, max: number): number =>
    wholeNumber(name, text(name), fallback, min, max);
  const secondsMs = (name: string, fallbackMs: number, min: number, max: number): number =>
    whole(name, fallbackMs / 1000, min, max) * 1000;
  const dataDir = resolve(flags.data || (text("HOLDFAST_DATA") ?? "./.holdfast"));
  const tlsCert = flags.tlsCert || text("HOLDFAST_TLS_CERT");
  const tlsKey = flags.tlsKey || text("HOLDFAST_TLS_KEY");
  if ((tlsCert === null) !== (tlsKey === null))
    throw new ConfigError("--tls-cert and --tls-key go together: give both or none");
  const tokens = staticTokens(text("HOLDFAST_TOKENS"));
  const admin = adminToken(text("HOLDFAST_ADMIN_TOKEN"), tokens);
  return {
    host: flags.host || (text("HOLDFAST_HOST") ?? "127.0.0.1"),
    port: wholeNumber(
      flags.port ? "--port" : "HOLDFAST_PORT",
      flags.port || text("HOLDFAST_PORT"),
      4280,
      0,
      65_535,
    ),
    dataDir,
    store: storeUrl(flags.store, text("HOLDFAST_STORE"), dataDir),
    tokens,
    adminToken: admin,
    gate: {
      ...gateLimitsDefault,
      ratePerSecond: rate(text("HOLDFAST_RATE_LIMIT")),
      ...overload(text("HOLDFAST_OVERLOAD_MS")),
    },
    policy: {
      ttlMaxMs: secondsMs("HOLDFAST_TTL_MAX_SECONDS", policyDefault.ttlMaxMs, 1, 31_536_000),
      recordRetentionMs: secondsMs(
        "HOLDFAST_RECORD_RETENTION_SECONDS",
        policyDefault.recordRetentionMs,
        1,
        31_536_000,
      ),
      requestRetentionMs: secondsMs(
        "HOLDFAST_REQUEST_RETENTION_SECONDS",
        policyDefault.requestRetentionMs,
        1,
        31_536_000,
      ),
      sessionRetentionMs: secondsMs(
        "HOLDFAST_SESSION_RETENTION_SECONDS",
        policyDefault.sessionRetentionMs,
        1,
        31_536_000,
      ),
      auditRetentionMs: secondsMs(
        "HOLDFAST_AUDIT_RETENTION_SECONDS",
        policyDefault.auditRetentionMs,
        3600,
        315_360_000,
      ),
      nodes: policyFile(text("HOLDFAST_POLICY_FILE")),
    },
    waitersMax: whole("HOLDFAST_WAITERS_MAX", 10_000, 0, 1_000_000),
    waitersPerNameMax: whole("HOLDFAST_WAITERS_PER_NAME_MAX", 5_000, 0, 1_000_000),
    streamsMax: whole("HOLDFAST_STREAMS_MAX", 1_000, 0, 100_000),
    connectionsMax: whole("HOLDFAST_CONNECTIONS_MAX", 20_000, 1, 1_000_000),
    feedEventsMax: whole("HOLDFAST_FEED_EVENTS_MAX", 100_000, 100, 100_000_000),
    feedAgeMaxMs: secondsMs("HOLDFAST_FEED_AGE_SECONDS", 3_600_000, 1, 31_536_000),
    corsOrigins: corsOrigins(text("HOLDFAST_CORS_ORIGINS")),
    trustProxy: flags.trustProxy ?? isOn("HOLDFAST_TRUST_PROXY", text("HOLDFAST_TRUST_PROXY")),
    tlsCert,
    tlsKey,
    logLevel: logLevel(text("HOLDFAST_LOG_LEVEL")),
  };
}

/** Variables that look like ours and are not, each with the one that may be meant. */
export function strangeVariables(env: Environment): string[] {
  // What the commands read, and what is asked for when nothing is set.
  const known = new Set([
    "HOLDFAST_TOKEN",
    "HOLDFAST_TOKEN_FILE",
    "HOLDFAST_URL",
    "HOLDFAST_SESSION",
    "HOLDFAST_LEASE_ID",
    "HOLDFAST_FENCING_TOKEN",
    "HOLDFAST_NAME",
  ]);
  readConfig({}, new Proxy({}, { get: (_, name) => void known.add(String(name)) }));
  const words = [...known].map((name) => name.slice(prefix.length));
  return Object.keys(env)
    .filter((name) => name.startsWith(prefix) && !known.has(name))
    .map((name) => {
      const near = nearest(name.slice(prefix.length), words);
      return `${name} is not a setting of Holdfast${near === undefined ? "" : `: did you mean ${prefix}${near}?`}`;
    });
}

const prefix = "HOLDFAST_";

function wholeNumber(
  name: string,
  text: string | null,
  fallback: number,
  min: number,
  max: number,
  orElse = "",
): number {
  if (text === null) return fallback;
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < min || value > max)
    throw new ConfigError(`${name}=${text} is not a whole number from ${min} to ${max}${orElse}`);
  return value;
}

/** Which store is meant: the one named, or the file in the data directory. */
export function storeUrl(flag: string | undefined, setting: string | null, dataDir: string): string {
  const url = flag || (setting ?? storeIn(dataDir));
  if (!isStoreUrl(url))
    throw new ConfigError(
      `${flag ? "--store " : "HOLDFAST_STORE="}${withoutPassword(url)} is no store: use ${storeForms}`,
    );
  return url;
}

/** The work graph's rules where a space has set none: a document over the defaults. */
function policyFile(path: string | null): NodePolicy {
  if (path === null) return policyDefault.nodes;
  const where = `HOLDFAST_POLICY_FILE=${path}`;
  const read = readPolicy(jsonIn(path, where), policyDefault.nodes);
  if ("problem" in read) throw new ConfigError(`${where}: ${read.problem}`);
  return read.values;
}

function jsonIn(path: string, where: string): unknown {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch {
    throw new ConfigError(`${where} cannot be read`);
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new ConfigError(`${where} is not JSON: ${error instanceof Error ? error.message : error}`);
  }
}

function isOn(name: string, text: string | null): boolean {
  if (text !== null && !["1", "true", "0", "false"].includes(text))
    throw new ConfigError(`${name}=${text}: use 1 or true, 0 or false`);
  return text === "1" || text === "true";
}

/** An origin that no browser sends would silently let nobody in. */
function corsOrigins(text: string | null): string[] {
  const origins = (text ?? "").split(/[\s,]+/).filter((origin) => origin !== "");
  for (const origin of origins)
    if (origin !== "*" && !(URL.canParse(origin) && new URL(origin).origin === origin))
      throw new ConfigError(
        `HOLDFAST_CORS_ORIGINS: ${origin} is no origin: write scheme and host as https://dash.example, without a path, or *`,
      );
  return origins;
}

function rate(text: string | null): number | null {
  if (text === "off") return null;
  const fallback = gateLimitsDefault.ratePerSecond ?? 1000;
  return wholeNumber("HOLDFAST_RATE_LIMIT", text, fallback, 1, 10_000_000, ", nor off");
}

function overload(text: string | null): Partial<GateLimits> {
  if (text === null) return {};
  if (text === "off") return timeLimits(Number.POSITIVE_INFINITY);
  return timeLimits(wholeNumber("HOLDFAST_OVERLOAD_MS", text, 0, 1, 60_000, ", nor off"));
}

function logLevel(text: string | null): string {
  const levels = ["trace", "debug", "info", "warn", "error", "fatal", "silent"];
  if (text === null) return "info";
  if (!levels.includes(text))
    throw new ConfigError(`HOLDFAST_LOG_LEVEL=${text}: use one of ${levels.join(" ")}`);
  return text;
}

const secretPattern = /^[A-Za-z0-9_.~+/=-]{1,512}$/;

function adminToken(text: string | null, tokens: readonly StaticToken[]): string | null {
  if (text !== null && !secretPattern.test(text))
    throw new ConfigError("HOLDFAST_ADMIN_TOKEN may hold A-Z a-z 0-9 _ . ~ + / = - only");
  const twin = tokens.find(({ secret }) => secret === text);
  if (twin !== undefined)
    throw new ConfigError(`HOLDFAST_ADMIN_TOKEN is also the secret of ${twin.name} in HOLDFAST_TOKENS`);
  return text;
}

/** `name:secret[:role][:reentrant]`, separated by commas. Messages never show the secret. */
export function staticTokens(text: string | null): StaticToken[] {
  const names = new Set<string>();
  const secrets = new Set<string>();
  return (text ?? "")
    .split(",")
    .map((entry) => entry.trim())
    .filter((entry) => entry !== "")
    .map((entry, i) => {
      const [name = "", secret = "", ...rest] = entry.split(":");
      const where = `HOLDFAST_TOKENS entry ${i + 1}`;
      // Not to be shown: who forgot the name wrote the secret in its place.
      if (!entry.includes(":")) throw new ConfigError(`${where}: write name:secret[:role][:reentrant]`);
      if (name === operatorName)
        throw new ConfigError(
          `${where}: ${operatorName} is the holder of HOLDFAST_ADMIN_TOKEN: use another name`,
        );
      if (!/^[A-Za-z0-9._-]{1,64}$/.test(name))
        throw new ConfigError(`${where}: the name must be 1 to 64 of A-Z a-z 0-9 . _ -`);
      if (!secretPattern.test(secret))
        throw new ConfigError(`${where} (${name}): the secret may hold A-Z a-z 0-9 _ . ~ + / = - only`);
      if (names.has(name)) throw new ConfigError(`${where}: the name ${name} stands twice`);
      if (secrets.has(secret)) throw new ConfigError(`${where} (${name}): the same secret stands twice`);
      names.add(name);
      secrets.add(secret);
      return { name, secret, ...tokenRest(rest, `${where} (${name})`) };
    });
}

function tokenRest(rest: readonly string[], where: string): { role: Role; reentrant: boolean } {
  const reentrant = rest.at(-1) === "reentrant";
  const words = reentrant ? rest.slice(0, -1) : rest;
  const role = words[0] ?? "worker";
  if (words.length > 1 || !["worker", "observer", "admin"].includes(role))
    throw new ConfigError(
      `${where}: after the secret come a role (worker, observer, admin) and reentrant, nothing else`,
    );
  return { role: role as Role, reentrant };
}
