/** What a run found out: the verdict on each workload's history, what was reached, and how long calls took. */
import type { Verdict, Violation } from "./check.js";
import type { Call, Operation } from "./history.js";
import type { Run, Tally, Workload } from "./lab.js";

export interface WorkloadResult extends Run {
  readonly says: string;
  readonly verdict: Verdict;
  /** By situation: how often it had to be reached in a run of this length. */
  readonly needed: Tally;
  /** Situations that were not reached often enough for the run to show anything. */
  readonly tooLittle: readonly TooLittle[];
  /** By kind of call, those that wait in line left out. */
  readonly latency: readonly Latency[];
}

export interface TooLittle {
  readonly situation: string;
  readonly reached: number;
  readonly needed: number;
}

export interface Latency {
  readonly op: Call["op"];
  readonly count: number;
  readonly p50Ms: number;
  readonly p90Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
}

/** `violated` before `unknown` before `too little`: the worst of all workloads. */
export type Outcome = "ok" | "violated" | "unknown" | "too little";

/** How the service answered, beside what it answered. */
export interface Contacted {
  /** It did not answer any more: since when, in ms of the run, and how many calls; null: it answered until the end. */
  readonly unreachable: { readonly fromMs: number; readonly calls: number } | null;
  /** Bearer tokens that it took at first and then refused (401): the run ends with the first of them. */
  readonly dismissed: readonly Dismissed[];
  /** Calls that it refused because they were too many (429). */
  readonly rateLimited: number;
  /** Calls that found no connection; they are no operations. */
  readonly unsent: number;
}

export interface Dismissed {
  readonly principal: string;
  /** Which one: `the second token`. */
  readonly token: string;
  /** When, in ms of the run. */
  readonly fromMs: number;
}

/** A workload that could not run here. */
export interface LeftOut {
  readonly workload: string;
  readonly why: string;
}

export interface Result extends Contacted {
  readonly url: string;
  readonly principals: readonly string[];
  readonly prefix: string;
  readonly seed: number;
  /** RFC 3339. */
  readonly startedAt: string;
  readonly durationMs: number;
  /** Ended by the caller before its time. */
  readonly interrupted: boolean;
  /** Ended before its time because a violation was found. */
  readonly endedEarly: boolean;
  readonly outcome: Outcome;
  /**
   * Where several servers share a clock: how much longer a lease may last, as they state, and by how much that clock was seen to fall
   * behind beyond that while the run went on; both were allowed for.
   */
  readonly lateness?: { readonly statedMs: number; readonly seenMs: number };
  readonly workloads: readonly WorkloadResult[];
  readonly leftOut?: readonly LeftOut[];
  /** Names that were still held after the run had let go of everything and waited; null: it could not look. */
  readonly leftBehind: readonly string[] | null;
}

/** The run's whole minimums are for a minute; the first seconds, before a lease can run out, do not count. */
const wholeMs = 60_000;
const warmUpMs = 3000;

/** `purpose`: situations that must be reached at least once, however short the run. */
export function judged(
  workload: Workload,
  run: Run,
  verdict: Verdict,
  ranMs: number,
  purpose: readonly string[] = [],
): WorkloadResult {
  const share = Math.min(1, Math.max(0, ranMs - warmUpMs) / (wholeMs - warmUpMs));
  const needed = Object.fromEntries(
    Object.entries(workload.minimums).map(([situation, minimum]) => {
      const least = purpose.includes(situation) ? 1 : 0;
      return [situation, Math.max(least, Math.floor(minimum * share))];
    }),
  );
  const tooLittle = Object.entries(needed).flatMap(([situation, times]) => {
    const reached = run.tally[situation] ?? 0;
    return reached < times ? [{ situation, reached, needed: times }] : [];
  });
  const violations = [...verdict.violations, ...neverReached(workload, run.tally)];
  return {
    ...run,
    says: workload.says,
    verdict: { ...verdict, violations },
    needed,
    tooLittle,
    latency: latencyOf(run.history.operations),
  };
}

/** What only the workload itself can see, as a lost update. */
const neverReached = ({ name, never = {} }: Workload, tally: Tally): Violation[] =>
  Object.entries(never).flatMap(([situation, invariant]) => {
    const times = tally[situation] ?? 0;
    if (times === 0) return [];
    return [
      { invariant, name, says: `${situation} was counted ${times} times and must never be`, operations: [] },
    ];
  });

export function outcomeOf(
  workloads: readonly WorkloadResult[],
  leftBehind: readonly string[] | null,
  { unreachable, dismissed }: Pick<Contacted, "unreachable" | "dismissed"> = {
    unreachable: null,
    dismissed: [],
  },
): Outcome {
  if (workloads.some(({ verdict }) => verdict.violations.length > 0)) return "violated";
  if (workloads.some(({ verdict }) => verdict.unknown.length > 0) || leftBehind?.length !== 0)
    return "unknown";
  if (unreachable !== null || dismissed.length > 0) return "too little";
  return workloads.some(({ tooLittle }) => tooLittle.length > 0) ? "too little" : "ok";
}

function latencyOf(operations: readonly Operation[]): Latency[] {
  const byOp = new Map<Call["op"], number[]>();
  for (const { call, began, ended } of operations) {
    if (!Number.isFinite(ended) || ("waitMs" in call && call.waitMs > 0)) continue;
    const times = byOp.get(call.op) ?? [];
    byOp.set(call.op, times);
    times.push(ended - began);
  }
  return [...byOp].map(([op, times]) => {
    times.sort((one, other) => one - other);
    const at = (share: number): number =>
      times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? 0;
    return { op, count: times.length, p50Ms: at(0.5), p90Ms: at(0.9), p99Ms: at(0.99), maxMs: at(1) };
  });
}

/** Updates lost by counters that look at the fencing token, and by those that do not. */
export interface LossRates {
  readonly fenced: LossRate;
  readonly unfenced: LossRate;
}

export interface LossRate {
  readonly lost: number;
  readonly writes: number;
}

/** Null for a workload that counts no updates. */
export function lossRates({
  fencedLost,
  fencedWrites,
  unfencedLost,
  unfencedWrites,
}: Tally): LossRates | null {
  if (fencedWrites === undefined || unfencedWrites === undefined) return null;
  return {
    fenced: { lost: fencedLost ?? 0, writes: fencedWrites },
    unfenced: { lost: unfencedLost ?? 0, writes: unfencedWrites },
  };
}

/** How many replies were lost or may have been done. */
export const unknownReplies = ({ history }: Run): number =>
  history.operations.filter(({ reply }) => reply.kind === "unknown").length;
