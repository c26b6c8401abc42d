// The simulation by hand:
//   npm run sim -- --seeds 100000 [--from 5000]   runs many seeds, tells how far it is, and sums up
//   npm run sim -- --seed 42                      shows one run with its whole history
import { parseArgs } from "node:util";
import { campaign, type Outcome, replay, report } from "./campaign.js";
import { digestOf, simulate } from "./run.js";
import { accused, story } from "./story.js";

const seedsDefault = 1000;
/** Failed seeds that are told of; the rest is counted. */
const shownMax = 20;
/** How often progress is told. */
const progressMs = 5000;

const { values } = parseArgs({
  options: { seed: { type: "string" }, seeds: { type: "string" }, from: { type: "string" } },
});

const failed = values.seed === undefined ? await runMany() : await showOne(wholeNumber(values.seed));
process.exitCode = failed ? 1 : 0;

function wholeNumber(text: string): number {
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < 0) throw new Error(`not a whole number: ${text}`);
  return number;
}

async function showOne(seed: number): Promise<boolean> {
  const simulated = await simulate(seed);
  console.log(story(simulated));
  console.log(`digest ${digestOf(simulated)}`);
  return simulated.violations.length > 0;
}

async function runMany(): Promise<boolean> {
  const count = wholeNumber(values.seeds ?? String(seedsDefault));
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
  const all = await campaign(wholeNumber(values.from ?? "0"), count, told);
  console.log(report(all));
  return all.failed.length > 0;
}
