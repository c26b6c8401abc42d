/**
 * How commands reach the data: through the server that holds it, or, when none does, by opening the file. A
 * token goes only to the server it was given for.
 */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { storeUrl } from "../../config.js";
import { announcedUrl, keptToken, operatorTokenFile } from "../../data-dir.js";
import { openStore } from "../../engines/open.js";
import { type Store, StoreError } from "../../store/store.js";
import { CliError, exitCodes } from "./failure.js";

export interface ReachFlags {
  readonly server?: string;
  readonly data?: string;
  readonly json?: boolean;
}

const urlDefault = "http://127.0.0.1:4280";

/** `where` says what is acted on: a server's URL, or a file. */
export type Reached = { readonly where: string } & ({ readonly server: Remote } | { readonly store: Store });

export interface Remote {
  readonly url: string;
  /** Calls the server; an error answer becomes a failure with its text. */
  call(method: string, path: string, more?: { body?: object; space?: string }): Promise<Response>;
}

export const dataDirOf = (flags: { readonly data?: string }): string =>
  resolve(flags.data || process.env.HOLDFAST_DATA || "./.holdfast");

export const storeOf = (flags: { readonly data?: string; readonly store?: string }): string =>
  storeUrl(flags.store, process.env.HOLDFAST_STORE || null, dataDirOf(flags));

/**
 * A named server; else the data file if it is there and nobody holds it; else the server that holds it. The usual
 * place only where nothing was named: who names a directory must not change what lies elsewhere.
 */
export async function reach(flags: ReachFlags): Promise<Reached> {
  const named = flags.server || process.env.HOLDFAST_URL;
  const dataDir = dataDirOf(flags);
  const at = (url: string): Reached => ({ where: url, server: remote(url, dataDir) });
  if (named) return at(named);
  const announced = announcedUrl(dataDir);
  const store = storeOf(flags);
  if (!existsSync(store.replace(/^\w+:/, ""))) {
    if (announced === null && (flags.data || process.env.HOLDFAST_DATA || process.env.HOLDFAST_STORE))
      throw new CliError(
        `there is no data in ${dataDir} and no server runs on it: correct --data, or name a server with --server`,
        exitCodes.notFound,
      );
    return at(announced ?? urlDefault);
  }
  try {
    const opened = await openStore(store);
    return { where: opened.facts.location, store: opened };
  } catch (error) {
    if (announced !== null && error instanceof StoreError && error.kind === "unavailable")
      return at(announced);
    throw error;
  }
}

/** The named server; else the one on the data; else the usual place. */
export const serverUrlOf = (flags: { readonly server?: string; readonly data?: string }): string =>
  flags.server || process.env.HOLDFAST_URL || (announcedUrl(dataDirOf(flags)) ?? urlDefault);

export const tokenFor = (url: string, dataDir: string): string => credentialFor(url, dataDir).token;

/** A token and where it was found. That of a data directory goes to the server on that data and to no other. */
function credentialFor(url: string, dataDir: string): { token: string; from: string } {
  for (const from of ["HOLDFAST_TOKEN", "HOLDFAST_ADMIN_TOKEN"]) {
    const token = process.env[from];
    if (token) return { token, from };
  }
  const announced = announcedUrl(dataDir);
  const kept = announced !== null && isSame(announced, url) ? keptToken(dataDir) : null;
  if (kept !== null) return { token: kept, from: operatorTokenFile(dataDir) };
  throw new CliError(
    `no token for ${url}: set HOLDFAST_TOKEN, or run this where ${operatorTokenFile(dataDir)} and its server are`,
    exitCodes.usage,
  );
}

const isSame = (one: string, other: string): boolean => origin(one) === origin(other);

function origin(url: string): string {
  if (!/^https?:/.test(url) || !URL.canParse(url))
    throw new CliError(`${url} is no URL: write one as http://127.0.0.1:4280`, exitCodes.usage);
  return new URL(url).origin.replace("//localhost", "//127.0.0.1");
}

/** Why a call got no answer, for people. The code stays: it is what they look up. */
const noAnswer: Readonly<Record<string, string>> = {
  ECONNREFUSED: "nothing listens there. Is it running? Start it with: holdfast serve",
  ENOTFOUND: "no such host. Check the URL",
  EAI_AGAIN: "the host's name could not be looked up. Check the URL and the network",
  ETIMEDOUT: "no answer in time. Check the URL and the network",
  ECONNRESET: "the connection was cut. An https server is not reached by http://",
  UND_ERR_SOCKET: "the connection was cut. An https server is not reached by http://",
  ERR_SSL_WRONG_VERSION_NUMBER: "it does not speak TLS. Use http://",
  ERR_SSL_PACKET_LENGTH_TOO_LONG: "it does not speak TLS. Use http://",
};
const untrusted = /SELF_SIGNED|UNABLE_TO_(?:VERIFY|GET_ISSUER)/;

function unreached(base: string, error: unknown): CliError {
  const cause = (error instanceof Error && error.cause) || error;
  const { code = "", message = "" } = cause as NodeJS.ErrnoException;
  const words = untrusted.test(code)
    ? `its certificate is not trusted (${code}). For a private authority set NODE_EXTRA_CA_CERTS to its certificate`
    : noAnswer[code]?.replace(/(?=\.)/, ` (${code})`);
  return new CliError(`cannot reach ${base}: ${words ?? message}`, exitCodes.storage);
}

function remote(url: string, dataDir: string): Remote {
  const base = url.replace(/\/+$/, "");
  origin(base);
  const { token, from } = credentialFor(base, dataDir);
  return {
    url: base,
    call: async (method, path, { body, space } = {}) => {
      const response = await fetch(base + path, {
        method,
        headers: {
          authorization: `Bearer ${token}`,
          ...(space === undefined ? {} : { "holdfast-space": space }),
          ...(body === undefined ? {} : { "content-type": "application/json" }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      }).catch((error: unknown) => {
        throw unreached(base, error);
      });
      if (!response.ok) throw await failureOf(response, base, from);
      return response;
    },
  };
}

const codes: Readonly<Record<number, number>> = {
  400: exitCodes.usage,
  422: exitCodes.usage,
  404: exitCodes.notFound,
  409: exitCodes.conflict,
  503: exitCodes.storage,
};

async function failureOf(response: Response, base: string, from: string): Promise<CliError> {
  const body = (await response.json().catch(() => ({}))) as { details?: string };
  const details = body.details ?? `${base} answered ${response.status}`;
  const advice =
    response.status === 401 ? ` It was taken from ${from}; HOLDFAST_TOKEN sets another for ${base}.` : "";
  return new CliError(details + advice, codes[response.status] ?? exitCodes.other);
}
