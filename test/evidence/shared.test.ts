// The short form of the evidence over databases that servers share: names that change hands while one server after the other is
// killed, and a cell of the matrix on each.
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { runCell } from "./cell.js";
import { runCluster } from "./cluster.js";
import type { Engine } from "./engines.js";
import { etcd } from "./etcd-engine.js";
import { databasePartition } from "./faults/database-partition.js";
import type { Fault } from "./faults/fault.js";
import { kill } from "./faults/kill.js";
import { postgres } from "./postgres-engine.js";
import { reasons, tableHead, tableRow } from "./table.js";

const seed = Math.floor(Math.random() * 2 ** 31);
const cluster = { clients: 16, rounds: 500, names: 4, killEveryMs: 1500, killsMax: 2 };

async function cell(t: TestContext, engine: Engine, fault: Fault): Promise<void> {
  const found = await runCell({ engine, fault, seconds: 6, seed });
  t.diagnostic(`seed ${seed}`);
  for (const line of [tableHead(), tableRow(found)]) t.diagnostic(line);
  assert.deepEqual(reasons(found), []);
}

for (const engine of [postgres, etcd])
  test(`${engine.name}: names change hands while servers are killed`, async (t) => {
    assert.deepEqual(await runCluster(engine, cluster, (line) => t.diagnostic(line)), []);
  });

test("postgres, database-partition: no violation, nothing unknown, and enough happened", (t) =>
  cell(t, postgres, databasePartition));
test("etcd, kill: no violation, nothing unknown, and enough happened", (t) => cell(t, etcd, kill));
