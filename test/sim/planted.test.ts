// What the simulation is worth: each planted bug is found within a few hundred seeds, and the verdict names an
// invariant that the bug breaks.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { bugs } from "./planted.js";
import { simulate } from "./run.js";
import { accused } from "./story.js";

const seedsMax = 300;

describe("the simulation finds a server that", () => {
  for (const { bug, breaks, plant } of bugs)
    test(bug, async (t) => {
      for (let seed = 0; seed < seedsMax; seed++) {
        const { violations } = await simulate(seed, { plant });
        const named = violations.find(({ invariant }) => breaks.includes(invariant));
        if (named === undefined) continue;
        t.diagnostic(`seed ${seed} ${accused(named)}`);
        return;
      }
      assert.fail(`not found within ${seedsMax} seeds`);
    });
});
