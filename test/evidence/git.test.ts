// The short form of the evidence over locks in a repository: a cell of each kind of authority, and that a cell is red when
// a bug is planted in the engine.
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { type Cell, runCell } from "./cell.js";
import type { Engine } from "./engines.js";
import type { Fault } from "./faults/fault.js";
import { kill } from "./faults/kill.js";
import { lostPush } from "./faults/lost-push.js";
import { none } from "./faults/none.js";
import { git, gitLocal } from "./git-engines.js";
import { type Plant, programWith } from "./planted-program.js";
import { reasons, tableHead, tableRow } from "./table.js";

const seed = Math.floor(Math.random() * 2 ** 31);

async function cell(t: TestContext, engine: Engine, fault: Fault, seconds: number): Promise<Cell> {
  const found = await runCell({ engine, fault, seconds, seed });
  t.diagnostic(`seed ${seed}`);
  for (const line of [tableHead(), tableRow(found)]) t.diagnostic(line);
  return found;
}

test("git, kill: no violation, nothing unknown, and enough happened", async (t) => {
  assert.deepEqual(reasons(await cell(t, git, kill, 8)), []);
});

test("git-local, none: no violation, nothing unknown, and enough happened", async (t) => {
  assert.deepEqual(reasons(await cell(t, gitLocal, none, 6)), []);
});

interface Found {
  readonly plant: Plant;
  readonly engine: Engine;
  readonly fault: Fault;
  /** Any of these tells it. */
  readonly breaks: readonly string[];
}

const rows: readonly Found[] = [
  {
    plant: {
      what: "a push that does not ask what is there",
      file: "engines/git/remote.js",
      changes: [
        ["...swaps.map(({ ref, old }) =>", '...swaps.map(() => "--force"), ...[].map(({ ref, old }) =>'],
      ],
    },
    engine: git,
    fault: none,
    breaks: ["I1", "I2", "I9", "I10", "I22"],
  },
  {
    plant: {
      what: "a takeover when half of the lease's time is over",
      file: "engines/git/record-blob.js",
      changes: [["(seenAt ?? now) + leftMs + marginMs", "(seenAt ?? now) + leftMs / 2"]],
    },
    engine: gitLocal,
    fault: none,
    breaks: ["I2", "I22"],
  },
  {
    plant: {
      what: "an answer from what is only remembered",
      file: "engines/git/store.js",
      changes: [["if (isRefusal && !sight.isFresh)", "if (false)"]],
    },
    engine: git,
    fault: none,
    breaks: ["I3", "I22", "I28"],
  },
  {
    plant: {
      what: "a push without an answer that is taken for done",
      file: "engines/git/remote.js",
      changes: [
        [
          'isUncertain.test(end.stderr))\n            return "unknown";',
          'isUncertain.test(end.stderr))\n            return "done";',
        ],
      ],
    },
    engine: git,
    fault: lostPush,
    breaks: ["I2", "I22", "I10", "I28"],
  },
];

for (const { plant, engine, fault, breaks } of rows)
  test(`found out: ${plant.what}`, async (t) => {
    const program = programWith(plant, "test/evidence/git-gateway.js");
    const planted: Engine = {
      ...engine,
      start: (options) => engine.start({ ...options, program }),
      more: engine.more.map((join) => (first, options) => join(first, { ...options, program })),
    };
    const { results, failure } = await cell(t, planted, fault, 8);
    assert.equal(failure, undefined);
    const broken = results.flatMap(({ verdict }) => verdict.violations.map(({ invariant }) => invariant));
    t.diagnostic(`broken: ${[...new Set(broken)].sort().join(", ")}`);
    assert.ok(
      broken.some((invariant) => breaks.includes(invariant)),
      broken.join(", "),
    );
  });
