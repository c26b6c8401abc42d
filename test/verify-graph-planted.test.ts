// What a green run of the workload `graph` is worth: servers with a bug planted in them are found out by it, one bug at
// a time; and a server that keeps its promises is not accused, whoever asks.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { verify } from "../src/verify/run.js";
import { graph } from "../src/verify/workloads/graph.js";
import { mutex } from "../src/verify/workloads/mutex.js";
import { type Plant, programWith } from "./evidence/planted-program.js";
import { adminToken, call, type Server, startServer } from "./server.js";

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
      changes: [
        ["return earliest > endOf(lease, session);", "return earliest > endOf(lease, session) - 900;"],
      ],
    },
    breaks: ["I2", "I16"],
  },
  {
    plant: {
      what: "a lapsed lease is renewed",
      file: "core/lease.js",
      changes: [
        ["return earliest > endOf(lease, session);", "return earliest > endOf(lease, session) + 3000;"],
      ],
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
      const bearers = [await adminOf(server), "secret-a", "secret-b"];
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

const policyOf = async (server: Server): Promise<PolicyBody> =>
  (await call<PolicyBody>(server, "GET", "/v1/policy", { token: adminToken })).body;

async function adminOf(server: Server): Promise<string> {
  const body = { name: "admin", role: "admin" };
  return (await call<{ token: string }>(server, "POST", "/tokens", { token: adminToken, body })).body.token;
}

describe("a server that keeps its promises", { concurrency }, () => {
  test("is not accused, and who works there notices nothing", async () => {
    await using server = await startServer();
    const before = await policyOf(server);
    const over = new AbortController();
    // A worker that takes whatever work there is.
    const worker = async (): Promise<void> => {
      for (const body = { wait_seconds: 1 }; !over.signal.aborted; ) {
        const next = await call(server, "POST", "/v1/queue/next", { token: "secret-b", body });
        assert.equal(next.body["status"], "empty");
      }
    };
    const working = worker();
    const bearers = [adminToken, "secret-a"];
    const result = await verify({ url: server.url, bearers, durationMs, workloads: [graph], seed });
    over.abort();
    await working;
    const [found] = result.workloads;
    assert.deepEqual(found?.verdict.violations, [], `seed ${seed}`);
    assert.deepEqual(found?.tooLittle, [], `seed ${seed}`);
    assert.deepEqual([result.outcome, result.leftBehind, result.leftOut], ["ok", [], []]);
    assert.deepEqual(await policyOf(server), before);
    const nodes = await call<{ nodes: unknown[] }>(server, "GET", "/v1/nodes", { token: adminToken });
    assert.deepEqual(nodes.body.nodes, []);
  });

  test("with an admin's token the workload runs where it is named, and the policy is as before", async () => {
    await using server = await startServer();
    const before = await policyOf(server);
    const bearers = [await adminOf(server), "secret-a", "secret-b"];
    const result = await verify({ url: server.url, bearers, durationMs, workloads: [graph], seed });
    assert.deepEqual([result.outcome, result.leftBehind, result.leftOut], ["ok", [], []], `seed ${seed}`);
    assert.deepEqual((await policyOf(server)).types, before.types);
    const queue = await call<{ items: unknown[] }>(server, "GET", "/v1/queue", { token: adminToken });
    assert.deepEqual(queue.body.items, []);
  });

  test("with an admin's token it is left out where nobody named it", async () => {
    await using server = await startServer();
    const over = AbortSignal.abort();
    const bearers = [await adminOf(server)];
    const { leftOut } = await verify({ url: server.url, bearers, durationMs, seed, signal: over });
    assert.deepEqual(
      leftOut?.map(({ workload }) => workload),
      ["graph"],
    );
    assert.match(leftOut?.[0]?.why ?? "", /may be handed one of its nodes/);
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
