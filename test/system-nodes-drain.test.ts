// 64 workers drain a queue of nodes over HTTP while many of them die: nothing is lost, nothing is done by two at once,
// and history tells of all. `npm run evidence` does the same with 10,000 nodes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { engines } from "./evidence/engines.js";
import { runDrain } from "./evidence/graph-drain.js";

const nodes = 1000;

for (const engine of engines.filter(({ inapplicable }) => inapplicable["graph-drain"] === undefined))
  test(`${engine.name}: workers that die drain ${nodes} nodes, each done once and by one at a time`, async (t) => {
    const seed = Math.floor(Math.random() * 2 ** 31);
    const reasons = await runDrain(engine, nodes, seed, (line) => t.diagnostic(line));
    assert.deepEqual(reasons, [], `seed ${seed}`);
  });
