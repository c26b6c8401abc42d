/**
 * Which server, and with which token: from flags, else the environment, else the user's configuration file, else the
 * server on this data directory. Each value remembers where it came from. A token goes only to the address that came
 * with it: otherwise whoever can set one of them could send the other away.
 */
import { existsSync, readFileSync, statSync } from "node:fs";
import { userInfo } from "node:os";
import { dirname, isAbsolute, join, resolve } from "node:path";
import { nearest } from "../../core/nearest.js";
import { announcedUrl, keptToken, operatorTokenFile } from "../../data-dir.js";
import { urlDefault } from "./credentials.js";
import { CliError, exitCodes } from "./failure.js";
import { type Project, projectIn } from "./project-file.js";
import { tomlIn } from "./toml-file.js";

export interface ServerFlags {
  readonly server?: string;
  readonly token?: string;
  readonly tokenFile?: string;
  readonly data?: string;
  /** The locks in this repository, decided by this remote or `local`; empty: by whichever is set up. */
  readonly git?: string;
}

export interface Setting {
  readonly value: string;
  /** `--server`, `HOLDFAST_URL`, a file, or `default`. */
  readonly from: string;
}

export interface Settings {
  readonly url: Setting;
  readonly token: Setting | null;
  /** Tokens that were found but belong to another address, in words. */
  readonly unused: readonly string[];
  /** What was found and not heeded, and why. */
  readonly warnings: readonly string[];
  readonly project: Project;
}

export type Environment = Readonly<Record<string, string | undefined>>;

/** One place where settings come from. A token in it is for the address in it; without one, for whichever is used. */
interface Source {
  readonly url: Setting | null;
  readonly token: Setting | null;
}

/** What was found, before it is decided which address is used. */
export interface Found {
  /** Named by a flag, a variable or the user's file; null where the data directory decides. */
  readonly url: Setting | null;
  readonly data: {
    readonly dir: string;
    /** By a flag or a variable: then nothing elsewhere may be meant. */
    readonly isNamed: boolean;
    /** Where the server on it says that it listens. */
    readonly url: Setting | null;
  };
  readonly sources: readonly Source[];
  readonly warnings: readonly string[];
  readonly project: Project;
}

/** Operators' commands may also use HOLDFAST_ADMIN_TOKEN. */
export type Caller = "worker" | "operator";

export async function settingsOf(
  flags: ServerFlags,
  env: Environment = process.env,
  cwd: string = process.cwd(),
): Promise<Settings> {
  const found = await findSettings(flags, env, cwd);
  const { dir, url: announced } = found.data;
  if (found.url === null && announced === null && flags.data)
    throw new CliError(
      `no server runs on ${dir}: start it with holdfast serve --data ${dir}, or name one with --server`,
      exitCodes.notFound,
    );
  const url = found.url ?? announced ?? { value: urlDefault, from: "default" };
  return { url, ...tokenFor(found, url.value), warnings: found.warnings, project: found.project };
}

export async function findSettings(
  flags: ServerFlags,
  env: Environment = process.env,
  cwd: string = process.cwd(),
  caller: Caller = "worker",
): Promise<Found> {
  const project = await projectIn(cwd, userFile(env));
  const warnings = [...project.warnings];
  const given = fromFlags(flags);
  const environment = fromEnvironment(env, caller);
  const user = await fromUserFile(env, warnings);
  const dir = resolve(cwd, flags.data || env["HOLDFAST_DATA"] || "./.holdfast");
  const isNamed = [flags.data, env["HOLDFAST_DATA"], env["HOLDFAST_STORE"]].some(Boolean);
  const data = fromDataDir(dir, isNamed, warnings);
  // A directory that was named outranks what stands further down, as an address in its place would.
  const url = given.url ?? (flags.data ? null : (environment.url ?? (isNamed ? null : user.url)));
  return {
    url,
    data: { dir, isNamed, url: data.url },
    sources: [given, environment, user, data],
    warnings,
    project,
  };
}

/** The first token that may go to this address; in words, those that may not. */
export function tokenFor(found: Found, url: string): { token: Setting | null; unused: readonly string[] } {
  const unused: string[] = [];
  for (const { url: own, token } of found.sources) {
    if (token === null) continue;
    if (own === null || isSameUrl(own.value, url)) return { token, unused: [] };
    const where = own.from === token.from ? `${own.value} there` : `${own.value} (${own.from})`;
    unused.push(`the token from ${token.from} was not used: it belongs to ${where}`);
  }
  return { token: null, unused };
}

export function isSameUrl(one: string, other: string): boolean {
  return comparable(one) === comparable(other);
}

function comparable(url: string): string {
  if (!URL.canParse(url)) return url;
  const { origin, pathname } = new URL(url);
  return origin.replace(/\/\/localhost(?=:|$)/, "//127.0.0.1") + pathname.replace(/\/+$/, "");
}

function fromFlags({ server, token, tokenFile }: ServerFlags): Source {
  if (token && tokenFile)
    throw new CliError(
      "--token and --token-file say the same thing twice: give one of them",
      exitCodes.usage,
    );
  return {
    url: server ? addressFrom(server, "--server") : null,
    token: token
      ? { value: token, from: "--token" }
      : tokenFile
        ? { value: secretIn(tokenFile, "--token-file"), from: `--token-file ${tokenFile}` }
        : null,
  };
}

/** Addresses are shown, in messages and by `config show`: a password has no place in one. */
function addressFrom(value: string, from: string): Setting {
  if (URL.canParse(value) && (new URL(value).username !== "" || new URL(value).password !== ""))
    throw new CliError(
      `${from}: an address must not hold a user or a password: give the token by --token-file or HOLDFAST_TOKEN`,
      exitCodes.usage,
    );
  return { value, from };
}

function fromEnvironment(env: Environment, caller: Caller): Source {
  const { HOLDFAST_URL: url, HOLDFAST_TOKEN: token, HOLDFAST_TOKEN_FILE: file } = env;
  const admin = caller === "operator" ? env["HOLDFAST_ADMIN_TOKEN"] : undefined;
  return {
    url: url ? addressFrom(url, "HOLDFAST_URL") : null,
    token: token
      ? { value: token, from: "HOLDFAST_TOKEN" }
      : file
        ? { value: secretIn(file, "HOLDFAST_TOKEN_FILE"), from: `HOLDFAST_TOKEN_FILE ${file}` }
        : admin
          ? { value: admin, from: "HOLDFAST_ADMIN_TOKEN" }
          : null,
  };
}

/** A relative directory would be whatever the current one holds, a stranger's clone for one: it is not believed. */
export function userDir(env: Environment, variable: string, ...otherwise: readonly string[]): string {
  const given = env[variable];
  if (given && isAbsolute(given)) return join(given, "holdfast");
  const home = env["HOME"];
  return join(home && isAbsolute(home) ? home : userInfo().homedir, ...otherwise, "holdfast");
}

export const userFile = (env: Environment): string =>
  join(userDir(env, "XDG_CONFIG_HOME", ".config"), "config.toml");

const userKeys = ["url", "token", "token_file"];

async function fromUserFile(env: Environment, warnings: string[]): Promise<Source> {
  const file = userFile(env);
  const values = await tomlIn(file);
  const unknown = Object.keys(values).find((key) => !userKeys.includes(key));
  if (unknown !== undefined) {
    const meant = nearest(unknown, userKeys);
    const advice = meant === undefined ? `there are ${userKeys.join(", ")}` : `did you mean ${meant}?`;
    throw new CliError(`${file}: unknown key ${JSON.stringify(unknown)}: ${advice}`, exitCodes.usage);
  }
  const text = (key: string): string | null => {
    const value = values[key];
    if (value === undefined) return null;
    if (typeof value !== "string") throw new CliError(`${file}: ${key} must be text`, exitCodes.usage);
    return value;
  };
  const url = text("url");
  const token = text("token");
  const tokenFile = text("token_file");
  if (token !== null && isOpenToOthers(file))
    warnings.push(`${file} holds a token and can be read by others: chmod 600 ${file}`);
  return {
    url: url === null ? null : addressFrom(url, file),
    token:
      token !== null
        ? { value: token, from: file }
        : tokenFile === null
          ? null
          : { value: secretIn(resolve(dirname(file), tokenFile), file), from: file },
  };
}

/** Whether other users of this machine can read a file. Windows has no such mode. */
export const isOpenToOthers = (file: string): boolean =>
  process.platform !== "win32" && existsSync(file) && (statSync(file).mode & 0o044) !== 0;

/**
 * The server on a data directory. Where nobody named the directory it may have come with a clone: then an address on
 * another machine is not believed.
 */
function fromDataDir(dir: string, isNamed: boolean, warnings: string[]): Source {
  const announced = announcedUrl(dir);
  const none = { url: null, token: null };
  if (announced === null) return none;
  const from = join(dir, "server-url");
  const doubt = !isThisMachine(announced)
    ? `${announced} is not this machine`
    : isOurs(from)
      ? null
      : "it belongs to another user, or others can read it, as no server of yours leaves it";
  if (!isNamed && doubt !== null) {
    warnings.push(`${from} is ignored: ${doubt}. Name it with --server, or the directory with --data`);
    return none;
  }
  const kept = keptToken(dir);
  return {
    url: { value: announced, from },
    token: kept === null ? null : { value: kept, from: operatorTokenFile(dir) },
  };
}

/** A server writes it for its own user alone; what came with a clone, or from another user, is not so. */
const isOurs = (file: string): boolean =>
  process.platform === "win32" ||
  (statSync(file).uid === process.getuid?.() && (statSync(file).mode & 0o077) === 0);

export const isThisMachine = (url: string): boolean =>
  URL.canParse(url) && /^(?:127(?:\.\d+){3}|\[::1\]|localhost)$/.test(new URL(url).hostname);

function secretIn(file: string, from: string): string {
  try {
    const secret = readFileSync(file, "utf8").trim();
    if (secret !== "") return secret;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new CliError(`${from}: cannot read ${file} (${code})`, exitCodes.usage);
  }
  throw new CliError(`${from}: ${file} is empty`, exitCodes.usage);
}
