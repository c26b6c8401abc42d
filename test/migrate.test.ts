// `holdfast migrate` between every two engines, killed at every step and run again: one lease, one session and everything else are carried
// from store to store, nine times, and are what they were at each of them. Real servers before and after, on real databases.
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { type EtcdLab, startEtcd } from "./etcd-lab.js";
import {
  acquire,
  everything,
  type Held,
  killedAt,
  migrate,
  ok,
  other,
  type Seeded,
  seed,
  steps,
} from "./migrate-lab.js";
import { Postgres } from "./postgres-lab.js";
import { adminToken, call, type Reply, type Server, startServer, temporaryDir } from "./server.js";
import { holdfast } from "./system-program.js";

/** Each engine after each: the pairs of neighbours are all nine that there are. */
const way = [
  "sqlite",
  "sqlite",
  "postgres",
  "postgres",
  "etcd",
  "etcd",
  "postgres",
  "sqlite",
  "etcd",
  "sqlite",
] as const;
/** The clock of several servers may be that far behind: leases are longer by it. */
const longerMaxMs = 60_000;

let postgres: Postgres;
let etcd: EtcdLab;

before(async () => {
  [postgres, etcd] = await Promise.all([Postgres.start(), startEtcd()]);
});
after(async () => {
  await Promise.all([postgres.stop(), etcd.stop()]);
});

async function place(engine: (typeof way)[number]): Promise<string> {
  if (engine === "postgres") return postgres.database();
  return engine === "etcd" ? etcd.url() : `sqlite:${join(temporaryDir("holdfast-migrate-"), "holdfast.db")}`;
}

const start = (store: string): Promise<Server> => startServer({ args: ["--store", store] });

interface Look {
  readonly fencing_token: number;
  readonly expires_in_ms: number;
  readonly status: string;
}

/** What is left of a lease, at most: counted from before it was asked. */
async function leftOf(
  server: Server,
  { name }: Held,
): Promise<{ leftMs: number; at: number; token: number }> {
  const at = performance.now();
  const { expires_in_ms: leftMs, fencing_token: token } = await ok<Look>(server, "GET", `/locks/${name}`);
  return { leftMs, at, token };
}

test("from engine to engine, killed at every step", { timeout: 600_000 }, async (t) => {
  let store = await place(way[0]);
  let server = await start(store);
  const held: Seeded = await seed(server, adminToken);
  const kinds = new Set((await stopped(server, store)).map(({ record }) => record.kind));
  assert.deepEqual([...kinds].sort(), [
    "audit",
    "floor",
    "history",
    "lock",
    "node",
    "policy",
    "request",
    "session",
    "token",
    "token-name",
  ]);
  server = await start(store);
  for (const [i, engine] of way.slice(1).entries())
    await t.test(`${way[i]} to ${engine}`, async () => {
      const next = await place(engine);
      const short = await acquire(server, `short-${i}`, { ttl_seconds: 2 });
      const before = await leftOf(server, held.lease);
      if (way[i] === "sqlite") await server.stop();
      await killed(store, next);
      const { code, text, stdout } = await migrate(store, next);
      assert.equal(code, 0, text);
      const [was, is] = [await everything(store), await everything(next)];
      assert.deepEqual(is, was);
      const { counts, records, repeated } = JSON.parse(stdout).data;
      assert.equal(records, was.length);
      assert.equal(counts.lock, was.filter(({ record }) => record.kind === "lock").length);
      assert.equal(repeated, true, "the run that was killed at its last word had done it");
      await sealed(store, way[i] === "sqlite" ? null : server);
      server = await start(next);
      await unharmed(server, held, before);
      const taken = await acquire(server, short.name, { ttl_seconds: 1, wait_seconds: 30 });
      assert.equal(taken.fencing_token, short.fencing_token + 1);
      store = next;
    });
  await server.stop();
});

async function stopped(server: Server, store: string): ReturnType<typeof everything> {
  await server.stop();
  return everything(store);
}

/**
 * At each step once; each time the next run goes on from what the last one left. On a busy machine a run gets further before the kill
 * reaches it; what it has told of then needs not be told again.
 */
async function killed(from: string, to: string): Promise<void> {
  const told: string[] = [];
  for (const step of steps) {
    const { isReached, said } = await killedAt(from, to, step);
    const isPassed = told.some((line) => step.test(line));
    assert.ok(isReached || isPassed, `no step ${step} in:\n${said}`);
    told.push(...said.split("\n"));
  }
}

/** Nobody gets anything there any more. */
async function sealed(store: string, running: Server | null): Promise<void> {
  const { code, text } = await holdfast(["serve", "--store", store, "--port", "0"], {
    cwd: temporaryDir("holdfast-sealed-"),
  });
  assert.equal(code, 5, text);
  assert.match(
    text,
    /was moved to .*: point servers there, or run the same holdfast migrate again if it did/,
  );
  if (running === null) return;
  for (const [method, path] of [
    ["POST", "/locks/sealed/acquire"],
    ["GET", "/ready"],
    ["GET", "/locks/held"],
  ] as const) {
    const { status, body, headers }: Reply<Record<string, unknown>> = await call(running, method, path, {
      token: other,
      ...(method === "POST" ? { body: { ttl_seconds: 5 } } : {}),
    });
    assert.equal(status, 503, JSON.stringify(body));
    const details = String(body["details"]);
    // Anybody may ask whether it is ready, and is not told where the data is.
    if (path === "/ready") assert.equal(details, "The store cannot be used now; the server's log says why.");
    else {
      assert.match(details, /the data in (?:postgres:|etcd 127).* was moved to/);
      assert.doesNotMatch(details, /Try again/, "that cannot help");
      assert.equal(headers.get("retry-after"), null);
      assert.equal(body["retry_after_ms"], undefined);
    }
  }
  assert.match(running.stderr(), /was moved to/);
  running.kill("SIGKILL");
  await running.exited;
}

async function unharmed(
  server: Server,
  { lease, bound, sessionId }: Seeded,
  before: { leftMs: number; at: number; token: number },
): Promise<void> {
  const now = await leftOf(server, lease);
  assert.equal(now.token, lease.fencing_token);
  // Asked before and counted from there on: what is left has not become less by more than the time that passed.
  const passedMs = performance.now() - before.at;
  assert.ok(
    now.leftMs >= before.leftMs - passedMs - 50,
    `${now.leftMs} of ${before.leftMs} after ${passedMs}`,
  );
  assert.ok(now.leftMs <= before.leftMs + longerMaxMs, `${now.leftMs} of ${before.leftMs}`);
  for (const { name, lease_id } of [lease, bound]) {
    const refused = await call(server, "POST", `/locks/${name}/acquire`, {
      token: other,
      body: { ttl_seconds: 5 },
    });
    assert.equal(refused.body["status"], "held", JSON.stringify(refused.body));
    if (name === lease.name)
      await ok(server, "POST", `/locks/${name}/renew`, { lease_id, ttl_seconds: 3600 });
  }
  await ok(server, "POST", `/sessions/${sessionId}/keepalive`, {});
  // A repeat of the request is told of the same lease.
  const again = await acquire(server, "held", { ttl_seconds: 3600 }, { "idempotency-key": "held" });
  assert.deepEqual([again.lease_id, again.fencing_token], [lease.lease_id, lease.fencing_token]);
  const free = await ok<Look>(server, "GET", "/locks/free");
  const taken = await acquire(server, "free", { ttl_seconds: 60 });
  assert.equal(taken.fencing_token, free.fencing_token + 1);
  await ok(server, "POST", "/locks/free/release", { lease_id: taken.lease_id });
  const node = await ok<{ lease: { by: string } }>(server, "GET", "/v1/nodes/task-1");
  assert.equal(node.lease.by, "runner-1");
}
