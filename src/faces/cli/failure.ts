/** Exit codes, and failures that carry one. */
export const exitCodes = {
  done: 0,
  other: 1,
  usage: 2,
  notFound: 3,
  conflict: 4,
  storage: 5,
  /** `run`: the lease was not granted in time. */
  notInTime: 75,
  /** `run`: the lease was lost, and the command was ended. */
  lost: 76,
  /** `run`: as a shell answers for a command that cannot be run, or is not there. */
  cannotRun: 126,
  noCommand: 127,
} as const;

const codeNames: Readonly<Record<number, string>> = {
  [exitCodes.usage]: "usage",
  [exitCodes.notFound]: "not_found",
  [exitCodes.conflict]: "conflict",
  [exitCodes.storage]: "unavailable",
  [exitCodes.notInTime]: "held",
  [exitCodes.lost]: "lease_lost",
  [exitCodes.cannotRun]: "cannot_run",
  [exitCodes.noCommand]: "command_not_found",
};

export class CliError extends Error {
  override readonly name = "CliError";
  /** Stable, for programs. */
  readonly code: string;
  /** For programs: what is known besides. */
  readonly details: unknown;
  /** What people see instead of the message, if it takes more than a line. */
  readonly lines: readonly string[];

  constructor(
    message: string,
    readonly exitCode: number,
    more: { readonly code?: string; readonly details?: unknown; readonly lines?: readonly string[] } = {},
  ) {
    super(message);
    this.code = more.code ?? codeNames[exitCode] ?? "failed";
    this.details = more.details ?? {};
    this.lines = more.lines ?? [];
  }
}

const units: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** `30s`, `15m`, `1h`, `90d`; a bare number is seconds. Null for anything else. */
function msIn(text: string): number | null {
  const match = /^(\d{1,9})([smhd]?)$/.exec(text);
  return match === null ? null : Number(match[1]) * (units[match[2] || "s"] ?? 0);
}

const wrongDuration = (text: string, flag: string, wanted: string): CliError =>
  new CliError(`${flag} ${JSON.stringify(text)}: ${wanted}`, exitCodes.usage);

/** More than nothing. */
export function durationMs(text: string, flag: string): number {
  return msIn(text) || fail(wrongDuration(text, flag, "give a duration as 30s, 15m, 1h or 90d"));
}

/** In whole seconds. Only the server knows the most that it grants. */
export function ttlSecondsOf(text: string): number {
  const wanted = "give a time from 1s to the server's limit (24h by default), as 30s, 15m, 1h";
  return (msIn(text) || fail(wrongDuration(text, "--ttl", wanted))) / 1000;
}

/** How long to stand in line; 0 for not at all. */
export function waitSecondsOf(text = "0"): number {
  const wanted = "give a time as 30s, 10m, 1h, or 0 for no wait";
  return (msIn(text) ?? fail(wrongDuration(text, "--wait", wanted))) / 1000;
}

function fail(error: CliError): never {
  throw error;
}
