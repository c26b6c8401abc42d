/**
 * How commands reach the data: through the server that holds it, or, when none does, by opening the file. A
 * token goes only to the server it was given for.
 */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { notHoldfastText } from "../../client/errors.js";
import { storeUrl } from "../../config.js";
import type { Store } from "../../store/store.js";
import { noToken, refuseBadAddress, refuseBadToken, urlDefault } from "./credentials.js";
import { CliError, exitCodes } from "./failure.js";
import { whyNoAnswer } from "./no-answer.js";
import { warn } from "./output.js";
import { type Found, findSettings, type ServerFlags, type Setting, tokenFor } from "./settings.js";

export interface ReachFlags extends ServerFlags {
  readonly json?: boolean;
}

/** `where` says what is acted on: a server's URL, or a file. */
export type Reached = { readonly where: string } & ({ readonly server: Remote } | { readonly store: Store });

export interface Remote {
  readonly url: string;
  /** The reply itself; an error answer becomes a failure with its text. */
  open(method: string, path: string, more?: More): Promise<Response>;
  /** The reply's JSON. One without these fields is another program's, and a failure. */
  ask<Body>(
    method: string,
    path: string,
    fields: readonly (keyof Body & string)[],
    more?: More,
  ): Promise<Body>;
  /** What is no reply of Holdfast's. */
  stranger(response: Response, said: string): CliError;
}

interface More {
  readonly body?: object;
  readonly space?: string;
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
  const at = (url: Setting): Reached => ({ where: url.value, server: remote(url, found) });
  if (named !== null) return at(named);
  const store = storeOf(flags);
  if (!existsSync(store.replace(/^\w+:/, ""))) {
    if (data.url === null && data.isNamed)
      throw new CliError(
        `there is no data in ${data.dir} and no server runs on it: correct --data, or name a server with --server`,
        exitCodes.notFound,
      );
    return at(data.url ?? usualPlace);
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
    if (data.url !== null && error instanceof StoreError && error.kind === "unavailable") return at(data.url);
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
  const url = found.url ?? announced ?? usualPlace;
  refuseBadAddress(url);
  return { url: url.value, token: () => credentialFor(url, found) };
}

const usualPlace: Setting = { value: urlDefault, from: "default" };

async function findOperatorSettings(flags: ServerFlags): Promise<Found> {
  const found = await findSettings(flags, process.env, process.cwd(), "operator");
  warn(...found.warnings.map((warning) => `holdfast: ${warning}`));
  return found;
}

function credentialFor(url: Setting, found: Found): Setting {
  const { token, unused } = tokenFor(found, url.value);
  if (token === null) throw noToken(url, unused);
  refuseBadToken(token);
  return token;
}

function unreached(base: string, error: unknown): CliError {
  return new CliError(`cannot reach ${base}: ${whyNoAnswer(error)}`, exitCodes.storage);
}

function remote(url: Setting, found: Found): Remote {
  refuseBadAddress(url);
  const base = url.value.replace(/\/+$/, "");
  const { value: token, from } = credentialFor(url, found);
  const stranger = (response: Response, said: string): CliError =>
    new CliError(notHoldfastText(base, response.status, said), exitCodes.storage, { code: "not_holdfast" });
  const open: Remote["open"] = async (method, path, { body, space } = {}) => {
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
    if (response.ok) return response;
    const text = await response.text();
    const { code, details } = fieldsIn(text);
    if (typeof code !== "string" || typeof details !== "string") throw stranger(response, text);
    const advice =
      response.status === 401 ? ` It was taken from ${from}; HOLDFAST_TOKEN sets another for ${base}.` : "";
    throw new CliError(details + advice, codes[response.status] ?? exitCodes.other);
  };
  return {
    url: base,
    open,
    stranger,
    ask: async <Body>(
      method: string,
      path: string,
      fields: readonly (keyof Body & string)[],
      more: More = {},
    ): Promise<Body> => {
      const response = await open(method, path, more);
      const text = await response.text();
      const body = fieldsIn(text);
      if (fields.some((field) => !(field in body))) throw stranger(response, text);
      return body as Body;
    },
  };
}

/** None, where it is no object in JSON. */
function fieldsIn(text: string): Readonly<Record<string, unknown>> {
  try {
    return Object(JSON.parse(text)) as Readonly<Record<string, unknown>>;
  } catch {
    return {};
  }
}

const codes: Readonly<Record<number, number>> = {
  400: exitCodes.usage,
  422: exitCodes.usage,
  404: exitCodes.notFound,
  409: exitCodes.conflict,
  503: exitCodes.storage,
};
