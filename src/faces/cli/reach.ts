/**
 * How commands reach the data: through the server that holds it, or, when none does, by opening the file. A
 * token goes only to the server it was given for.
 */
import { existsSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { openStore, storeIn } from "../../engines/open.js";
import { operatorTokenFile } from "../../serve.js";
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
  call(method: string, path: string, body?: object): Promise<Response>;
}

export const dataDirOf = (flags: { readonly data?: string }): string =>
  resolve(flags.data ?? process.env["HOLDFAST_DATA"] ?? "./.holdfast");

/** A named server; else the data file if it is there and nobody holds it; else the server that holds it. */
export async function reach(flags: ReachFlags): Promise<Reached> {
  const named = flags.server ?? process.env["HOLDFAST_URL"];
  const dataDir = dataDirOf(flags);
  if (named !== undefined) return { server: remote(named, dataDir) };
  const store = process.env["HOLDFAST_STORE"] ?? storeIn(dataDir);
  if (!existsSync(store.replace(/^\w+:/, ""))) return { server: remote(urlDefault, dataDir) };
  try {
    return { store: await openStore(store) };
  } catch (error) {
    if (error instanceof StoreError && error.kind === "unavailable")
      return { server: remote(urlDefault, dataDir) };
    throw error;
  }
}

function tokenFor(dataDir: string): string {
  const given = process.env["HOLDFAST_TOKEN"] ?? process.env["HOLDFAST_ADMIN_TOKEN"];
  if (given) return given;
  const file = operatorTokenFile(dataDir);
  if (existsSync(file)) return readFileSync(file, "utf8").trim();
  throw new CliError(`no token: set HOLDFAST_TOKEN, or run this where ${file} is`, exitCodes.usage);
}

function remote(url: string, dataDir: string): Remote {
  const base = url.replace(/\/+$/, "");
  const token = tokenFor(dataDir);
  return {
    url: base,
    call: async (method, path, body) => {
      const response = await fetch(base + path, {
        method,
        headers: {
          authorization: `Bearer ${token}`,
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
