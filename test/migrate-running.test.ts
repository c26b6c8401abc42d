// Servers that still run on a store when `holdfast migrate` seals it: who waits there or listens is told soon, and the log says it once.
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { type EtcdLab, startEtcd } from "./etcd-lab.js";
import { watch } from "./http-stream.js";
import { acquire, migrate, ok, other, worker } from "./migrate-lab.js";
import { Postgres } from "./postgres-lab.js";
import { call, type Reply, startServer, temporaryDir } from "./server.js";
import { until } from "./store-lab.js";
import { logLines } from "./system-client.js";

/** A server says that it runs, and so looks at the data, at least this often, in ms; and some time to tell. */
const noticedWithinMs = 2000;

let postgres: Postgres;
let etcd: EtcdLab;

before(async () => {
  [postgres, etcd] = await Promise.all([Postgres.start(), startEtcd()]);
});
after(async () => {
  await Promise.all([postgres.stop(), etcd.stop()]);
});

for (const [engine, place] of [
  ["postgres", () => postgres.database()],
  ["etcd", async () => etcd.url()],
] as const)
  test(`${engine}: waiters and streams are told that the data was moved`, { timeout: 60_000 }, async () => {
    const store = await place();
    await using server = await startServer({ args: ["--store", store] });
    await acquire(server, "held", { ttl_seconds: 600 });
    const stream = await watch(server, "/watch", { token: other });
    await stream.synced();
    const answered = async (path: string, body: object): Promise<[number, Reply<{ details?: string }>]> => {
      const reply = await call<{ details?: string }>(server, "POST", path, { token: other, body });
      return [performance.now(), reply];
    };
    const waiting = [
      answered("/locks/held/acquire", { ttl_seconds: 60, wait_seconds: 50 }),
      answered("/jobs/held/claim", { ttl_seconds: 60, wait_seconds: 50 }),
      answered("/v1/queue/next", { wait_seconds: 50 }),
    ];
    await until(async () => (await ok<{ waiters: number }>(server, "GET", "/locks/held")).waiters === 2);
    const { length } = logLines(server);
    const { code, text } = await migrate(
      store,
      `sqlite:${join(temporaryDir("holdfast-running-"), "holdfast.db")}`,
    );
    assert.equal(code, 0, text);
    const moved = performance.now();
    for (const [at, { status, body }] of await Promise.all(waiting)) {
      assert.equal(status, 503, JSON.stringify(body));
      assert.match(JSON.stringify(body), /was moved to .*: point servers there/);
      assert.ok(at - moved < noticedWithinMs, `answered ${at - moved} ms after the end of the migration`);
    }
    await stream.ended;
    assert.ok(performance.now() - moved < noticedWithinMs);
    assert.equal(stream.frames.at(-1)?.event, "reconnect");
    for (const path of ["/ready", "/watch", "/locks/held/watch", "/locks"]) {
      const { status, body } = await call(server, "GET", path, { token: worker });
      assert.equal(status, 503, `${path}: ${JSON.stringify(body)}`);
      // Anybody may ask the first, and is not told where the data is.
      const says = path === "/ready" ? /The store cannot be used now/ : /was moved to/;
      assert.match(JSON.stringify(body), says);
    }
    assert.equal(await server.stop(), 0);
    const lines = logLines(server)
      .slice(length)
      .filter(({ level }) => level > 30);
    assert.deepEqual(
      lines.map(({ msg }) => msg.replace(/in .* was moved to .*\)/, "…")),
      [
        "the store fails: the data …: point servers there, or run the same holdfast migrate again if it did not finish",
      ],
    );
    assert.doesNotMatch(server.stderr(), /"stack"/);
  });
