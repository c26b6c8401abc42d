// A data file of every released schema opens, shows what was in it, and goes on from there. See data/make.ts.
import assert from "node:assert/strict";
import { copyFileSync, existsSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { decideAcquire } from "../src/core/acquire.js";
import { auditKey, lockKey, requestKey, sessionKey, tokenKey, tokenNameKey } from "../src/core/keys.js";
import type { Claim } from "../src/core/lease.js";
import { policyDefault } from "../src/core/limits.js";
import { decideKeepalive } from "../src/core/session.js";
import { openDatabase } from "../src/engines/sqlite/binding.js";
import { schemaVersion } from "../src/engines/sqlite/schema.js";
import type { Store } from "../src/store/store.js";
import { openSqlite } from "./sqlite-lab.js";
import { claim, everything, follow, get, scratch, space, TurnedClocks, take } from "./store-lab.js";

const stored = (version: number): string =>
  fileURLToPath(new URL(`../../test/data/schema-${version}.db`, import.meta.url));

/** As the file was made, and a second later. */
function clocksAfter(): TurnedClocks {
  const clocks = new TurnedClocks();
  clocks.pass(6_000);
  return clocks;
}

const grant = async (store: Store, name: string, changes: Partial<Claim>) =>
  (await store.transact([], (view) => decideAcquire(view, claim(name, changes), policyDefault))).outcome;

async function assertContents(store: Store): Promise<void> {
  const job = await get(store, lockKey(space, "job"));
  assert.equal(job?.token, 2);
  assert.equal(job?.lease?.id, "lease-job-2");
  assert.equal(job?.lease?.metadata, "größe 100%");
  assert.equal(job?.lease?.expiresAt, 1_700_000_005_000 + 3_600_000);
  assert.deepEqual([job?.previous?.how, job?.previous?.token], ["released", 1]);
  assert.equal((await get(store, lockKey(space, "path:docs/größe 100%.txt")))?.lease?.principal, "runner-2");
  assert.equal((await get(store, lockKey(space, "bound")))?.lease?.sessionId, "session-1");
  const delayed = await get(store, lockKey(space, "delayed"));
  assert.deepEqual([delayed?.lease, delayed?.availableAt], [null, 1_700_000_030_000]);
  const session = await get(store, sessionKey(space, "session-1"));
  assert.deepEqual([session?.principal, session?.leases, session?.ended], ["runner-1", 1, null]);
  const request = await get(store, requestKey(space, "runner-1", "request-1"));
  assert.deepEqual([request?.leaseId, request?.token, request?.fingerprint], ["lease-job-2", 2, "print-1"]);
  assert.deepEqual((await get(store, tokenKey("token-1")))?.scopes, ["ci-*"]);
  assert.equal((await get(store, tokenNameKey("team", "ci")))?.id, "token-1");
  assert.equal((await get(store, auditKey(space, "audit-1")))?.reason, "stuck");
  const heldNames = [...(await everything(store)).keys()].filter((entry) => entry.startsWith("held/"));
  assert.deepEqual(
    heldNames,
    ["bound", "job", "path:docs/gr%C3%B6%C3%9Fe 100%25.txt"].map((name) => `held/${space}/${name}`),
  );
}

test("there is a stored file of every schema", () => {
  for (let version = 1; version <= schemaVersion; version++)
    assert.ok(existsSync(stored(version)), stored(version));
});

test("the stored file of schema 1 has something in the tree and something in the log", (t) => {
  const path = join(scratch(t), "data.db");
  copyFileSync(stored(1), path);
  const database = openDatabase(path, { readOnly: true });
  const count = (table: string): unknown =>
    Object.values(database.prepare(`SELECT count(*) FROM ${table}`).get() ?? {})[0];
  assert.equal(count("log"), 2);
  assert.ok(Number(count("tree")) > 10);
  assert.ok(Number(count("feed")) > 5);
  database.close();
});

for (let version = 1; version <= schemaVersion; version++)
  test(`a file of schema ${version} opens, shows what is in it, and goes on`, async (t) => {
    const path = join(scratch(t), "data.db");
    copyFileSync(stored(version), path);
    const clocks = clocksAfter();
    for (let start = 1; start <= 3; start++) {
      const store = await openSqlite({ path, clocks });
      assert.equal(store.now(), 1_700_000_006_000);
      await assertContents(store);
      const [epoch, last] = (await store.head()).split("-");
      const over = new AbortController();
      const events = await take(follow(store, `${epoch}-0`, over.signal), Number(last));
      over.abort();
      const names = events.flatMap((change) =>
        "event" in change && "name" in change.event ? [`${change.event.type} ${change.event.name}`] : [],
      );
      assert.deepEqual(names, [
        "acquired bound",
        "acquired job",
        "released job",
        "acquired delayed",
        "released delayed",
        "acquired job",
        "acquired path:docs/größe 100%.txt",
      ]);
      await store.close();
    }
    const store = await openSqlite({ path, clocks });
    t.after(() => store.close());
    const repeat = await grant(store, "job", { request: { id: "request-1", fingerprint: "print-1" } });
    assert.ok(
      !("refused" in repeat) && repeat.granted.lock.lease.id === "lease-job-2",
      "the same request gets the same lease",
    );
    const other = await grant(store, "job", {});
    assert.ok("refused" in other && other.refused === "held");
    const alive = await store.transact([], (view) =>
      decideKeepalive(view, { space, principal: "runner-1", id: "session-1" }, policyDefault),
    );
    assert.ok(!("refused" in alive));
    clocks.pass(3_600_000);
    const next = await grant(store, "job", {});
    assert.ok(!("refused" in next) && next.granted.lock.token === 3);
  });
