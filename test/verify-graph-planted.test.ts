// What a green run of the workload `graph` is worth: servers with a bug planted in them are found out by it, one bug at
// a time; and a server that keeps its promises is not accused, whoever asks.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { verify } from "../src/verify/run.js";
import { graph } from "../src/verify/workloads/graph.js";
import { mutex } from "../src/verify/workloads/mutex.js";
import { type Plant, programWith } from "./evidence/planted-program.js";
import { adminToken, call, startServer } from "./server.js";

const seed = Math.floor(Math.random() * 2 ** 31);
/** Each has a server of its own, and waits more than it works. */
const concurrency = 3;
const durationMs = 6000;

interface Found {
  readonly plant: Plant;
  /** One of these is named. */
  readonly breaks: readonly string[];
}

const rows: readonly Found[] = [
  {
    plant: {
      what: "two holders: leases end before their time",
      file: "core/lease.js",
      changes: [["return now > endOf(lease, session);", "return now > endOf(lease, session) - 900;"]],
    },
    breaks: ["I2", "I16"],
  },
  {
    plant: {
      what: "a lapsed lease is renewed",
      file: "core/lease.js",
      changes: [["return now > endOf(lease, session);", "return now > endOf(lease, session) + 3000;"]],
    },
    breaks: ["I16", "I3"],
  },
  {
    plant: {
      what: "an edge without its history",
      file: "core/nodes/node.js",
      changes: [
        [
          "for (const happening of happenings) {",
          'for (const happening of happenings.filter(({ what }) => what !== "taken_over")) {',
        ],
      ],
    },
    breaks: ["I30", "I31"],
  },
  {
    plant: {
      what: "a token that goes back",
      file: "faces/http/node-views.js",
      changes: [["token: claim.token,", "token: 1000 - claim.token,"]],
    },
    breaks: ["I9"],
  },
  {
    plant: {
      what: "lapsed work stays out of the queue",
      file: "core/nodes/rank.js",
      changes: [["node.parked === null &&", "node.parked === null && node.lapses === 0 &&"]],
    },
    breaks: ["I32"],
  },
];

describe("found out by the workload", { concurrency }, () => {
  for (const { plant, breaks } of rows)
    test(plant.what, async (t) => {
      await using server = await startServer({ program: programWith(plant) });
      const bearers = [adminToken, "secret-a", "secret-b"];
      const options = { url: server.url, bearers, durationMs, workloads: [graph], seed };
      // The first that is found need not be the one that tells most.
      const { workloads } = await verify({ ...options, keepGoing: true });
      const named = workloads.flatMap(({ verdict }) => verdict.violations.map(({ invariant }) => invariant));
      t.diagnostic(`seed ${seed}: ${[...new Set(named)].sort().join(", ")}`);
      assert.ok(
        named.some((invariant) => breaks.includes(invariant)),
        `named: ${named.join(" ")}`,
      );
    });
});

interface PolicyBody {
  readonly types: Readonly<Record<string, unknown>>;
}

describe("a server that keeps its promises", { concurrency }, () => {
  test("is not accused, and has its policy back", async () => {
    await using server = await startServer();
    const policy = async (): Promise<PolicyBody> =>
      (await call<PolicyBody>(server, "GET", "/v1/policy", { token: adminToken })).body;
    const before = await policy();
    const bearers = [adminToken, "secret-a", "secret-b"];
    const result = await verify({ url: server.url, bearers, durationMs, workloads: [graph], seed });
    const [found] = result.workloads;
    assert.deepEqual(found?.verdict.violations, [], `seed ${seed}`);
    assert.deepEqual(found?.tooLittle, [], `seed ${seed}`);
    assert.deepEqual([result.outcome, result.leftBehind, result.leftOut], ["ok", [], []]);
    assert.deepEqual((await policy()).types, before.types);
    const queue = await call<{ items: unknown[] }>(server, "GET", "/v1/queue", { token: adminToken });
    assert.deepEqual(queue.body.items, []);
  });

  test("without an admin's token the workload is left out, and the result says so", async () => {
    await using server = await startServer();
    const options = { url: server.url, bearers: ["secret-a"], durationMs: 5000, seed };
    const { leftOut, workloads } = await verify({ ...options, workloads: [mutex, graph] });
    assert.deepEqual(
      workloads.map(({ workload }) => workload),
      ["mutex"],
    );
    assert.deepEqual(
      leftOut?.map(({ workload }) => workload),
      ["graph"],
    );
    assert.match(leftOut?.[0]?.why ?? "", /admin's token/);
    await assert.rejects(verify({ ...options, workloads: [graph] }), /graph: .*admin's token/);
  });
});
