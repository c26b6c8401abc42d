// Many seeds, spread over threads: what went wrong and what was reached, summed up. The digest stands for all
// histories in the order of their seeds, however they were spread.
import { createHash } from "node:crypto";
import { availableParallelism } from "node:os";
import { Worker } from "node:worker_threads";
import type { Violation } from "../../src/verify/check.js";
import { digestOf, simulate } from "./run.js";
import { type Fault, faults, type Situation, situations, Tally } from "./situations.js";

/** What is kept of a run. */
export interface Outcome {
  readonly seed: number;
  readonly digest: string;
  readonly violations: readonly Violation[];
  readonly counts: readonly (readonly [Situation | Fault, number])[];
  readonly operations: number;
  readonly simulatedMs: number;
}

export interface Campaign {
  readonly seeds: number;
  readonly failed: readonly Outcome[];
  readonly tally: Tally;
  readonly operations: number;
  readonly simulatedMs: number;
  readonly digest: string;
}

/** Seeds given to a thread at once: enough to keep it busy, few enough to end together. */
const chunk = 20;

export async function outcomeOf(seed: number): Promise<Outcome> {
  const simulated = await simulate(seed);
  const { violations, tally, history, simulatedMs } = simulated;
  return {
    seed,
    digest: digestOf(simulated),
    violations,
    counts: tally.entries(),
    operations: history.operations.length,
    simulatedMs,
  };
}

/** Runs `count` seeds from `from` on; `told` hears of each chunk. */
export async function campaign(
  from: number,
  count: number,
  told: (outcomes: readonly Outcome[]) => void = () => undefined,
): Promise<Campaign> {
  const outcomes: Outcome[] = [];
  let next = from;
  const take = (): number[] => {
    const size = Math.min(chunk, from + count - next);
    next += size;
    return Array.from({ length: size }, (_, nth) => next - size + nth);
  };
  const threads = Math.min(availableParallelism(), Math.ceil(count / chunk));
  await Promise.all(
    Array.from({ length: threads }, () =>
      work(take, (done) => {
        outcomes.push(...done);
        told(done);
      }),
    ),
  );
  return summed(outcomes.sort((one, other) => one.seed - other.seed));
}

/** One thread, as long as there are seeds. */
function work(take: () => readonly number[], done: (outcomes: readonly Outcome[]) => void): Promise<void> {
  const worker = new Worker(new URL("./seed-worker.js", import.meta.url));
  return new Promise<void>((resolve, reject) => {
    const give = (): void => {
      const seeds = take();
      if (seeds.length > 0) worker.postMessage(seeds);
      else resolve();
    };
    worker.on("message", (outcomes: readonly Outcome[]) => {
      done(outcomes);
      give();
    });
    worker.on("error", reject);
    give();
  }).finally(() => worker.terminate());
}

export function summed(outcomes: readonly Outcome[]): Campaign {
  const tally = new Tally();
  const digest = createHash("sha256");
  let [operations, simulatedMs] = [0, 0];
  for (const outcome of outcomes) {
    tally.add(outcome.counts);
    digest.update(outcome.digest);
    operations += outcome.operations;
    simulatedMs += outcome.simulatedMs;
  }
  const failed = outcomes.filter(({ violations }) => violations.length > 0);
  return { seeds: outcomes.length, failed, tally, operations, simulatedMs, digest: digest.digest("hex") };
}

/** So many runs must have reached everything, else they show too little; fewer may miss something by chance. */
const seedsForAll = 1000;

/** Situations and faults that so many runs should have had and did not. */
export const missed = ({ seeds, tally }: Pick<Campaign, "seeds" | "tally">): string[] =>
  seeds < seedsForAll ? [] : tally.missing();

/** The report for people. */
export function report({ seeds, tally, operations, simulatedMs, digest, failed }: Campaign): string {
  const row = (what: Situation | Fault, says = ""): string =>
    `${String(tally.of(what)).padStart(9)}  ${what}${says === "" ? "" : `: ${says}`}`;
  return [
    `${seeds} runs, ${operations} operations, ${(simulatedMs / 3_600_000).toFixed(1)} hours simulated`,
    "",
    "faults",
    ...faults.map((fault) => row(fault)),
    "",
    "situations",
    ...(Object.keys(situations) as Situation[]).map((situation) => row(situation, situations[situation])),
    "",
    `digest ${digest}`,
    `${failed.length} of ${seeds} runs failed`,
    ...missed({ seeds, tally }).map((what) => `never reached: ${what}`),
  ].join("\n");
}

/** The command that shows a run again, with its history. */
export const replay = (seed: number): string => `npm run sim -- --seed ${seed}`;
