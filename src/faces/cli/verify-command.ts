/**
 * `holdfast verify`: runs the workloads against a running server, shows how it goes, and says at the end what was
 * found. Exit code 0: no violation found; 1: violated, not decided, or too little shown.
 */
import { accessSync, constants, writeFileSync } from "node:fs";
import { dirname, extname, resolve } from "node:path";
import { VerifyError } from "../../verify/http/service.js";
import type { Workload } from "../../verify/lab.js";
import { resultToHtml } from "../../verify/report/html.js";
import { resultSummary, resultToJson } from "../../verify/report/json.js";
import { closingText } from "../../verify/report/text.js";
import { plural } from "../../verify/report/words.js";
import type { Result } from "../../verify/result.js";
import { type Progress, verify } from "../../verify/run.js";
import { workloads } from "../../verify/workloads/all.js";
import { CliError, durationMs, exitCodes } from "./failure.js";
import { dataDirOf, serverUrlOf, tokenFor } from "./reach.js";

export interface VerifyFlags {
  readonly url?: string;
  readonly token?: readonly string[];
  readonly data?: string;
  readonly duration: string;
  readonly workloads?: string;
  readonly report?: readonly string[];
  readonly seed?: string;
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

export async function verifyCommand(flags: VerifyFlags): Promise<void> {
  const url = serverUrlOf({ ...flags, ...(flags.url === undefined ? {} : { server: flags.url }) });
  refuseStrangers(url, flags.yes === true);
  const chosen = chosenFrom(flags.workloads);
  const reports = (flags.report ?? []).map(reportAt);
  const options = {
    url,
    bearers: flags.token ?? [tokenFor(url, dataDirOf(flags))],
    durationMs: durationMs(flags.duration, "--duration"),
    workloads: chosen,
    ...(flags.seed === undefined ? {} : { seed: seedOf(flags.seed) }),
  };
  const names = chosen.map(({ name }) => name).join(", ");
  process.stderr.write(`Verifying ${url} for ${Math.round(options.durationMs / 1000)} s: ${names}\n`);
  const result = await untilInterrupted((signal) =>
    verify({ ...options, signal, ...(process.stderr.isTTY ? { onProgress: showProgress } : {}) }),
  );
  if (process.stderr.isTTY) process.stderr.write(clearLine);
  for (const { file, write } of reports) writeFileSync(file, write(result));
  process.stdout.write(
    flags.json === true ? `${JSON.stringify(resultSummary(result))}\n` : `${closingText(result)}\n`,
  );
  for (const { file } of reports) process.stderr.write(`Report: ${file}\n`);
  if (result.interrupted) process.exitCode = interruptedCode;
  // Nothing can be shown by a run that was cut short but what it found.
  if (result.outcome === "violated" || (result.outcome !== "ok" && !result.interrupted))
    process.exitCode = exitCodes.other;
}

function refuseStrangers(url: string, yes: boolean): void {
  if (!URL.canParse(url) || !/^https?:/.test(url))
    throw new CliError(`${url} is no URL of a server: use one as http://127.0.0.1:4280`, exitCodes.usage);
  const { hostname } = new URL(url);
  if (yes || /^(?:127(?:\.\d+){3}|\[::1\]|(?:.+\.)?localhost)$/.test(hostname)) return;
  throw new CliError(
    `${hostname} is not this machine. A run makes some hundred calls a second there, on names of its own; add --yes if that is welcome.`,
    exitCodes.usage,
  );
}

function chosenFrom(names: string | undefined): readonly Workload[] {
  if (names === undefined) return workloads;
  return names.split(",").map((name) => {
    const found = workloads.find((workload) => workload.name === name.trim());
    if (found !== undefined) return found;
    const known = workloads.map((workload) => workload.name).join(", ");
    throw new CliError(`--workloads ${JSON.stringify(name)}: there are ${known}`, exitCodes.usage);
  });
}

/** Looked at before the run: a minute's work must not end in a file that cannot be written. */
function reportAt(given: string): { file: string; write: (result: Result) => string } {
  const file = resolve(given);
  const write = formats[extname(file)];
  if (write === undefined)
    throw new CliError(`--report ${given}: name it .html for people or .json for programs`, exitCodes.usage);
  try {
    accessSync(dirname(file), constants.W_OK);
  } catch {
    throw new CliError(`--report ${given}: cannot write into ${dirname(file)}`, exitCodes.usage);
  }
  return { file, write };
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
    if (!(error instanceof VerifyError)) throw error;
    throw new CliError(error.message, error.kind === "refused" ? exitCodes.usage : exitCodes.storage);
  } finally {
    for (const name of signals) process.off(name, onSignal);
  }
}

const clearLine = "\r\x1b[K";

function showProgress({ doing, ranMs, durationMs, operations, lost }: Progress): void {
  const seconds = (ms: number): number => Math.round(ms / 1000);
  const time = doing === "running" ? ` ${seconds(ranMs)} of ${seconds(durationMs)} s` : "";
  process.stderr.write(
    `${clearLine}${doing}${time} · ${plural(operations, "operation")} · ${plural(lost, "reply", "replies")} lost`,
  );
}
