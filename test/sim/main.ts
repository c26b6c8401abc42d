// The simulation by hand:
//   npm run sim -- --seeds 100000 [--from 5000]   runs many seeds, tells how far it is, and sums up; a thousand and
//                                                 more fail also when a situation or a fault never came about
//   npm run sim -- --seed 42                      shows one run with its whole history
import { parseArgs } from "node:util";
import { campaign, missed, type Outcome, replay, report } from "./campaign.js";
import { digestOf, simulate } from "./run.js";
import { accused, story } from "./story.js";

const seedsDefault = 1000;
/** Failed seeds that are told of; the rest is counted. */
const shownMax = 20;
/** How often progress is told. */
const progressMs = 5000;

const usage = `npm run sim -- [options]
  --seeds N    how many runs (${seedsDefault})
  --from N     the first of them (0)
  --seed N     one run, with its whole history
`;

const asked = read(process.argv.slice(2));
if (typeof asked === "string") {
  process.stderr.write(asked);
  process.exitCode = asked === usage ? 0 : 2;
} else {
  const failed = "seed" in asked ? await showOne(asked.seed) : await runMany(asked.from, asked.count);
  process.exitCode = failed ? 1 : 0;
}

/** What is to be run, or what to print instead. */
function read(args: string[]): { seed: number } | { from: number; count: number } | string {
  try {
    const option = { type: "string" } as const;
    const { values } = parseArgs({
      args,
      options: { seed: option, seeds: option, from: option, help: { type: "boolean" } },
    });
    if (values.help === true) return usage;
    if (values.seed !== undefined) return { seed: wholeNumber("--seed", values.seed, 0) };
    return {
      from: wholeNumber("--from", values.from ?? "0", 0),
      count: wholeNumber("--seeds", values.seeds ?? String(seedsDefault), 1),
    };
  } catch (error) {
    return `${(error as Error).message}\n${usage}`;
  }
}

function wholeNumber(option: string, text: string, least: number): number {
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < least)
    throw new Error(`${option} ${text}: give a whole number of at least ${least}`);
  return number;
}

async function showOne(seed: number): Promise<boolean> {
  const simulated = await simulate(seed);
  const { violations } = simulated;
  console.log(story(simulated));
  console.log(`digest ${digestOf(simulated)}`);
  console.log(violations.length === 0 ? "ok: no violation" : `${violations.length} violations, told above`);
  return violations.length > 0;
}

async function runMany(from: number, count: number): Promise<boolean> {
  const began = performance.now();
  let [done, toldAt, shown] = [0, began, 0];
  const told = (outcomes: readonly Outcome[]): void => {
    done += outcomes.length;
    for (const { seed, violations } of outcomes)
      if (violations.length > 0 && ++shown <= shownMax)
        console.log([`seed ${seed}`, ...violations.map(accused), `replay: ${replay(seed)}`, ""].join("\n"));
    if (performance.now() - toldAt < progressMs) return;
    toldAt = performance.now();
    console.error(`${done} of ${count} runs, ${Math.round((toldAt - began) / 1000)} s`);
  };
  const all = await campaign(from, count, told);
  console.log(report(all));
  return all.failed.length > 0 || missed(all).length > 0;
}
