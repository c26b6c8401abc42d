// The checker misses nothing that matters: one bug at a time is planted in the service, histories are played until
// one is accused, and the verdict must name the invariant that the bug breaks.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { check } from "../../src/verify/check.js";
import { playHistory, type Setting, settingOf } from "./driver.js";
import { bugs } from "./planted.js";

const seedsMax = 80;

/** A bug may need a crash or a crowd to show; a restore would only hide it. */
const hunting = (seed: number): Setting => ({
  ...settingOf(seed),
  operations: 250,
  processes: 7,
  crashes: 0.1,
  restores: 0,
});

const rows: string[] = [];

for (const { bug, breaks, ...plant } of bugs)
  test(`caught: a service that ${bug}`, () => {
    let operations = 0;
    for (let seed = 1; seed <= seedsMax; seed++) {
      const history = playHistory(hunting(seed), plant);
      const { violations, unknown } = check(history);
      operations += history.operations.length;
      assert.deepEqual(unknown, [], `undecided at seed ${seed}`);
      if (violations.length === 0) continue;
      const named = [...new Set(violations.map(({ invariant }) => invariant))];
      const right = named.filter((invariant) => breaks.includes(invariant));
      assert.ok(right.length > 0, `seed ${seed} names ${named}, not ${breaks}: ${violations[0]?.says}`);
      rows.push(
        `${bug.padEnd(56)} ${right.join(" ").padEnd(12)} ${String(seed).padStart(4)} ${String(operations).padStart(10)}`,
      );
      return;
    }
    assert.fail(`not caught in ${operations} operations, seeds 1 to ${seedsMax}`);
  });

after(() => {
  console.log(`\n${"planted bug".padEnd(56)} ${"named".padEnd(12)} seed operations\n${rows.join("\n")}`);
});
