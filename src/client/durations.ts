/** Durations as people write them, and the one clock by which a lease is trusted. */
import { onAbort } from "./aborting.js";

/** Seconds, or text with a unit: `30`, `"500ms"`, `"30s"`, `"15m"`, `"1h"`, `"7d"`. */
export type Duration = number | string;

const units: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** In ms. `what` names the option in the error. */
export function toMs(duration: Duration, what: string): number {
  const match = /^(\d{1,9})(ms|s|m|h|d)?$/.exec(String(duration));
  const unit = units[match?.[2] ?? "s"];
  if (match === null || unit === undefined)
    throw new TypeError(
      `${what} must be a number of seconds, or text as "30s", "15m", "1h": got ${String(duration)}`,
    );
  return Number(match[1]) * unit;
}

/** A TTL in whole seconds, as the wire wants it. */
export function toTtlSeconds(duration: Duration, what: string): number {
  const ms = toMs(duration, what);
  if (ms < 1000 || ms % 1000 !== 0)
    throw new TypeError(`${what} must be a whole number of seconds, at least 1: got ${String(duration)}`);
  return ms / 1000;
}

/** A moment on both clocks, in ms. Neither is compared with another machine's. */
export interface Moment {
  readonly monotonic: number;
  readonly wall: number;
}

interface WithHrtime {
  readonly process?: { readonly hrtime?: { bigint?: () => bigint } };
}
const hrtime = (globalThis as WithHrtime).process?.hrtime?.bigint;

/** Where there is one, the clock that Node's threads share; `performance.now` has an origin per thread. */
const monotonicMs: () => number =
  hrtime === undefined ? () => performance.now() : () => Number(hrtime() / 1000n) / 1000;

export const thisMoment = (): Moment => ({ monotonic: monotonicMs(), wall: Date.now() });

/** The larger of both clocks' advance: one stands still while the machine sleeps, the other can be set back. */
export function elapsedMs(since: Moment, now: Moment = thisMoment()): number {
  return Math.max(now.monotonic - since.monotonic, now.wall - since.wall);
}

/** The longest that a timer can be set to; beyond it fires at once. */
export const timerMaxMs = 2 ** 31 - 1;

/** Resolves after `ms`, rejects with the signal's reason when it is aborted. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const forget = onAbort(signal, () => {
      clearTimeout(timer);
      reject(signal?.reason);
    });
    const timer = setTimeout(
      () => {
        forget();
        resolve();
      },
      Math.min(ms, timerMaxMs),
    );
  });
}
