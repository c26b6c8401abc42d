/**
 * A store's URL as this engine reads it: what goes to the database driver, and what is ours. Anything else in it is refused,
 * so that a misspelt setting is not silently none.
 */
import { readFileSync } from "node:fs";
import type { ClientConfig } from "pg";
import { StoreUrlError } from "../../store/store.js";

export interface PostgresPlace {
  /** How to connect, for calls. */
  readonly client: ClientConfig;
  /** How to connect without a pooler in between, to be told of changes; null: as for calls, if that works. */
  readonly listen: ClientConfig | null;
  readonly schema: string;
  /** Connections that this server keeps at most, besides the one that listens. */
  readonly connectionsMax: number;
  /** How long a call may take, in ms. */
  readonly deadlineMs: number;
  /** For people: without the password. */
  readonly location: string;
}

/** What the driver understands and does not change what is promised. */
const forDriver = new Set([
  "host",
  "sslmode",
  "sslrootcert",
  "sslcert",
  "sslkey",
  "sslnegotiation",
  "uselibpqcompat",
  "application_name",
]);
const ours = new Set(["listen", "schema", "connections", "deadline_ms"]);
/** The driver takes any other word for one of these, without a word. */
const sslModes = ["disable", "prefer", "require", "verify-ca", "verify-full", "no-verify"];
const sslFiles = ["sslrootcert", "sslcert", "sslkey"];

/** Throws `StoreUrlError`. */
export function readUrl(text: string): PostgresPlace {
  const url = parsed(text);
  const { searchParams: settings } = url;
  for (const name of settings.keys())
    if (!forDriver.has(name) && !ours.has(name))
      throw refused(
        `${name} is no setting of a postgres URL: there are ${[...ours, ...forDriver].sort().join(", ")}`,
      );
  const schema = settings.get("schema") ?? "holdfast";
  if (!/^[a-z_][a-z0-9_]{0,39}$/.test(schema))
    throw refused(`schema=${schema}: use small letters, digits and _, at most 40`);
  const connectionsMax = whole(settings, "connections", 8, 2, 100);
  const deadlineMs = whole(settings, "deadline_ms", 5000, 100, 60_000);
  refuseBadTls(settings);
  const listen = settings.get("listen");
  for (const name of ours) settings.delete(name);
  return {
    client: configOf(url, deadlineMs),
    listen: listen === null ? null : configOf(parsed(listen), deadlineMs),
    schema,
    connectionsMax,
    deadlineMs,
    location: shown(url) + (schema === "holdfast" ? "" : ` (schema ${schema})`),
  };
}

const form = "a postgres URL looks like postgres://user:password@host:5432/database";
const encoding = "write # as %23, / as %2F, ? as %3F, @ as %40, : as %3A and % as %25 there";

function parsed(text: string): URL {
  const [, rest] = /^postgres(?:ql)?:\/\/(.*)$/s.exec(text) ?? [];
  if (rest === undefined) throw refused(form);
  // Up to the last @ that is not in a setting: a password with one of these characters must be found, to say what is wrong with it.
  const hosts = rest.slice(rest.replace(/\?.*=.*$/s, "").lastIndexOf("@") + 1);
  if (/^[^/?#]*,/.test(hosts))
    throw refused(
      "a postgres URL names one host: let a proxy or a name that moves stand for several (docs/postgres.md)",
    );
  const login = rest.slice(0, rest.length - hosts.length);
  if (/[#/?]/.test(login) || !isEncoded(login))
    throw refused(`user or password has a character that means something in a URL: ${encoding}`);
  if (!URL.canParse(text) || new URL(text).hash !== "")
    throw refused(`${form}; for user, password and database, ${encoding}`);
  return new URL(text);
}

function isEncoded(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

function refuseBadTls(settings: URLSearchParams): void {
  const mode = settings.get("sslmode");
  if (mode !== null && !sslModes.includes(mode))
    throw refused(`sslmode=${mode}: use verify-full, or another of ${sslModes.join(", ")}`);
  for (const name of sslFiles) {
    const path = settings.get(name);
    if (path !== null && !isReadable(path)) throw refused(`the file ${path} (${name}) cannot be read`);
  }
}

function isReadable(path: string): boolean {
  try {
    readFileSync(path);
    return true;
  } catch {
    return false;
  }
}

const configOf = (url: URL, deadlineMs: number): ClientConfig => ({
  connectionString: url.href,
  connectionTimeoutMillis: deadlineMs,
  keepAlive: true,
  keepAliveInitialDelayMillis: 10_000,
  // Shows up in pg_stat_activity. Other settings of a session would be lost, or another's, behind a pooler.
  fallback_application_name: "holdfast",
});

function shown(url: URL): string {
  const host = url.searchParams.get("host");
  const user = url.username === "" ? "" : `${url.username}@`;
  return `postgres://${user}${url.host}${url.pathname}${host === null ? "" : `?host=${host}`}`;
}

function whole(settings: URLSearchParams, name: string, fallback: number, min: number, max: number): number {
  const text = settings.get(name);
  if (text === null) return fallback;
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < min || value > max)
    throw refused(`${name}=${text} is not a whole number from ${min} to ${max}`);
  return value;
}

const refused = (why: string): StoreUrlError => new StoreUrlError(why);
