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

export type Reached = { readonly server: Remote } | { readonly store: Store };

export interface Remote {
  readonly url: string;
  /** Calls the server; an error answer becomes a failure with its text. */
  call(method: string, path: string, more?: { body?: object; space?: string }): Promise<Response>;
}

export const dataDirOf = (flags: { readonly data?: string }): string =>
  resolve(flags.data || process.env.HOLDFAST_DATA || "./.holdfast");

export const storeOf = (flags: { readonly data?: string; readonly store?: string }): string =>
  storeUrl(flags.store, process.env.HOLDFAST_STORE || null, dataDirOf(flags));

/** A named server; else the data file if it is there and nobody holds it; else the server that holds it. */
export async function reach(flags: ReachFlags): Promise<Reached> {
  const named = flags.server ?? process.env.HOLDFAST_URL;
  const dataDir = dataDirOf(flags);
  if (named) return { server: remote(named, dataDir) };
  const found = (): Reached => ({ server: remote(announcedUrl(dataDir) ?? urlDefault, dataDir) });
  const store = storeOf(flags);
  if (!existsSync(store.replace(/^\w+:/, ""))) return found();
  try {
    return { store: await openStore(store) };
  } catch (error) {
    if (error instanceof StoreError && error.kind === "unavailable") return found();
    throw error;
  }
}

/** The operator's token of a data directory goes to the server on that data and to no other. */
function tokenFor(url: string, dataDir: string): string {
  const given = process.env.HOLDFAST_TOKEN || process.env.HOLDFAST_ADMIN_TOKEN;
  if (given) return given;
  const announced = announcedUrl(dataDir);
  const kept = announced !== null && isSame(announced, url) ? keptToken(dataDir) : null;
  if (kept !== null) return kept;
  throw new CliError(
    `no token for ${url}: set HOLDFAST_TOKEN, or run this where ${operatorTokenFile(dataDir)} and its server are`,
    exitCodes.usage,
  );
}

const isSame = (one: string, other: string): boolean => origin(one) === origin(other);

function origin(url: string): string {
  try {
    return new URL(url).origin.replace("//localhost", "//127.0.0.1");
  } catch {
    throw new CliError(`${url} is no URL: use one as http://127.0.0.1:4280`, exitCodes.usage);
  }
}

function remote(url: string, dataDir: string): Remote {
  const base = url.replace(/\/+$/, "");
  const token = tokenFor(base, dataDir);
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
        const cause =
          error instanceof Error && error.cause instanceof Error ? `: ${error.cause.message}` : "";
        throw new CliError(
          `cannot reach ${base}${cause}. Is it running? Start it with: holdfast serve`,
          exitCodes.storage,
        );
      });
      if (!response.ok) throw await failureOf(response, base);
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

async function failureOf(response: Response, base: string): Promise<CliError> {
  const body = (await response.json().catch(() => ({}))) as { details?: string };
  return new CliError(
    body.details ?? `${base} answered ${response.status}`,
    codes[response.status] ?? exitCodes.other,
  );
}
