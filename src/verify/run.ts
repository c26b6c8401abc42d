/**
 * A run against a live service: every workload at once, under names of the run's own, within a bounded load. However
 * it ends, it lets go of what it held and waits until nothing of it is left; then the histories are judged.
 */
import { randomBytes } from "node:crypto";
import { check } from "./check.js";
import type { History } from "./history.js";
import { monotonicMs, sleep } from "./http/clock.js";
import { Exchange } from "./http/exchange.js";
import { HttpLab, type Principal } from "./http/lab.js";
import { type Load, Pace } from "./http/pace.js";
import { emptied, introduced } from "./http/service.js";
import type { Run, Tally, Workload } from "./lab.js";
import { judged, outcomeOf, type Result, type WorkloadResult } from "./result.js";
import { seedFor } from "./seed.js";
import { workloads as everyWorkload } from "./workloads/all.js";

export interface VerifyOptions {
  readonly url: string;
  /** At least one; each is a principal of its own. */
  readonly bearers: readonly string[];
  readonly durationMs: number;
  readonly workloads?: readonly Workload[];
  readonly seed?: number;
  readonly load?: Load;
  /** Aborted to end the run early; it still cleans up and judges what it has. */
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: Progress) => void;
}

export interface Progress {
  readonly doing: "running" | "letting go" | "checking";
  readonly ranMs: number;
  readonly durationMs: number;
  readonly operations: number;
  /** Replies lost so far, by the workloads' own doing or not. */
  readonly lost: number;
}

/** About half of what a server with default settings lets one bearer token ask. */
export const loadDefault: Load = { callsPerSecond: 500, inFlightMax: 64 };
const progressEveryMs = 250;
/** The longest that a workload's lease or session can outlast its last call, and time to settle it. */
const emptyWithinMs = 8000;

/** One workload on its way. */
interface Running {
  readonly workload: Workload;
  readonly lab: HttpLab;
  readonly tally: Promise<Tally>;
}

/** Rejects with a VerifyError where the run cannot begin. */
export async function verify(options: VerifyOptions): Promise<Result> {
  const { url, signal } = options;
  const seed = options.seed ?? randomBytes(4).readUInt32BE();
  const prefix = `verify-${randomBytes(4).toString("hex")}/`;
  const exchange = new Exchange(url, 4);
  const labs: HttpLab[] = [];
  try {
    const principals: Principal[] = [];
    for (const bearer of options.bearers) principals.push(await introduced(exchange, url, bearer, prefix));
    const startedAt = new Date().toISOString();
    const beganAt = monotonicMs();
    const running = await driven(options, { seed, prefix, principals, labs, beganAt });
    const durationMs = monotonicMs() - beganAt;
    const letGo = async (): Promise<void> => {
      for (const lab of labs) await lab.letGo();
    };
    const bearer = principals[0]?.bearer ?? "";
    const leftBehind = await emptied(exchange, bearer, prefix, letGo, emptyWithinMs);
    const workloads = await judgements(options, running, durationMs, beganAt);
    return {
      url,
      principals: principals.map(({ name }) => name),
      prefix,
      seed,
      startedAt,
      durationMs,
      interrupted: signal?.aborted === true,
      outcome: outcomeOf(workloads, leftBehind),
      workloads,
      leftBehind,
    };
  } finally {
    exchange.close();
    for (const lab of labs) lab.close();
  }
}

interface Plan {
  readonly seed: number;
  readonly prefix: string;
  readonly principals: readonly Principal[];
  readonly beganAt: number;
  /** Filled here, closed by whoever made the plan. */
  readonly labs: HttpLab[];
}

/** Runs all workloads until the time is up or the signal comes, and until each has ended. */
async function driven(options: VerifyOptions, plan: Plan): Promise<Running[]> {
  const { url, durationMs, signal, workloads = everyWorkload } = options;
  const { seed, prefix, principals, labs } = plan;
  const pace = new Pace(options.load ?? loadDefault);
  const over = new AbortController();
  const stop = (): void => over.abort();
  signal?.addEventListener("abort", stop, { once: true });
  if (signal?.aborted) stop();
  const timer = setTimeout(stop, durationMs);
  const say = (): void => report(options, plan.beganAt, labs, over.signal.aborted ? "letting go" : "running");
  const ticking = setInterval(say, progressEveryMs);
  const running = workloads.map((workload) => {
    const lab = new HttpLab({
      url,
      principals,
      prefix: `${prefix}${workload.name}/`,
      seed: seedFor(seed, workload.name),
      over: over.signal,
      pace,
    });
    labs.push(lab);
    return { workload, lab, tally: workload.run(lab) };
  });
  try {
    // One that fails ends the others, and fails the run once nothing of it is left.
    await Promise.allSettled(running.map(({ tally }) => tally.catch(stop)));
    return running;
  } finally {
    clearInterval(ticking);
    clearTimeout(timer);
    signal?.removeEventListener("abort", stop);
  }
}

async function judgements(
  options: VerifyOptions,
  running: readonly Running[],
  ranMs: number,
  beganAt: number,
): Promise<WorkloadResult[]> {
  const labs = running.map(({ lab }) => lab);
  const results: WorkloadResult[] = [];
  for (const { workload, lab, tally } of running) {
    report(options, beganAt, labs, "checking");
    await sleep(0); // lets it be seen
    const run: Run = { workload: workload.name, history: since(beganAt, lab.history()), tally: await tally };
    results.push(judged(workload, run, check(run.history), Math.min(ranMs, options.durationMs)));
  }
  return results;
}

/** The history on a clock that begins with the run, in microseconds: what is told of it can be read. */
function since(beganAt: number, { operations, seen, ...more }: History): History {
  const told = (at: number): number => Math.round(1000 * (at - beganAt)) / 1000;
  return {
    operations: operations.map((one) => ({ ...one, began: told(one.began), ended: told(one.ended) })),
    seen: seen.map((one) => ({ ...one, at: told(one.at) })),
    ...more,
  };
}

function report(
  { durationMs, onProgress }: VerifyOptions,
  beganAt: number,
  labs: readonly HttpLab[],
  doing: Progress["doing"],
): void {
  const sum = (of: (lab: HttpLab) => number): number => labs.reduce((total, lab) => total + of(lab), 0);
  onProgress?.({
    doing,
    ranMs: monotonicMs() - beganAt,
    durationMs,
    operations: sum(({ recorder }) => recorder.operations.length),
    lost: sum(({ recorder }) => recorder.lost),
  });
}
