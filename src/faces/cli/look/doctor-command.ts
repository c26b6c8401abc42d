/** `holdfast doctor`: looks at everything between this machine and a lease, and says what to do about what is wrong. */
import { createClient } from "../../../client/client.js";
import { choose } from "../connect.js";
import { refuseBadAddress, refuseBadToken } from "../credentials.js";
import { CliError, exitCodes } from "../failure.js";
import { printJson, printJsonFailure, printLines } from "../output.js";
import type { ServerFlags, Settings } from "../settings.js";
import { smallFetch } from "../small-fetch.js";
import { checkNode, checkPermissions, checkSettings, checkWarnings } from "./checks-here.js";
import { checkGuard, checkRepository } from "./checks-repository.js";
import { checkLease, checkServer, checkToken } from "./checks-server.js";
import { type Finding, failed, skipped } from "./finding.js";

export interface DoctorFlags extends ServerFlags {
  readonly json?: boolean;
}

/** Returns 0, or the code of the worst failure. */
export async function doctorCommand(flags: DoctorFlags): Promise<number> {
  const findings: Finding[] = [];
  for await (const finding of examine(flags)) {
    findings.push(finding);
    if (flags.json !== true) printLines(...linesOf(finding));
  }
  const failures = findings.filter(({ status }) => status === "failed");
  const summary = `${failures.length} of ${findings.length} checks failed`;
  const code = Math.max(exitCodes.done, ...failures.map(({ exitCode = exitCodes.other }) => exitCode));
  const checks = findings.map(({ exitCode: _, ...shown }) => shown);
  if (flags.json !== true) printLines("", failures.length === 0 ? "All is well." : `${summary}.`);
  else if (failures.length === 0) printJson({ checks });
  else printJsonFailure({ code: "unhealthy", message: summary, details: { checks } });
  return code;
}

async function* examine(flags: DoctorFlags): AsyncGenerator<Finding, void, undefined> {
  yield checkNode();
  yield* checkPermissions(flags);
  yield* await checkGuard();
  const chosen = await choose(flags).catch(refusal);
  if (chosen instanceof CliError) {
    yield unusable(chosen);
    return;
  }
  const { settings, authority } = chosen;
  if (authority !== null) {
    yield* checkWarnings(settings);
    yield* checkRepository(authority);
    return;
  }
  yield* checkSettings(settings);
  const { url, token } = settings;
  const wrong = await usable(settings).catch(refusal);
  if (wrong instanceof CliError) {
    yield unusable(wrong);
    return;
  }
  const server = await checkServer(url.value);
  yield* server;
  if (server.some(({ status }) => status === "failed")) return;
  if (token === null) {
    yield skipped("lease", "not tried: there is no token");
    return;
  }
  const client = createClient({ url: url.value, token: token.value, retries: 1, fetch: smallFetch });
  const { finding, me } = await checkToken(client);
  yield finding;
  if (me !== null) yield await checkLease(client, me);
}

async function usable({ url, token }: Settings): Promise<void> {
  refuseBadAddress(url);
  if (token !== null) refuseBadToken(token);
}

function refusal(error: unknown): CliError {
  if (error instanceof CliError) return error;
  throw error;
}

const unusable = ({ message, exitCode }: CliError): Finding =>
  failed("settings", message, "correct it; the rest was not checked", exitCode);

const marks = { ok: "✓", warning: "!", failed: "✗", skipped: "-" } as const;

function linesOf({ status, message, advice }: Finding): string[] {
  return [`${marks[status]} ${message}`, ...(advice === undefined ? [] : [`  → ${advice}`])];
}
