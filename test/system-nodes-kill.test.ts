// kill -9 in the middle of claims, releases, status changes and next, again and again on the same data: never an edge
// without its history entry, never a lease whose edge is missing. `npm run evidence` does the same 200 times.
import assert from "node:assert/strict";
import { test } from "node:test";
import { engines } from "./evidence/engines.js";
import { runKills } from "./evidence/graph-kill.js";

const kills = 20;

for (const engine of engines.filter(({ inapplicable }) => inapplicable["graph-kill"] === undefined))
  test(`${engine.name}: ${kills} kills leave node, edge, lease and history of one mind`, async (t) => {
    const seed = Math.floor(Math.random() * 2 ** 31);
    const reasons = await runKills(engine, kills, seed, (line) => t.diagnostic(line));
    assert.deepEqual(reasons, [], `seed ${seed}`);
  });
