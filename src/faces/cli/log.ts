/** Logs: JSON lines on standard error, readable lines on a terminal. Nothing secret is ever given to them. */
import { type Logger, pino } from "pino";

export function makeLogger(level: string): Logger {
  const options = {
    level,
    base: null,
    redact: { paths: ["req.headers", "headers", "authorization"], remove: true },
  };
  return process.stderr.isTTY === true
    ? pino(options, { write: pretty })
    : pino(options, pino.destination({ dest: 2, sync: true }));
}

const levels: Readonly<Record<number, string>> = {
  10: "trace",
  20: "debug",
  30: "info",
  40: "warn",
  50: "error",
  60: "fatal",
};

function pretty(line: string): void {
  const { level, time, msg, err, ...rest } = JSON.parse(line) as Record<string, unknown> & {
    err?: { message?: string };
  };
  const more = Object.entries(rest)
    .map(([key, value]) => ` ${key}=${String(value)}`)
    .join("");
  const cause = err?.message === undefined ? "" : `: ${err.message}`;
  process.stderr.write(
    `${new Date(Number(time)).toISOString()} ${levels[Number(level)] ?? ""} ${String(msg)}${cause}${more}\n`,
  );
}
