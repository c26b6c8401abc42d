/** What went wrong, for people on standard error and, with `--json`, for programs on standard output. */
import { HoldfastError } from "../../client/errors.js";
import { StoreError, StoreUrlError } from "../../store/store.js";
import { CliError, exitCodes } from "./failure.js";
import { whyNoAnswer } from "./no-answer.js";
import { printJsonFailure, warn } from "./output.js";
import { inCommands, oneInstantForm, wireFields } from "./wording.js";

/** A line for people, never a stack trace, and the exit code of its kind. */
export function explain(error: unknown, json: boolean): number {
  const message = inCommands(oneInstantForm(messageOf(error)));
  if (json) printJsonFailure({ code: codeOf(error), message, details: detailsOf(error) });
  for (const [at, line] of linesOf(error, message).entries())
    warn(oneInstantForm(at === 0 ? line : `  ${line}`));
  return exitCodeOf(error);
}

/** A failure may come with lines of its own; any other is one line. */
const linesOf = (error: unknown, message: string): readonly string[] =>
  error instanceof CliError && error.lines.length > 0 ? error.lines : [`holdfast: ${message}`];

function detailsOf(error: unknown): unknown {
  if (error instanceof CliError) return error.details;
  if (!(error instanceof HoldfastError)) return {};
  // Code and message stand beside the details already.
  const { code: _code, details: _message, ...fields } = error.fields;
  return wireFields(fields);
}

export function codeOf(error: unknown): string {
  if (error instanceof HoldfastError || error instanceof CliError) return error.code;
  if (isConfigError(error) || error instanceof StoreUrlError) return "usage";
  return error instanceof StoreError ? error.kind : "internal";
}

export function exitCodeOf(error: unknown): number {
  if (error instanceof CliError) return error.exitCode;
  // A newer server may say a code that is not in the table.
  if (error instanceof HoldfastError) return exitCodeByCode[error.code] ?? exitCodes.other;
  if (isConfigError(error) || error instanceof StoreUrlError) return exitCodes.usage;
  if (error instanceof StoreError) return exitCodes.storage;
  return isSystemError(error) ? exitCodes.storage : exitCodes.other;
}

/** By its name: the file that declares it loads the server's parts, which most commands that fail never needed. */
const isConfigError = (error: unknown): boolean => error instanceof Error && error.name === "ConfigError";

/** What the server says, as an exit code. */
export const exitCodeByCode = {
  authentication_required: exitCodes.other,
  authentication_failed: exitCodes.other,
  forbidden: exitCodes.other,
  internal: exitCodes.other,
  invalid_lock_name: exitCodes.usage,
  invalid_ttl: exitCodes.usage,
  unauthorized: exitCodes.other,
  invalid_input: exitCodes.usage,
  invalid_node: exitCodes.usage,
  too_large: exitCodes.usage,
  unsupported_media_type: exitCodes.usage,
  method_not_allowed: exitCodes.usage,
  not_found: exitCodes.notFound,
  held: exitCodes.conflict,
  already_claimed: exitCodes.conflict,
  not_ready: exitCodes.conflict,
  delayed: exitCodes.conflict,
  conflict: exitCodes.conflict,
  lease_not_current: exitCodes.conflict,
  lease_lost: exitCodes.conflict,
  session_expired: exitCodes.conflict,
  rate_limited: exitCodes.storage,
  unavailable: exitCodes.storage,
  unknown_outcome: exitCodes.storage,
  unreachable: exitCodes.storage,
  not_holdfast: exitCodes.storage,
} as const satisfies Record<HoldfastError["code"], number>;

/** The operating system refused: a port, a file, a directory. */
const isSystemError = (error: unknown): error is NodeJS.ErrnoException =>
  error instanceof Error && "code" in error && "syscall" in error;

/** What the operating system means, for the path that it was about. */
const meanings: Readonly<Record<string, string>> = {
  EACCES: "permission denied: run this as the user that owns it, or change its owner",
  EPERM: "permission denied: run this as the user that owns it, or change its owner",
  EROFS: "the file system can only be read: choose another place",
  ENOENT: "there is no such file or directory",
  ENOSPC: "the disk is full: free some room",
  EISDIR: "this is a directory: name a file",
};

export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error instanceof HoldfastError && error.code === "unreachable") return unreachableMessage(error);
  if (error instanceof HoldfastError && error.code === "invalid_ttl") return ttlMessage(error);
  if (!isSystemError(error)) return error.message;
  if (error.syscall === "mkdir" && ["EEXIST", "ENOTDIR", "ENOENT"].includes(error.code ?? ""))
    return `${error.path} is no directory, or lies in what is none: choose another with --data`;
  if (error.syscall === "getaddrinfo")
    return `${(error as { hostname?: string }).hostname} is no address of this machine: choose another with --host`;
  if (error.syscall !== "listen") {
    const meaning = meanings[error.code ?? ""];
    return meaning === undefined || error.path === undefined ? error.message : `${error.path}: ${meaning}`;
  }
  return listenMessage(error);
}

/** What the client says of it, with more of what to do than it can know. */
function unreachableMessage({ message, cause }: HoldfastError): string {
  const [, url] = /^No reply from (\S+): /.exec(message) ?? [];
  return url === undefined || cause === undefined ? message : `No reply from ${url}: ${whyNoAnswer(cause)}`;
}

/** In the words of a command line, where it was no number of seconds. */
function ttlMessage({ message }: HoldfastError): string {
  const [, bound, seconds] = /must be (at (?:most|least)) (\d+)/.exec(message) ?? [];
  if (bound === undefined) return message;
  return `--ttl must be ${bound} ${wholeUnits(Number(seconds))} here: give a time as 30s, 15m, 1h`;
}

/** In the largest unit that leaves nothing over. */
const wholeUnits = (seconds: number): string =>
  seconds % 3600 === 0 ? `${seconds / 3600}h` : seconds % 60 === 0 ? `${seconds / 60}m` : `${seconds}s`;

function listenMessage(error: NodeJS.ErrnoException): string {
  const {
    code,
    address = "this address",
    port,
  } = error as NodeJS.ErrnoException & {
    address?: string;
    port?: number;
  };
  if (code === "EADDRINUSE")
    return `port ${port} on ${address} is in use by another program: stop it, or choose another with --port`;
  if (code === "EACCES")
    return `port ${port} on ${address} needs more rights: choose one above 1023 with --port`;
  if (code === "EADDRNOTAVAIL") return `this machine has no address ${address}: choose another with --host`;
  return error.message;
}
