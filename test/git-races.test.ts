// Processes that really race: 20 rounds each here, 200 in `npm run evidence`, which says how many.
import assert from "node:assert/strict";
import { test } from "node:test";
import { race, type Track } from "./git-races.js";
import { scratch } from "./store-lab.js";

const tracks: readonly Track[] = [
  "clones of a remote",
  "processes in a clone",
  "a clone and its remote",
  "worktrees",
];

const rounds = Number(process.env.HOLDFAST_RACE_ROUNDS ?? 20);

for (const track of tracks)
  test(`eight racers, ${track}: exactly one wins each round`, async (t) => {
    const { fresh, takeovers, wins } = await race(track, scratch(t), rounds);
    t.diagnostic(`${fresh} fresh, ${takeovers} takeovers, won by ${JSON.stringify(wins)}`);
    assert.ok(Object.keys(wins).length > 1, "a race that always the same one wins is none");
  });
