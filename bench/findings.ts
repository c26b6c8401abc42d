// What a scenario found: rows beside the echo server, single figures, the bars it can judge, and what went wrong.

import type { Tally } from "./orders.js";

export interface Speed {
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** One operation beside the echo server. Ratios are medians of the rounds' own ratios. */
export interface Row {
  readonly label: string;
  readonly echo: Speed;
  readonly holdfast: Speed;
  readonly ratio: number;
  readonly ratioLowest: number;
  readonly ratioHighest: number;
  readonly p99Ratio: number;
  /** The load process's share of a core against the echo server: near 1, it is what limits the echo figure. */
  readonly loadShare: number;
}

export interface Fact {
  readonly label: string;
  readonly value: string;
}

export interface Bar {
  readonly what: string;
  readonly wanted: string;
  readonly measured: string;
  readonly met: boolean;
}

export interface Findings {
  readonly rows?: readonly Row[];
  readonly facts?: readonly Fact[];
  readonly bars?: readonly Bar[];
}

export function atLeast(what: string, measured: number, wanted: number): Bar {
  return { what, wanted: `≥ ${wanted}`, measured: measured.toFixed(2), met: measured >= wanted };
}

export function atMost(what: string, measured: number, wanted: number): Bar {
  return { what, wanted: `≤ ${wanted}`, measured: measured.toFixed(2), met: measured <= wanted };
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}

/** Replies of these kinds per second. */
export function rateOf(tally: Tally, good: readonly string[]): number {
  const count = good.reduce((sum, outcome) => sum + (tally.outcomes[outcome] ?? 0), 0);
  return tally.elapsedMs === 0 ? 0 : count / (tally.elapsedMs / 1000);
}

export function count(value: number): string {
  return value >= 100 ? Math.round(value).toLocaleString("en-US") : value.toPrecision(2);
}

export function milliseconds(value: number): string {
  return `${value >= 100 ? Math.round(value) : value.toFixed(value >= 10 ? 1 : 2)} ms`;
}
