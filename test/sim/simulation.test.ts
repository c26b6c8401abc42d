// The simulation as a test: thousands of seeds without a violation and with every situation reached, and the same
// seed gives the same history, in this process and in another one.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { availableParallelism } from "node:os";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { workloads } from "../../src/verify/workloads/all.js";
import { campaign, outcomeOf, replay, report, summed } from "./campaign.js";
import { simulate } from "./run.js";
import { accused } from "./story.js";

const seeds = 5000;
/** Of each core's time: what else runs on the machine is not counted. */
const withinMs = 180_000;

test(`${seeds} simulated runs break no promise and reach every situation`, async (t) => {
  const before = process.cpuUsage();
  const all = await campaign(0, seeds);
  const { user, system } = process.cpuUsage(before);
  const tookMs = (user + system) / 1000 / availableParallelism();
  for (const line of report(all).split("\n")) t.diagnostic(line);
  const told = all.failed
    .slice(0, 10)
    .map(({ seed, violations }) => [...violations.map(accused), `replay: ${replay(seed)}`].join("\n"));
  assert.equal(all.failed.length, 0, told.join("\n\n"));
  assert.deepEqual(all.tally.missing(), [], "situations that no run reached");
  assert.ok(tookMs < withinMs, `took ${Math.round(tookMs / 1000)} s`);
});

describe("a seed", () => {
  const count = 12;
  const here = async (order: readonly number[]): Promise<string> => {
    const outcomes = [];
    for (const seed of order) outcomes.push(await outcomeOf(seed));
    return summed(outcomes.sort((one, other) => one.seed - other.seed)).digest;
  };

  test("gives the same history whatever ran before it", async () => {
    const order = Array.from({ length: count }, (_, seed) => seed);
    assert.equal(await here(order), await here(order.toReversed()));
  });

  test("gives the same history in another process", async () => {
    const main = fileURLToPath(new URL("./main.js", import.meta.url));
    const { stdout, stderr } = spawnSync(process.execPath, [main, "--seeds", String(count)], {
      encoding: "utf8",
    });
    const digest = /^digest (\w+)$/m.exec(stdout)?.[1];
    assert.equal(digest, await here(Array.from({ length: count }, (_, seed) => seed)), stdout + stderr);
  });

  test("gives another history than its neighbour", async () => {
    assert.notEqual((await outcomeOf(1)).digest, (await outcomeOf(2)).digest);
  });
});

describe("the workloads of holdfast verify in a simulated world", () => {
  for (const workload of workloads.filter(({ needsGraph }) => needsGraph !== true))
    test(workload.says, async () => {
      for (let seed = 0; seed < 5; seed++) {
        const { violations, history } = await simulate(seed, { workload });
        assert.deepEqual(violations.map(accused), [], `${workload.name}, seed ${seed}`);
        assert.ok(
          history.operations.length > 100,
          `${workload.name}, seed ${seed}: hardly anything happened`,
        );
      }
    });
});
