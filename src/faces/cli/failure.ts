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

/** `30s`, `15m`, `1h`, `90d`; a bare number is seconds. */
export function durationMs(text: string, flag: string): number {
  const match = /^(\d{1,9})([smhd]?)$/.exec(text);
  const value = Number(match?.[1] ?? 0) * (units[match?.[2] || "s"] ?? 0);
  if (match === null || value === 0)
    throw new CliError(
      `${flag} ${JSON.stringify(text)}: give a duration as 30s, 15m, 1h or 90d`,
      exitCodes.usage,
    );
  return value;
}
