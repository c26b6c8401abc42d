/**
 * What commands print: results on standard output, for people or as one JSON object with `--json`, also for failures;
 * everything else on standard error. Whatever came from others is made harmless for a terminal.
 */
import { printable, unprintable } from "../../core/names.js";

const schemaVersion = 1;

const everyUnprintable = new RegExp(unprintable, "gu");

/** JSON with escapes for what would act on a terminal: the same values to a program, harmless to a person. */
export const jsonText = (value: unknown): string =>
  JSON.stringify(value).replace(everyUnprintable, (char) =>
    Array.from(
      { length: char.length },
      (_, at) => `\\u${char.charCodeAt(at).toString(16).padStart(4, "0")}`,
    ).join(""),
  );

/** The one shape of `--json`. */
export function printJson(data: unknown): void {
  process.stdout.write(`${jsonText({ schema_version: schemaVersion, ok: true, data })}\n`);
}

export interface JsonFailure {
  readonly code: string;
  readonly message: string;
  readonly details?: unknown;
}

export function printJsonFailure({ code, message, details = {} }: JsonFailure): void {
  process.stdout.write(
    `${jsonText({ schema_version: schemaVersion, ok: false, error: { code, message, details } })}\n`,
  );
}

export function printLines(...lines: readonly string[]): void {
  for (const line of lines) process.stdout.write(`${printable(line)}\n`);
}

export function warn(...lines: readonly string[]): void {
  for (const line of lines) process.stderr.write(`${printable(line)}\n`);
}

/** `2024-01-15 11:30:00 UTC` */
export const instantText = (at: Date): string => `${at.toISOString().slice(0, 19).replace("T", " ")} UTC`;

const units: readonly [string, number][] = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1000],
];

/** The largest unit that fits, rounded down: `25m`, `2h`; below a second `0s`. */
export function durationText(ms: number): string {
  for (const [unit, size] of units) if (ms >= size) return `${Math.floor(ms / size)}${unit}`;
  return "0s";
}
