// A thread of a campaign: takes seeds, gives outcomes.
import { parentPort } from "node:worker_threads";
import { outcomeOf } from "./campaign.js";

parentPort?.on("message", async (seeds: readonly number[]) => {
  const outcomes = [];
  for (const seed of seeds) outcomes.push(await outcomeOf(seed));
  parentPort?.postMessage(outcomes);
});
