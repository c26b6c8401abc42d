// The short form of `npm run evidence`: a few cells of its table, and that a cell is red when the server breaks a
// promise, when the fault never struck, and when a tool that it needs is not there.
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { type Cell, runCell } from "./cell.js";
import { type Engine, sqlite } from "./engines.js";
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

for (const fault of [kill, lostReplies, stopClient])
  test(`sqlite, ${fault.name}: no violation, nothing unknown, and enough happened`, async (t) => {
    assert.deepEqual(reasons(await cell(t, sqlite, fault, 8)), []);
  });

interface Found {
  readonly plant: Plant;
  /** What is found, and by which workload where no other can find it. */
  readonly breaks: string;
  readonly only?: string;
}

const rows: readonly Found[] = [
  {
    plant: {
      what: "leases that end before their time",
      file: "core/lease.js",
      changes: [
        ["return earliest > endOf(lease, session);", "return earliest > endOf(lease, session) - 600;"],
      ],
    },
    breaks: "I2",
  },
  {
    plant: {
      what: "a path that is granted though one above it is held",
      file: "core/names.js",
      changes: [["names.push(name.slice(0, slash));", "slash;"]],
    },
    breaks: "I1",
    only: "overlap",
  },
  {
    plant: {
      what: "a waiter that hears of its lease late",
      file: "service/waiting.js",
      changes: [
        [
          "const { outcome } = acquired;",
          'const { outcome } = acquired; if (wait && "granted" in outcome) await new Promise((r) => setTimeout(r, 1500));',
        ],
      ],
    },
    breaks: "I26",
  },
  {
    plant: {
      what: "a stream that falls silent",
      file: "faces/http/stream.js",
      changes: [
        ["const lastId =", "let told = 0; const lastId ="],
        ["frame(watched, present", 'watched.type === "event" && ++told > 8 ? "" : frame(watched, present'],
      ],
    },
    breaks: "I29",
    only: "watch-replay",
  },
];

for (const { plant, breaks, only } of rows)
  test(`found out: ${plant.what}`, async (t) => {
    const program = programWith(plant);
    const planted: Engine = { ...sqlite, start: (options) => sqlite.start({ ...options, program }) };
    const { results } = await cell(t, planted, none, 4);
    const broken = results.flatMap(({ workload, verdict }) =>
      verdict.violations.map(({ invariant }) => `${invariant} ${workload}`),
    );
    t.diagnostic(`broken: ${[...new Set(broken)].sort().join(", ")}`);
    const found = broken.filter((one) => one.startsWith(`${breaks} `));
    assert.notEqual(found.length, 0, broken.join("; "));
    if (only !== undefined) assert.deepEqual([...new Set(broken)], [`${breaks} ${only}`]);
  });

test("a fault that never struck, or that lacks a tool, is no evidence", async (t) => {
  const idle: Fault = { ...none, name: "idle", minimums: { inFlight: 60 } };
  const { tooLittle } = await cell(t, sqlite, idle, 1);
  assert.deepEqual(
    tooLittle.map(({ situation, reached }) => [situation, reached]),
    [
      ["inFlight", 0],
      ["tookEffect", 0],
    ],
  );
  const helpless: Fault = { ...none, name: "helpless", needs: ["no-such-tool"] };
  assert.match(
    (await runCell({ engine: sqlite, fault: helpless, seconds: 1, seed })).failure ?? "",
    /no-such-tool/,
  );
});
