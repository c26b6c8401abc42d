// The short form of `npm run evidence`: a few cells of its table, and that a cell is red when the server breaks a
// promise, when the fault never struck, and when a tool that it needs is not there.
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { type Cell, runCell } from "./cell.js";
import { type Engine, engines } from "./engines.js";
import type { Fault } from "./faults/fault.js";
import { kill } from "./faults/kill.js";
import { lostReplies } from "./faults/lost-replies.js";
import { none } from "./faults/none.js";
import { stopClient } from "./faults/stop-client.js";
import { type Plant, programWith } from "./planted-program.js";
import { counterLines, reasons, tableHead, tableRow } from "./table.js";

const seed = Math.floor(Math.random() * 2 ** 31);

async function cell(t: TestContext, engine: Engine, fault: Fault, seconds: number): Promise<Cell> {
  const found = await runCell({ engine, fault, seconds, seed });
  t.diagnostic(`seed ${seed}`);
  for (const line of [tableHead(), tableRow(found), ...counterLines([found])]) t.diagnostic(line);
  return found;
}

for (const engine of engines)
  for (const fault of [kill, lostReplies, stopClient])
    test(`${engine.name}, ${fault.name}: no violation, nothing unknown, and enough happened`, async (t) => {
      assert.deepEqual(reasons(await cell(t, engine, fault, 8)), []);
    });

const plant: Plant = {
  what: "leases that end before their time",
  file: "core/lease.js",
  changes: [["return now > endOf(lease, session);", "return now > endOf(lease, session) - 600;"]],
};

test("a server whose leases end before their time is found out", async (t) => {
  const [engine] = engines;
  assert.ok(engine !== undefined);
  const program = programWith(plant);
  const planted: Engine = { ...engine, start: (options) => engine.start({ ...options, program }) };
  const { results } = await cell(t, planted, none, 4);
  const broken = results.flatMap(({ verdict }) => verdict.violations.map(({ invariant }) => invariant));
  t.diagnostic(`broken: ${[...new Set(broken)].sort().join(", ")}`);
  assert.ok(broken.includes("I2"), broken.join(" "));
});

test("a fault that never struck, or that lacks a tool, is no evidence", async (t) => {
  const [engine] = engines;
  assert.ok(engine !== undefined);
  const idle: Fault = { ...none, name: "idle", minimums: { inFlight: 60 } };
  const { tooLittle } = await cell(t, engine, idle, 1);
  assert.deepEqual(
    tooLittle.map(({ situation, reached }) => [situation, reached]),
    [
      ["inFlight", 0],
      ["tookEffect", 0],
    ],
  );
  const helpless: Fault = { ...none, name: "helpless", needs: ["no-such-tool"] };
  assert.match((await runCell({ engine, fault: helpless, seconds: 1, seed })).failure ?? "", /no-such-tool/);
});
