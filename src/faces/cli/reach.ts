/**
 * How commands reach the data: through the server that holds it, or, when none does, by opening the file. A
 * token goes only to the server it was given for.
 */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { storeUrl } from "../../config.js";
import { operatorTokenFile } from "../../data-dir.js";
import type { Store } from "../../store/store.js";
import { CliError, exitCodes } from "./failure.js";
import { whyNoAnswer } from "./no-answer.js";
import { warn } from "./output.js";
import {
  type Found,
  findSettings,
  type ServerFlags,
  type Setting,
  tokenFor,
  urlDefault,
} from "./settings.js";

export interface ReachFlags extends ServerFlags {
  readonly json?: boolean;
}

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
  const found = await findOperatorSettings(flags);
  const { url: named, data } = found;
  const at = (url: string): Reached => ({ where: url, server: remote(url, found) });
  if (named !== null) return at(named.value);
  const store = storeOf(flags);
  if (!existsSync(store.replace(/^\w+:/, ""))) {
    if (data.url === null && data.isNamed)
      throw new CliError(
        `there is no data in ${data.dir} and no server runs on it: correct --data, or name a server with --server`,
        exitCodes.notFound,
      );
    return at(data.url?.value ?? urlDefault);
  }
  // Only here: a command that talks to a server needs no store.
  const [{ openStore }, { StoreError }] = await Promise.all([
    import("../../engines/open.js"),
    import("../../store/store.js"),
  ]);
  try {
    const opened = await openStore(store);
    return { where: opened.facts.location, store: opened };
  } catch (error) {
    if (data.url !== null && error instanceof StoreError && error.kind === "unavailable")
      return at(data.url.value);
    throw error;
  }
}

/** The named server, else the one on the data, else the usual place; and the token that may go there. */
export async function serverAndToken(flags: ServerFlags): Promise<{ url: string; token: () => Setting }> {
  const found = await findOperatorSettings(flags);
  const { dir, isNamed, url: announced } = found.data;
  if (found.url === null && announced === null && isNamed)
    throw new CliError(
      `no server runs on ${dir}: start it with holdfast serve --data ${dir}, or name one with --server`,
      exitCodes.notFound,
    );
  const url = (found.url ?? announced)?.value ?? urlDefault;
  return { url, token: () => credentialFor(url, found) };
}

async function findOperatorSettings(flags: ServerFlags): Promise<Found> {
  const found = await findSettings(flags, process.env, process.cwd(), "operator");
  warn(...found.warnings.map((warning) => `holdfast: ${warning}`));
  return found;
}

function credentialFor(url: string, found: Found): Setting {
  const { token, unused } = tokenFor(found, url);
  if (token !== null) return token;
  const why = unused.map((reason) => `; ${reason}`).join("");
  throw new CliError(
    `no token for ${url}${why}. Set HOLDFAST_TOKEN, or run this where ${operatorTokenFile(found.data.dir)} and its server are`,
    exitCodes.usage,
  );
}

function refuseNoUrl(url: string): void {
  if (!/^https?:/.test(url) || !URL.canParse(url))
    throw new CliError(`${url} is no URL: write one as http://127.0.0.1:4280`, exitCodes.usage);
}

function unreached(base: string, error: unknown): CliError {
  return new CliError(`cannot reach ${base}: ${whyNoAnswer(error)}`, exitCodes.storage);
}

function remote(url: string, found: Found): Remote {
  const base = url.replace(/\/+$/, "");
  refuseNoUrl(base);
  const { value: token, from } = credentialFor(base, found);
  return {
    url: base,
    call: async (method, path, { body, space } = {}) => {
      const response = await fetch(base + path, {
        method,
        // A bearer token goes to the server it is for, and nowhere else.
        redirect: "error",
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
