// The program itself on etcd: two servers share one, and both say so when it is gone and go on when it is back.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, test } from "node:test";
import { startEtcd } from "./etcd-lab.js";
import { call, type Server, startServer } from "./server.js";
import { until } from "./store-lab.js";
import { logLines } from "./system-client.js";

const lab = await startEtcd();
after(() => lab.stop());

const token = "secret-a";
const acquire = (server: Server, name: string) =>
  call(server, "POST", `/locks/${name}/acquire`, { token, body: { ttl_seconds: 30 } });

test("two servers on one etcd see the same leases, and outlive it", async () => {
  const args = ["--store", `etcd://${lab.endpoints}`];
  await using one = await startServer({ args });
  await using two = await startServer({ args });
  const first = await acquire(one, "job");
  assert.equal(first.body.status, "acquired");
  const second = await acquire(two, "job");
  assert.equal(second.body.status, "held");
  const { body: metrics } = await call<string>(one, "GET", "/metrics");
  const page = readFileSync(new URL("../../docs/etcd.md", import.meta.url), "utf8");
  const names = [...metrics.matchAll(/^holdfast_store\{.*what="(\w+)"/gm)].map(([, name]) => name);
  assert.ok(names.length > 5, metrics);
  assert.deepEqual(
    names.filter((name) => !page.includes(`\`${name}\``)),
    [],
    "not in the docs",
  );
  const member = lab.member(0);
  await member.kill();
  const begun = performance.now();
  const lost = await acquire(two, "other");
  assert.ok(performance.now() - begun < 9_000);
  assert.equal(lost.status, 503);
  assert.match(String(lost.body.code), /^(unavailable|unknown_outcome)$/);
  const details = String(lost.body["details"]);
  assert.doesNotMatch(details, /store's URL|is etcd running/, "callers cannot correct a URL");
  for (const path of ["/ready", "/health"]) {
    const { status, body } = await call(one, "GET", path);
    assert.equal(status, 503);
    assert.equal(body["details"], "The store cannot be used now; the server's log says why.");
  }
  assert.match(
    one.stderr(),
    new RegExp(`the store fails: .*127\\.0\\.0\\.1:${member.port} cannot be reached`),
  );
  member.start();
  await until(async () => (await call(one, "GET", "/ready")).status === 200);
  const again = await acquire(one, "job");
  assert.equal(again.body.status, "held", "a restart of etcd ends no lease");
  assert.equal((await acquire(two, "third")).body.status, "acquired");
  await until(() => /the store works again/.test(one.stderr()));
  const lines = logLines(one).filter(({ msg }) => /fails|works again/.test(msg));
  assert.equal(lines.length, 2, "once that it fails, and once that it works again");
  assert.match(lines[0]?.msg ?? "", /^the store fails: etcd: /);
  assert.doesNotMatch(one.stderr(), /"stack"/);
  await member.kill();
  assert.equal(await two.stop(), 0, "a stop does not wait for etcd");
});

test("an etcd that is not there, or refuses, is told in one line", async () => {
  for (const [store, says] of [
    ["etcd://127.0.0.1:1", /ECONNREFUSED/],
    ["etcd://127.0.0.1:1/?what=1", /no setting/],
  ] as const)
    await assert.rejects(startServer({ args: ["--store", store] }), says);
});
