// No reply byte leaves before the sync that covers its commit, as a trace of the server's system calls shows. The
// same check is red for a server that does not sync its commits: a copy of the built program, changed in this test.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type ServerOptions, startServer } from "../server.js";
import { Client } from "../system-client.js";
import { type Plant, programWith } from "./planted-program.js";
import { type Judged, judge, traceWrites } from "./sync-trace.js";

/** Several at once, so that commits are shared; few, so that a commit fits into a page. */
const connections = 4;
const rounds = 40;

/** Grants and releases of fresh names on several connections at once, traced. */
async function traced(options: ServerOptions): Promise<Judged> {
  await using server = await startServer({ ...options, env: { HOLDFAST_RATE_LIMIT: "off" } });
  const tracer = await traceWrites(server.pid);
  const worker = async (_: unknown, index: number): Promise<void> => {
    const client = new Client(server.url, "secret-a", { sockets: 1 });
    for (let round = 0; round < rounds; round++) {
      const name = `synced-${index}-${String(round).padStart(4, "0")}`;
      const { body } = await client.acquire(name);
      assert.equal((await client.release(name, body.lease_id)).status, 200);
    }
    client.close();
  };
  await Promise.all(Array.from({ length: connections }, worker));
  const judged = judge(await tracer.stop());
  assert.equal(judged.replies, 2 * connections * rounds, "every reply is in the trace");
  return judged;
}

const acknowledge = 'say({ type: "committed", seq: batch.seq });';
const plants: readonly Plant[] = [
  ...(["OFF", "NORMAL"] as const).map((setting, level) => ({
    what: `synchronous=${setting}`,
    file: "engines/sqlite/schema.js",
    changes: [
      ["synchronous = FULL", `synchronous = ${setting}`],
      ["synchronous !== 2", `synchronous !== ${level}`],
    ] as const,
  })),
  {
    what: "a commit that is acknowledged before it is made",
    file: "engines/sqlite/writer.js",
    changes: [
      [acknowledge, ""],
      ['database.exec("COMMIT");\n    }\n    catch', `${acknowledge} database.exec("COMMIT");}catch`],
    ],
  },
];

test("no reply leaves before the sync that covers its commit", async () => {
  assert.deepEqual((await traced({})).early, []);
});

for (const plant of plants)
  test(`the same check is red with ${plant.what}`, async (t) => {
    const { early, replies } = await traced({ program: programWith(plant) });
    t.diagnostic(`${early.length} of ${replies} replies left too early, such as ${early[0]}`);
    assert.ok(early.length > replies / 10, `${early.length} of ${replies}`);
  });
