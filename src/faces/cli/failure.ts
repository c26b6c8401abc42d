/** Exit codes, and failures that carry one. */
export const exitCodes = { done: 0, other: 1, usage: 2, notFound: 3, conflict: 4, storage: 5 } as const;

export class CliError extends Error {
  override readonly name = "CliError";
  constructor(
    message: string,
    readonly exitCode: number,
  ) {
    super(message);
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
