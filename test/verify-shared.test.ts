// `holdfast verify` where several servers share a database: what they state of their clock is allowed for, and no more.
import assert from "node:assert/strict";
import { test } from "node:test";
import { verify } from "../src/verify/run.js";
import { mutex } from "../src/verify/workloads/mutex.js";
import type { Engine } from "./evidence/engines.js";
import { etcd } from "./evidence/etcd-engine.js";
import { type Plant, programWith } from "./evidence/planted-program.js";
import { postgres } from "./evidence/postgres-engine.js";
import { operator } from "./evidence/principals.js";
import type { Server, ServerOptions } from "./server.js";
import { holdfast } from "./system-program.js";

/** Two servers on a database of their own. */
async function started(engine: Engine, options: ServerOptions = {}): Promise<Server> {
  const first = await engine.start(options);
  const others: Server[] = [];
  for (const join of engine.more) others.push(await join(first, options));
  return {
    ...first,
    [Symbol.asyncDispose]: async () => {
      for (const other of others) await other[Symbol.asyncDispose]();
      await first[Symbol.asyncDispose]();
    },
  };
}

for (const engine of [postgres, etcd])
  test(`${engine.name}: servers that keep their promises are not accused`, async () => {
    await using server = await started(engine);
    const { code, stdout, stderr } = await holdfast(["verify", "--url", server.url, "--duration", "8s"], {
      env: { HOLDFAST_TOKEN: operator.bearer },
    });
    assert.match(
      stdout,
      /the servers share a clock: leases may last 500 ms longer, as they state, and \d+ ms/,
    );
    assert.match(stdout, /No violation found/, stderr);
    assert.equal(code, 0);
  });

const plants: readonly (Plant & { readonly breaks: readonly string[] })[] = [
  {
    what: "leases end before their time",
    file: "core/lease.js",
    changes: [["return earliest > endOf(lease, session);", "return earliest > endOf(lease, session) - 900;"]],
    breaks: ["I2", "I22"],
  },
  {
    what: "leases last far longer than is stated",
    file: "core/lease.js",
    changes: [
      ["return earliest > endOf(lease, session);", "return earliest > endOf(lease, session) + 4000;"],
    ],
    breaks: ["I3", "I16", "I28"],
  },
];

for (const { breaks, ...plant } of plants)
  test(`found out: ${plant.what}`, async (t) => {
    await using server = await started(postgres, { program: programWith(plant) });
    const options = { url: server.url, bearers: [operator.bearer], durationMs: 8000, workloads: [mutex] };
    const { workloads, outcome } = await verify(options);
    const found = workloads.flatMap(({ verdict }) => verdict.violations.map(({ invariant }) => invariant));
    t.diagnostic(`broken: ${[...new Set(found)].join(", ")}`);
    assert.equal(outcome, "violated");
    assert.ok(
      found.some((invariant) => breaks.includes(invariant)),
      found.join(", "),
    );
  });
