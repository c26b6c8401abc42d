/** The URL of a store on etcd: `etcd://user:password@host:2379,host2:2379/?prefix=…`. What is wrong with it is said without the password. */
import { readFileSync } from "node:fs";
import { StoreUrlError } from "../../store/store.js";
import type { Endpoint, Tls } from "./connection.js";

export interface EtcdPlace {
  readonly endpoints: readonly Endpoint[];
  readonly user: { readonly name: string; readonly password: string } | null;
  readonly prefix: string;
  readonly opsMax: number;
  readonly lanesMax: number;
  /** For people: without the password. */
  readonly location: string;
}

const portDefault = 2379;
const prefixDefault = "holdfast/";
/** etcd's own default of --max-txn-ops. */
const opsDefault = 128;
const opsLeast = 32;
/** Measured: docs/performance.md. */
const lanesDefault = 4;
const known = ["prefix", "tls", "ca", "cert", "key", "max_txn_ops", "lanes"];

/** `rest` is what stands behind `etcd:`. Throws `StoreUrlError`. */
export function readEtcdUrl(rest: string): EtcdPlace {
  const match = /^\/\/(?:([^@/?]*)@)?([^@/?]+)\/?(?:\?(.*))?$/s.exec(rest);
  if (match === null) throw wrong("write etcd://HOST:2379,HOST2:2379, with ?prefix=… if need be");
  const [, login, hosts = "", query = ""] = match;
  const settings = new URLSearchParams(query);
  for (const name of settings.keys())
    if (!known.includes(name))
      throw wrong(`${JSON.stringify(name)} is no setting: there are ${known.join(", ")}`);
  const tls = tlsOf(settings);
  const authorities = hosts.split(",").map(authorityOf);
  const user = userOf(login);
  if (user !== null && tls === null && !authorities.every(isLoopback))
    throw wrong(
      "a password over a plain connection can be read on the way: add ?tls=1 or ?ca=FILE, or tls=0 to allow it",
    );
  const prefix = settings.get("prefix") ?? prefixDefault;
  if (!/^[\x21-\x7e]{1,64}$/.test(prefix)) throw wrong("prefix must be 1 to 64 printable characters");
  return {
    endpoints: authorities.map((authority) => ({ authority, tls: tls === "off" ? null : tls })),
    user,
    prefix,
    opsMax: whole(settings, "max_txn_ops", opsDefault, opsLeast, 10_000),
    lanesMax: whole(settings, "lanes", lanesDefault, 1, 64),
    location: `etcd ${authorities.join(", ")}, keys under ${prefix}`,
  };
}

function authorityOf(host: string): string {
  const match = /^(\[[0-9a-f:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?$/i.exec(host.trim());
  const port = Number(match?.[2] ?? portDefault);
  if (match === null || port < 1 || port > 65_535)
    throw wrong(`${JSON.stringify(host)} is no host: write HOST or HOST:PORT, separated by commas`);
  return `${match[1]}:${port}`;
}

const isLoopback = (authority: string): boolean => /^(localhost|127\.[\d.]+|\[::1\]):/.test(authority);

function userOf(login: string | undefined): EtcdPlace["user"] {
  if (login === undefined || login === "") return null;
  const colon = login.indexOf(":");
  if (colon < 1) throw wrong("before the @ stand user:password");
  try {
    return {
      name: decodeURIComponent(login.slice(0, colon)),
      password: decodeURIComponent(login.slice(colon + 1)),
    };
  } catch {
    throw wrong("user or password has a % that is not followed by two hexadecimal digits: write it as %25");
  }
}

/** "off": asked to be without; null: not asked for. */
function tlsOf(settings: URLSearchParams): Tls | "off" | null {
  const [ca, cert, key] = ["ca", "cert", "key"].map((name) => settings.get(name) ?? undefined);
  const word = settings.get("tls");
  if (word !== null && !["1", "true", "0", "false"].includes(word)) throw wrong("tls must be 1 or 0");
  const isOff = word === "0" || word === "false";
  if (isOff && (ca ?? cert ?? key) !== undefined) throw wrong("tls=0 and certificates say opposite things");
  if ((cert === undefined) !== (key === undefined))
    throw wrong("cert and key go together: give both or none");
  if (isOff) return "off";
  if (word === null && ca === undefined && cert === undefined) return null;
  return { ca: file("ca", ca), cert: file("cert", cert), key: file("key", key) };
}

function file(name: string, path: string | undefined): Buffer | undefined {
  if (path === undefined) return undefined;
  try {
    return readFileSync(path);
  } catch {
    throw wrong(`the file ${path} (${name}) cannot be read`);
  }
}

function whole(settings: URLSearchParams, name: string, fallback: number, min: number, max: number): number {
  const text = settings.get(name);
  const value = Number(text ?? fallback);
  if (text !== null && (!/^\d+$/.test(text) || value < min || value > max))
    throw wrong(`${name} must be a whole number from ${min} to ${max}`);
  return value;
}

const wrong = (why: string): StoreUrlError => new StoreUrlError(`etcd: ${why}`);
