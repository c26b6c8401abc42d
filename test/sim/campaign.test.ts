// A campaign that is long enough to have met everything is no success without it, and says what is missing.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Campaign, missed, report } from "./campaign.js";
import { type Fault, faults, type Situation, situations, Tally } from "./situations.js";

const everything: readonly (Situation | Fault)[] = [...(Object.keys(situations) as Situation[]), ...faults];

function campaignWithout(left: string, seeds: number): Campaign {
  const tally = new Tally();
  tally.add(everything.filter((what) => what !== left).map((what) => [what, 1]));
  return { seeds, failed: [], tally, operations: 0, simulatedMs: 0, digest: "" };
}

test("a thousand runs that never reached a situation, or never made a fault, show too little", () => {
  for (const what of everything) {
    const all = campaignWithout(what, 1000);
    assert.deepEqual(missed(all), [what]);
    assert.match(report(all), new RegExp(`^never reached: ${what}$`, "m"));
  }
  assert.deepEqual(missed(campaignWithout("", 1000)), []);
});

test("a few runs may miss something by chance", () => {
  assert.deepEqual(missed(campaignWithout("kill", 999)), []);
});
