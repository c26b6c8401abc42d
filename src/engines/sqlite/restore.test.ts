import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { copyFileSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { isStoreError } from "../../../test/conformance.js";
import { openSqlite } from "../../../test/sqlite-lab.js";
import {
  bump,
  claim,
  drafting,
  everything,
  follow,
  get,
  held,
  marker,
  putMarker,
  scratch,
  space,
  TurnedClocks,
  take,
  tokenOf,
} from "../../../test/store-lab.js";
import { decideAcquire } from "../../core/acquire.js";
import { historyKey, lockKey, nodeKey, requestKey, sessionKey, tokenKey } from "../../core/keys.js";
import type { Claim } from "../../core/lease.js";
import { policyDefault } from "../../core/limits.js";
import { decideClaim } from "../../core/nodes/claim.js";
import { decideCreateNode } from "../../core/nodes/edit.js";
import { decideRelease } from "../../core/release.js";
import { decideStartSession } from "../../core/session.js";
import type { Store } from "../../store/store.js";
import { openDatabase } from "./binding.js";
import { type Restored, restoreCopy } from "./restore.js";

const hash = (path: string): string => createHash("sha256").update(readFileSync(path)).digest("hex");

const ask = async (store: Store, asked: Claim) =>
  (await store.transact([], (view) => decideAcquire(view, asked, policyDefault))).outcome;

async function grant(store: Store, name: string, changes: Partial<Claim> = {}): Promise<number> {
  const outcome = await ask(store, claim(name, changes));
  if ("refused" in outcome) throw new Error(`${name}: ${outcome.refused}`);
  return outcome.granted.lock.token;
}

const restore = (path: string, clocks: TurnedClocks, quietMs?: number): Restored =>
  restoreCopy(path, {
    wallNow: clocks.wallAt,
    principal: "operator",
    recordRetentionMs: 86_400_000,
    auditRetentionMs: 1_000_000,
    auditId: "audit-1",
    ...(quietMs === undefined ? {} : { quietMs }),
  });

/** A store with something of everything, and a backup of it. */
async function backedUp(dir: string) {
  const clocks = new TurnedClocks();
  const store = await openSqlite({ path: join(dir, "data.db"), clocks });
  await store.transact([], (view) =>
    decideStartSession(
      view,
      { id: "s1", hash: "h1", space, principal: "runner-1", metadata: null, ttlMs: 30_000 },
      policyDefault,
    ),
  );
  await grant(store, "bound", { sessionId: "s1", ttlMs: null });
  await grant(store, "job", { request: { id: "r1", fingerprint: "f" } });
  await grant(store, "short", { ttlMs: 90_000, leaseId: "done" });
  await store.transact([], (view) =>
    decideRelease(
      view,
      {
        space,
        name: "short",
        principal: "runner-1",
        leaseId: "done",
        outcome: null,
        note: null,
        repeatable: false,
      },
      policyDefault,
    ),
  );
  await grant(store, "elsewhere", { space: "team" });
  await putMarker(store, marker("t1", "ci", "quiet-space"));
  const cursor = await store.head();
  const backup = join(dir, "backup.db");
  await store.backup(backup);
  return { clocks, store, backup, cursor };
}

test("a backup is a stamped copy that is not served as it is", async (t) => {
  const dir = scratch(t);
  const { store, backup, clocks } = await backedUp(dir);
  assert.equal(statSync(backup).mode & 0o777, 0o600);
  const before = hash(backup);
  await assert.rejects(
    openSqlite({ path: backup, clocks }),
    (error) => isStoreError("unsupported")(error) && /backup.*holdfast restore/.test(String(error)),
  );
  assert.equal(hash(backup), before);
  await assert.rejects(store.backup(backup), isStoreError("unavailable"));
  assert.equal(hash(backup), before, "a backup never overwrites");
  await assert.rejects(store.backup(join(dir, "missing", "backup.db")), isStoreError("unavailable"));
  assert.deepEqual(
    readdirSync(dir).filter((name) => /part/.test(name)),
    [],
  );
  assert.equal(await bump(store, "still-fine"), 1);
  await store.close();
});

test("a backup that is taken while others write is one moment of the data", async (t) => {
  const dir = scratch(t);
  const path = join(dir, "data.db");
  const store = await openSqlite({ path, backlogBytesMax: 20_000 });
  let stop = false;
  const pair = (i: number): Promise<number> =>
    store.transact(
      [],
      drafting((draft) => {
        const [a, b] = [lockKey(space, `a-${i}`), lockKey(space, `b-${i}`)];
        const token = (draft.get(a)?.token ?? 0) + 1;
        draft.get(b);
        draft.put(a, held(`a-${i}`, token));
        draft.put(b, held(`b-${i}`, token));
        return token;
      }),
    );
  const acked = new Array<number>(8).fill(0);
  const writers = acked.map(async (_, i) => {
    while (!stop) acked[i] = await pair(i);
  });
  for (let i = 0; i < 300; i++) await bump(store, `fill-${i}`);
  for (let round = 0; round < 3; round++) {
    const atStart = [...acked];
    const backup = join(dir, `backup-${round}.db`);
    await store.backup(backup);
    const atEnd = [...acked];
    const restored = restoreCopy(backup, {
      wallNow: Date.now(),
      principal: "p",
      recordRetentionMs: 86_400_000,
      auditRetentionMs: 1,
      auditId: "a",
      quietMs: 0,
    });
    assert.equal(restored.leasesEnded, 316);
    const copy = await openSqlite({ path: backup });
    for (let i = 0; i < acked.length; i++) {
      const token = await tokenOf(copy, `a-${i}`);
      assert.equal(await tokenOf(copy, `b-${i}`), token);
      assert.ok(token >= (atStart[i] ?? 0), "what was acknowledged before is in it");
      assert.ok(token <= (atEnd[i] ?? 0) + 1, "and nothing from after it");
    }
    await copy.close();
  }
  stop = true;
  await Promise.all(writers);
  await store.close();
});

test("closing during a backup refuses it and leaves no half of one under its name", async (t) => {
  const dir = scratch(t);
  const clocks = new TurnedClocks();
  const store = await openSqlite({ path: join(dir, "data.db"), clocks });
  for (let i = 0; i < 100; i++) await bump(store, `n-${i}`);
  const backup = store.backup(join(dir, "backup.db")).then(
    () => "done",
    (error) => (isStoreError("closed")(error) ? "refused" : String(error)),
  );
  await store.close();
  assert.match(await backup, /done|refused/);
  if (existsSync(join(dir, "backup.db")))
    assert.equal(restore(join(dir, "backup.db"), clocks).leasesEnded, 100);
});

test("a restored copy holds nothing, remembers no request, and says who restored it", async (t) => {
  const { store, backup, clocks } = await backedUp(scratch(t));
  await store.close();
  clocks.pass(5_000);
  const restored = restore(backup, clocks);
  assert.deepEqual(
    { leasesEnded: restored.leasesEnded, quietMs: restored.quietMs },
    { leasesEnded: 3, quietMs: 90_000 },
  );
  const copy = await openSqlite({ path: backup, clocks });
  assert.equal(copy.now(), store.now(), "the copy's time goes on");
  assert.equal(await get(copy, sessionKey(space, "s1")), null);
  assert.equal(await get(copy, requestKey(space, "runner-1", "r1")), null);
  assert.equal((await get(copy, tokenKey("t1")))?.name, "ci");
  for (const [name, inSpace] of [
    ["bound", space],
    ["job", space],
    ["elsewhere", "team"],
  ] as const) {
    const lock = await get(copy, lockKey(inSpace, name));
    assert.equal(lock?.lease, null);
    assert.deepEqual([lock?.previous?.how, lock?.previous?.by], ["forced", "operator"]);
  }
  const entries = [...(await everything(copy))];
  assert.deepEqual([...new Set(entries.map(([entry]) => entry.split("/")[0]))].toSorted(), [
    "audit",
    "gc",
    "token",
  ]);
  const audits = entries.flatMap(([entry, record]) =>
    entry.startsWith("audit/") && record.kind === "audit" ? [record] : [],
  );
  assert.deepEqual(audits.map((audit) => audit.space).toSorted(), [space, "quiet-space", "team"].toSorted());
  for (const audit of audits) {
    assert.deepEqual([audit.action, audit.principal, audit.id], ["restore", "operator", "audit-1"]);
    assert.match(audit.subject, /backup of 2023-11-14T22:13:20\.000Z/);
  }
  await copy.close();
});

test("a restored copy grants nothing while a lease of the original may live, unless told so", async (t) => {
  const dir = scratch(t);
  const { store, backup, clocks } = await backedUp(dir);
  await store.close();
  const eager = join(dir, "eager.db");
  copyFileSync(backup, eager);
  assert.equal(restore(backup, clocks).quietMs, 90_000);
  let copy = await openSqlite({ path: backup, clocks });
  for (const passMs of [0, 45_000, 45_000]) {
    clocks.pass(passMs);
    for (const name of ["job", "new"]) {
      const outcome = await ask(copy, claim(name));
      assert.ok(
        "refused" in outcome && outcome.refused === "delayed" && outcome.why === "restore",
        JSON.stringify(outcome),
      );
    }
    await copy.close();
    copy = await openSqlite({ path: backup, clocks });
  }
  clocks.pass(1);
  assert.ok((await grant(copy, "new")) > 0);
  await copy.close();
  assert.equal(restore(eager, clocks, 0).quietMs, 0);
  copy = await openSqlite({ path: eager, clocks });
  clocks.pass(1);
  assert.ok((await grant(copy, "job")) > 0);
  await copy.close();
});

test("tokens of a restored copy are above all that was granted since the backup, also by another restore of it", async (t) => {
  const dir = scratch(t);
  const { store, backup, clocks } = await backedUp(dir);
  let highest = 0;
  const claimAll = async (on: Store): Promise<void> => {
    for (const [name, inSpace] of [
      ["job", space],
      ["never-seen", space],
      ["elsewhere", "team"],
      ["first", "quiet-space"],
    ] as const)
      for (let i = 0; i < 20; i++) {
        clocks.pass(61_000);
        const token = await grant(on, name, { space: inSpace });
        assert.ok(token > (last.get(`${inSpace} ${name}`) ?? 0), `${name}: ${token}`);
        last.set(`${inSpace} ${name}`, token);
        highest = Math.max(highest, token);
      }
  };
  const last = new Map<string, number>();
  await claimAll(store);
  await store.close();
  for (let round = 1; round <= 3; round++) {
    const path = join(dir, `restored-${round}.db`);
    copyFileSync(backup, path);
    restore(path, clocks, 0);
    const copy = await openSqlite({ path, clocks });
    clocks.pass(1);
    await claimAll(copy);
    await copy.close();
  }
  assert.ok(highest < Number.MAX_SAFE_INTEGER / 10, "with room for many more restores");
});

test("tokens of a restored copy are above those that an older backup gave, which was restored first", async (t) => {
  const dir = scratch(t);
  const clocks = new TurnedClocks();
  const store = await openSqlite({ path: join(dir, "data.db"), clocks });
  const [older, newer] = [join(dir, "older.db"), join(dir, "newer.db")];
  await store.backup(older);
  clocks.pass(24 * 3_600_000);
  await grant(store, "job");
  await store.backup(newer);
  await store.close();
  const tokens: number[] = [];
  for (const path of [older, newer]) {
    clocks.pass(3_600_000);
    restore(path, clocks, 0);
    const copy = await openSqlite({ path, clocks });
    clocks.pass(1);
    tokens.push(await grant(copy, "job"));
    await copy.close();
  }
  const [first = 0, second = 0] = tokens;
  assert.ok(second > first, `${second} after ${first}`);
});

test("tokens rise though the clock is a little behind and the copy never had a grant; far behind is refused", async (t) => {
  const dir = scratch(t);
  const clocks = new TurnedClocks();
  const store = await openSqlite({ path: join(dir, "data.db"), clocks });
  const backup = join(dir, "backup.db");
  await store.backup(backup);
  for (let i = 0; i < 50; i++) await bump(store, "job");
  await store.close();
  clocks.step(-48 * 3_600_000);
  assert.throws(() => restore(backup, clocks, 0), /set the clock, then restore/);
  clocks.step(47.5 * 3_600_000);
  restore(backup, clocks, 0);
  const copy = await openSqlite({ path: backup, clocks });
  clocks.pass(1);
  assert.ok((await grant(copy, "job")) > 50);
  await copy.close();
});

test("a cursor from before the restore gets `reset`", async (t) => {
  const { store, backup, clocks, cursor } = await backedUp(scratch(t));
  await store.close();
  restore(backup, clocks, 0);
  const copy = await openSqlite({ path: backup, clocks });
  const over = new AbortController();
  const head = await copy.head();
  assert.notEqual(head.split("-")[0], cursor.split("-")[0]);
  const changes = follow(copy, cursor, over.signal);
  assert.deepEqual(await take(changes, 1), [{ cursor: head, reset: true }]);
  await bump(copy, "next");
  assert.equal((await take(changes, 1)).length, 1);
  over.abort();
  await copy.close();
});

test("only a backup can be restored, once, and anything else is not touched", async (t) => {
  const dir = scratch(t);
  const { store, backup, clocks } = await backedUp(dir);
  await store.close();
  restore(backup, clocks);
  const foreign = join(dir, "foreign.db");
  const database = openDatabase(foreign);
  database.exec("CREATE TABLE meta (key, value, sum); INSERT INTO meta VALUES ('stamp', 1, 1)");
  database.close();
  const text = join(dir, "text.txt");
  writeFileSync(text, "no database at all\n".repeat(100));
  for (const [path, kind] of [
    [backup, "unsupported"],
    [join(dir, "data.db"), "unsupported"],
    [foreign, "corrupt"],
    [text, "corrupt"],
  ] as const) {
    const before = hash(path);
    assert.throws(
      () => restore(path, clocks),
      (error) => isStoreError(kind)(error) && String(error).includes(path),
    );
    assert.equal(hash(path), before, path);
  }
  assert.throws(() => restore(join(dir, "missing.db"), clocks), isStoreError("unsupported"));
  assert.equal(existsSync(join(dir, "missing.db")), false);
});

test("a damaged backup is refused and stays a backup", async (t) => {
  const dir = scratch(t);
  const { store, backup, clocks } = await backedUp(dir);
  await store.close();
  const database = openDatabase(backup);
  database.exec(
    `UPDATE log SET writes = replace(writes, '"token":1', '"token":9'); UPDATE tree SET value = replace(value, '"token":1', '"token":9')`,
  );
  database.close();
  assert.throws(() => restore(backup, clocks), isStoreError("corrupt"));
  await assert.rejects(openSqlite({ path: backup, clocks }), isStoreError("unsupported"));
});

test("work that was claimed is in the queue again, and its history says why", async (t) => {
  const dir = scratch(t);
  const clocks = new TurnedClocks();
  const store = await openSqlite({ path: join(dir, "data.db"), clocks });
  const node = { space, principal: "ann", id: "a", type: "task", title: "a" };
  const plain = { summary: null, status: null, priority: null, project: null };
  await store.transact([], (view) => decideCreateNode(view, { ...node, ...plain }, policyDefault));
  const labels = { session: null, token: null, dispatch: null, rebind: false, request: null };
  const asked = { space, principal: "ann", id: "a", leaseId: "l1", ...labels };
  const claimed = await store.transact([], (view) => decideClaim(view, asked, policyDefault));
  assert.ok("edge" in claimed);
  const backup = join(dir, "backup.db");
  await store.backup(backup);
  await store.close();
  restore(backup, clocks, 0);
  const restored = await openSqlite({ path: backup, clocks });
  const record = await get(restored, nodeKey(space, "a"));
  assert.ok(record !== null);
  assert.deepEqual([record.claim, record.lapses], [null, 0]);
  assert.equal(
    (await get(restored, historyKey(space, "a", record.history)))?.reason,
    "restored from a backup",
  );
  const ready = await restored.list({ index: "ready", from: "", to: "\x7f", limit: 10 });
  assert.equal(ready.length, 2, "among all, and among its type");
  clocks.pass(1);
  const again = await restored.transact([], (view) =>
    decideClaim(view, { ...asked, principal: "bob", leaseId: "l2" }, policyDefault),
  );
  assert.ok("edge" in again && again.node.claim.token > claimed.node.claim.token);
  await restored.close();
});
