// The checker misses nothing that matters: one bug at a time is planted in the service, histories are played until
// one is accused, and the verdict must name the invariant that the bug breaks.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { check } from "../../src/verify/check.js";
import { ledgerOf } from "../../src/verify/checker/ledger.js";
import { search } from "../../src/verify/checker/search.js";
import type { History } from "../../src/verify/history.js";
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

const rows: string[][] = [["planted bug", "where", "named", "seed", "operations", "search alone"]];
const widths = [56, 7, 12, 5, 11, 13];

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
      const where = Object.keys(plant).join(" ");
      rows.push([
        bug,
        where,
        right.join(" "),
        `${seed}`,
        `${operations}`,
        isFoundBySearch(history) ? "too" : "",
      ]);
      return;
    }
    assert.fail(`not caught in ${operations} operations, seeds 1 to ${seedsMax}`);
  });

function isFoundBySearch(history: History): boolean {
  const ledger = ledgerOf(history);
  return [...ledger.names.values()].some((name) => search(name, ledger).kind === "stuck");
}

test("the search alone, without the first pass, finds most of them", () => {
  const found = rows.filter((row) => row.at(-1) === "too").length;
  assert.ok(found > bugs.length / 2, `${found} of ${bugs.length}`);
});

after(() => {
  for (const row of rows) console.log(row.map((cell, nth) => cell.padEnd(widths[nth] ?? 0)).join(" "));
});
