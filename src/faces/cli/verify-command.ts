/**
 * `holdfast verify`: runs the workloads against a running server, shows how it goes, and says at the end what was
 * found. Exit code 0: no violation found; 1: violated, not decided, or too little shown; 2 and 5: the server did not
 * take a token, or did not answer, to the end.
 */
import { accessSync, constants, existsSync, statSync, writeFileSync } from "node:fs";
import { dirname, extname, resolve } from "node:path";
import { VerifyError } from "../../verify/error.js";
import type { Workload } from "../../verify/lab.js";
import { checkUrl, durationMaxMs, durationMinMs, type Progress } from "../../verify/options.js";
import { resultToHtml } from "../../verify/report/html.js";
import { resultSummary, resultToJson } from "../../verify/report/json.js";
import { closingText } from "../../verify/report/text.js";
import { complaints, plural } from "../../verify/report/words.js";
import type { Result } from "../../verify/result.js";
import { placeText, verify } from "../../verify/run.js";
import { workloads } from "../../verify/workloads/all.js";
import { CliError, durationMs, exitCodes } from "./failure.js";
import { printJson, printJsonFailure, warn } from "./output.js";
import { serverAndToken } from "./reach.js";
import { isThisMachine, type ServerFlags, type Setting } from "./settings.js";

export interface VerifyFlags {
  readonly url?: string;
  readonly server?: string;
  readonly token?: readonly string[];
  readonly tokenFile?: string;
  readonly data?: string;
  readonly duration: string;
  readonly workloads?: string;
  readonly report?: readonly string[];
  readonly seed?: string;
  readonly keepGoing?: boolean;
  readonly json?: boolean;
  readonly yes?: boolean;
}

/** By its ending: how a result is written into a file. */
const formats: Readonly<Record<string, (result: Result) => string>> = {
  ".html": resultToHtml,
  ".json": resultToJson,
};
/** As shells do for a program that was interrupted. */
const interruptedCode = 130;

interface Report {
  readonly given: string;
  readonly file: string;
  readonly write: (result: Result) => string;
}

export async function verifyCommand(flags: VerifyFlags): Promise<void> {
  const { url, token } = await serverAndToken(whichServer(flags));
  refuseStrangers(url, flags.yes === true);
  const chosen = chosenFrom(flags.workloads);
  const reports = (flags.report ?? []).map(reportAt);
  const options = {
    url,
    durationMs: durationOf(flags.duration),
    ...(chosen === undefined ? {} : { workloads: chosen }),
    keepGoing: flags.keepGoing === true,
    ...bearersFrom(flags.token, token),
    ...(flags.seed === undefined ? {} : { seed: seedOf(flags.seed) }),
  };
  const onBegin = (running: readonly Workload[]): void => {
    const names = running.map(({ name }) => name).join(", ");
    warn(`Verifying ${url} for ${Math.round(options.durationMs / 1000)} s: ${names}`);
  };
  const result = await untilInterrupted((signal) =>
    verify({ ...options, signal, onBegin, ...(process.stderr.isTTY ? { onProgress: showProgress } : {}) }),
  );
  if (process.stderr.isTTY) process.stderr.write(clearLine);
  const code = exitCodeOf(result);
  if (flags.json === true) printResult(result, code);
  else process.stdout.write(`${closingText(result)}\n`);
  const isWritten = writeReports(reports, result);
  if (code !== exitCodes.done || !isWritten) process.exitCode = code || exitCodes.other;
}

function whichServer({ url, server, token, tokenFile, data }: VerifyFlags): ServerFlags {
  const twice = (one: string, other: string): CliError =>
    new CliError(`${one} and ${other} say the same thing twice: give one of them`, exitCodes.usage);
  if (url !== undefined && server !== undefined) throw twice("--url", "--server");
  if (token !== undefined && tokenFile !== undefined) throw twice("--token", "--token-file");
  // Else a wrong one would be blamed on --server.
  if (url !== undefined) refusing(() => checkUrl(url));
  const named = url ?? server;
  return {
    ...(data === undefined ? {} : { data }),
    ...(named === undefined ? {} : { server: named }),
    ...(tokenFile === undefined ? {} : { tokenFile }),
  };
}

/** The tokens, and what messages call them: by place, as their values are secret. */
function bearersFrom(
  given: readonly string[] | undefined,
  token: () => Setting,
): { readonly bearers: readonly string[]; readonly bearerNames: readonly string[] } {
  if (given === undefined) {
    const { value, from } = found(token);
    return { bearers: [value], bearerNames: [`the token from ${from}`] };
  }
  const place = (nth: number): string =>
    given.length === 1 ? "the --token" : `the ${placeText(nth)} --token`;
  return { bearers: given, bearerNames: given.map((_, nth) => place(nth)) };
}

/** Without a token nothing is wrong with the server: that is told apart from a violation. */
function found(token: () => Setting): Setting {
  try {
    return token();
  } catch (error) {
    if (!(error instanceof CliError) || error.exitCode !== exitCodes.other) throw error;
    const { message, code, lines } = error;
    throw new CliError(message, exitCodes.usage, { code, lines });
  }
}

/** The verdict has been printed by now; what cannot be written is told and changes the exit code only. */
function writeReports(reports: readonly Report[], result: Result): boolean {
  let isWritten = true;
  for (const { given, file, write } of reports) {
    try {
      writeFileSync(file, write(result));
      warn(`Report: ${file}`);
    } catch (error) {
      isWritten = false;
      warn(`holdfast: --report ${given} was not written: ${(error as Error).message}`);
    }
  }
  return isWritten;
}

function exitCodeOf({ outcome, interrupted, dismissed, unreachable }: Result): number {
  if (outcome === "violated") return exitCodes.other;
  // Nothing can be shown by a run that was cut short but what it found.
  if (interrupted) return interruptedCode;
  if (dismissed.length > 0) return exitCodes.usage;
  if (unreachable !== null) return exitCodes.storage;
  return outcome === "ok" ? exitCodes.done : exitCodes.other;
}

/** Why a run was cut short, for programs. */
const cutShort: Readonly<Record<number, string>> = {
  [interruptedCode]: "interrupted",
  [exitCodes.usage]: "authentication_required",
  [exitCodes.storage]: "unavailable",
};

function printResult(result: Result, code: number): void {
  const details = resultSummary(result);
  if (code === exitCodes.done) {
    printJson(details);
    return;
  }
  const isRefused = code === exitCodes.usage || code === exitCodes.storage;
  const last = closingText(result).trimEnd().split("\n").at(-1) ?? "";
  const message = isRefused ? (complaints(result)[0] ?? last) : last;
  printJsonFailure({ code: cutShort[code] ?? result.outcome, message, details });
}

function refuseStrangers(url: string, yes: boolean): void {
  refusing(() => checkUrl(url));
  const { hostname } = new URL(url);
  if (yes || isThisMachine(url)) return;
  throw new CliError(
    `${hostname} is not this machine. A run makes some hundred calls a second there, on names of its own; add --yes if that is welcome.`,
    exitCodes.usage,
  );
}

function chosenFrom(names: string | undefined): readonly Workload[] | undefined {
  if (names === undefined) return undefined;
  const known = workloads.map((workload) => workload.name).join(", ");
  const found = names.split(",").map((text) => {
    const name = text.trim();
    if (name === "")
      throw new CliError(
        `--workloads ${JSON.stringify(names)}: a name is missing beside a comma; there are ${known}`,
        exitCodes.usage,
      );
    const workload = workloads.find((one) => one.name === name);
    if (workload !== undefined) return workload;
    throw new CliError(`--workloads ${JSON.stringify(name)}: there are ${known}`, exitCodes.usage);
  });
  return [...new Set(found)];
}

function durationOf(text: string): number {
  const ms = durationMs(text, "--duration");
  if (ms >= durationMinMs && ms <= durationMaxMs) return ms;
  throw new CliError(
    `--duration ${text}: give from ${durationMinMs / 1000}s, in which a lease can run out, to ${durationMaxMs / 3_600_000}h`,
    exitCodes.usage,
  );
}

/** Looked at before the run: a minute's work must not end in a file that cannot be written. */
function reportAt(given: string): Report {
  const file = resolve(given);
  const write = formats[extname(file)];
  if (write === undefined)
    throw new CliError(`--report ${given}: name it .html for people or .json for programs`, exitCodes.usage);
  const refuse = (why: string): CliError => new CliError(`--report ${given}: ${why}`, exitCodes.usage);
  const folder = dirname(file);
  const isThere = existsSync(file);
  if (isThere && statSync(file).isDirectory()) throw refuse("this is a directory, name a file");
  if (!isThere && !existsSync(folder))
    throw refuse(`cannot write into ${folder}: there is no such directory`);
  if (!isThere && !statSync(folder).isDirectory()) throw refuse(`${folder} is not a directory`);
  try {
    accessSync(isThere ? file : folder, constants.W_OK);
  } catch {
    throw refuse(isThere ? `cannot write over ${file}` : `cannot write into ${folder}`);
  }
  return { given, file, write };
}

function seedOf(text: string): number {
  if (/^\d{1,10}$/.test(text) && Number(text) < 2 ** 32) return Number(text);
  throw new CliError(`--seed ${JSON.stringify(text)}: give a whole number below ${2 ** 32}`, exitCodes.usage);
}

/** The first signal ends the run early and cleanly; a second one ends the program. */
async function untilInterrupted(run: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
  const stop = new AbortController();
  const onSignal = (): void => stop.abort();
  const signals = ["SIGINT", "SIGTERM"] as const;
  for (const name of signals) process.once(name, onSignal);
  try {
    return await run(stop.signal);
  } catch (error) {
    throw asCliError(error);
  } finally {
    for (const name of signals) process.off(name, onSignal);
  }
}

function refusing(look: () => void): void {
  try {
    look();
  } catch (error) {
    throw asCliError(error);
  }
}

const asCliError = (error: unknown): unknown =>
  error instanceof VerifyError
    ? new CliError(error.message, error.code === "unreachable" ? exitCodes.storage : exitCodes.usage)
    : error;

const clearLine = "\r\x1b[K";

function showProgress({ doing, ranMs, durationMs, operations, lost }: Progress): void {
  const seconds = (ms: number): number => Math.round(ms / 1000);
  const time = doing === "running" ? ` ${seconds(ranMs)} of ${seconds(durationMs)} s` : "";
  const text = `${doing}${time} · ${plural(operations, "operation")} · ${plural(lost, "reply", "replies")} lost`;
  // A line that wraps could not be cleared.
  process.stderr.write(clearLine + text.slice(0, (process.stderr.columns || text.length + 1) - 1));
}
