// What becomes of data in etcd over compaction, removal, a restore from a snapshot and a move to another store.
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { tokenKey } from "../src/core/keys.js";
import { policyDefault } from "../src/core/limits.js";
import { openEtcdData } from "../src/engines/etcd/open.js";
import { readEtcdUrl } from "../src/engines/etcd/url.js";
import { openStore } from "../src/engines/open.js";
import { Leases } from "../src/service/leases.js";
import type { Store } from "../src/store/store.js";
import { isStoreError } from "./conformance.js";
import { freePorts, startEtcd } from "./etcd-lab.js";
import {
  bump,
  claim,
  follow,
  get,
  marker,
  putMarker,
  scratch,
  space,
  take,
  tokenOf,
  told,
  until,
} from "./store-lab.js";

const lab = await startEtcd();
after(() => lab.stop());

const limits = { waitersMax: 10, waitersPerNameMax: 10, waitersPerPrincipalMax: 10, ticketMs: 10_000 };
const dataOf = (url: string) => openEtcdData(readEtcdUrl(url.slice("etcd:".length)));

/** Forgets all of etcd's history up to now. */
function compact(): void {
  const [status] = JSON.parse(lab.ctl("endpoint", "status", "-w", "json"));
  lab.ctl("compact", String(status.Status.header.revision));
}

test("tokens go on after a name was forgotten and its history compacted", async () => {
  const store = await openStore(lab.url());
  const policy = { ...policyDefault, recordRetentionMs: 1 };
  const leases = new Leases(store, policy, limits, (what, error) => assert.fail(`${what}: ${error}`));
  leases.start();
  const seen: number[] = [];
  for (let i = 0; i < 4; i++) {
    const leaseId = `l-${i}`;
    const { outcome } = await leases.acquire(claim("job", { leaseId }), null);
    seen.push("granted" in outcome ? outcome.granted.lock.token : assert.fail());
    const call = { space, name: "job", principal: "runner-1", leaseId, outcome: null, note: null };
    await leases.release({ ...call, repeatable: false });
    await until(() => leases.upkeep.cleaned > i);
    compact();
  }
  assert.deepEqual(
    seen,
    seen.toSorted((a, b) => a - b),
  );
  assert.equal(new Set(seen).size, 4);
  leases.close();
  await store.close();
});

test("a place in the feed that was compacted is told as `reset`; those at the end notice nothing", async () => {
  const url = lab.url();
  const [one, two] = [await openStore(url), await openStore(url)];
  const over = new AbortController();
  const start = await one.head();
  for (let i = 0; i < 5; i++) await bump(one, "a");
  const atEnd = follow(two, await two.head(), over.signal);
  const early = await openStore(url); // has read nothing of it yet
  assert.deepEqual((await take(follow(early, start, over.signal), 5)).map(told), [
    "a=1",
    "a=2",
    "a=3",
    "a=4",
    "a=5",
  ]);
  await delay(1_500); // the clock moves on, so that the last event is compacted, too
  compact();
  const late = await openStore(url);
  assert.deepEqual((await take(follow(late, start, over.signal), 1)).map(told), ["reset"]);
  await bump(one, "a");
  assert.deepEqual((await take(atEnd, 1)).map(told), ["a=6"]);
  over.abort();
  for (const store of [one, two, early, late]) await store.close();
});

test("a watch that was away while its place was compacted goes on if nothing happened, else says `reset`", async () => {
  const url = lab.url();
  const [one, two] = [await openStore(url), await openStore(url)];
  const over = new AbortController();
  await bump(one, "a");
  const events = follow(two, await two.head(), over.signal);
  const member = lab.member(0);
  await delay(500);
  await member.kill();
  member.start();
  await until(() =>
    bump(one, "b").then(
      () => true,
      () => false,
    ),
  );
  compact();
  const words: string[] = [];
  while (!words.includes("b=9")) {
    words.push(...(await take(events, 1)).map(told));
    if (words.at(-1) === "reset" || words.at(-1)?.startsWith("b=1"))
      for (let i = 0; i < 8; i++) await bump(one, "b");
  }
  assert.ok(words[0] === "reset" || words[0] === "b=1", words.join());
  over.abort();
  for (const store of [one, two]) await store.close();
});

test("what is too many bytes for one transaction goes in several; one step that is, is refused", async () => {
  const store = await openStore(lab.url());
  const large = (i: number, bytes: number) => ({ ...marker(`m-${i}`, `s-${i}`), hash: "x".repeat(bytes) });
  await Promise.all(Array.from({ length: 24 }, (_, i) => putMarker(store, large(i, 200_000))));
  const rows = await store.list({ index: "token", from: "", to: "\x7f", limit: 100 });
  assert.equal(rows.length, 24);
  await assert.rejects(putMarker(store, large(99, 1_700_000)), isStoreError("unsupported"));
  await assert.rejects(putMarker(store, large(98, 9_000_000)), isStoreError("unsupported"));
  assert.equal(await bump(store, "a"), 1);
  await store.close();
});

test("data that was moved refuses everything, also on servers that run, for ever", async () => {
  const url = lab.url();
  const store = await openStore(url);
  assert.equal(await bump(store, "a"), 1);
  const data = await dataOf(url);
  await data.seal("postgres://elsewhere");
  for (const call of [() => bump(store, "a"), () => tokenOf(store, "a"), () => store.ping()])
    await assert.rejects(
      call,
      (error) => isStoreError("unavailable")(error) && /moved to postgres/.test(String(error)),
    );
  await assert.rejects(openStore(url), /moved to postgres/);
  await data.close();
  await store.close();
});

test("data of a newer format, and keys that are not ours, are refused", async () => {
  lab.ctl("put", "newer/m", '{"format":2}');
  lab.ctl("put", "strange/m", "hello");
  await assert.rejects(openStore(lab.url("newer/")), isStoreError("unsupported"));
  await assert.rejects(openStore(lab.url("strange/")), isStoreError("corrupt"));
});

test("a cluster that was restored from a snapshot gives no token twice, though its id is the same", async (t) => {
  const ports = await freePorts(1);
  const before = await startEtcd({ ports });
  const url = before.url("data/");
  const dir = scratch(t);
  const leasesOn = (store: Store) => new Leases(store, policyDefault, limits, () => undefined);
  const grant = async (store: Store, name: string): Promise<number> => {
    const { outcome } = await leasesOn(store).acquire(claim(name), null);
    return "granted" in outcome ? outcome.granted.lock.token : assert.fail(JSON.stringify(outcome));
  };
  const metaOn = (cluster: typeof before): Record<string, unknown> =>
    JSON.parse(cluster.ctl("get", "--print-value-only", "data/m"));
  await (await openStore(url)).close();
  before.ctl("put", "data/m", JSON.stringify({ ...metaOn(before), origin: "a migration" }));
  const store = await openStore(url);
  const [epoch] = (await store.head()).split("-");
  await grant(store, "held-before");
  await bump(store, "free-for-all");
  before.ctl("snapshot", "save", join(dir, "snapshot"));
  const lost: number[] = [];
  for (let i = 0; i < 5; i++) lost.push(await bump(store, "free-for-all"));
  await grant(store, "lost");
  const member = before.member(0);
  const restore = (name: string): ReturnType<typeof startEtcd> => {
    const restored = join(dir, name);
    before.ctl(
      ...["snapshot", "restore", join(dir, "snapshot"), "--data-dir", restored, "--name", "m0"],
      ...["--initial-cluster", `m0=http://127.0.0.1:${member.peerPort}`],
      ...["--initial-advertise-peer-urls", `http://127.0.0.1:${member.peerPort}`],
    );
    return startEtcd({ ports, dataDirs: [restored] });
  };
  await member.kill();
  const again = await restore("restored");
  await assert.rejects(
    until(() =>
      bump(store, "x").then(
        () => true,
        (error) => (/restart this server/.test(String(error)) ? Promise.reject(error) : false),
      ),
    ),
    /restart this server/,
  );
  const warnings: string[] = [];
  const anew = await openStore(url, { onWarning: (what) => warnings.push(what) });
  assert.match(warnings.join(), /restored from a snapshot/);
  assert.equal(metaOn(again)["origin"], "a migration", "who migrated it is still told that it is done");
  assert.ok((await grant(anew, "lost")) > 2 ** 32, "tokens go on above all that can have been given");
  assert.ok((await grant(anew, "new")) > 2 ** 32);
  const { holding } = await leasesOn(anew).inspect(space, "held-before");
  assert.equal(holding?.lock.token, 1, "a lease that it knows goes on");
  assert.notEqual((await anew.head()).split("-")[0], epoch, "its feed is another one");
  await anew.close();
  const second: string[] = [];
  const calm = await openStore(url, { onWarning: (what) => second.push(what) });
  assert.deepEqual(second, [], "it is this cluster's data now");
  const high = await grant(calm, "given-after");
  await calm.close();
  await store.close();
  await again.member(0).kill();
  const oncemore = await restore("restored-again");
  const last = await openStore(url);
  assert.ok((await grant(last, "given-after")) > high, "also of a second restore of the same snapshot");
  await last.close();
  await before.stop();
  await again.stop();
  await oncemore.stop();
});

test("what is said not to be done for lack of space is not, and what is done is said to be", async (t) => {
  const full = await startEtcd({ args: ["--quota-backend-bytes", "6000000"] });
  t.after(() => full.stop());
  const url = full.url();
  const stores = [await openStore(url), await openStore(url)];
  const ends = new Map<string, string>();
  const large = "x".repeat(20_000);
  const worker = async (w: number): Promise<void> => {
    for (let i = 0; ends.size < 4000; i++) {
      const id = `w-${w}-${i}`;
      const store = stores[w % 2] ?? assert.fail();
      const end = await putMarker(store, { ...marker(id, id), hash: large }).then(
        () => "done",
        (error: { kind?: string }) => error.kind ?? String(error),
      );
      ends.set(id, end);
      if (end !== "done" && i > 3) return;
    }
  };
  await Promise.all(Array.from({ length: 24 }, (_, w) => worker(w)));
  const counts: Record<string, number> = {};
  for (const [id, end] of ends) {
    counts[end] = (counts[end] ?? 0) + 1;
    const isThere = (await get(stores[0] ?? assert.fail(), tokenKey(id))) !== null;
    if (end === "done") assert.ok(isThere, `${id} was done`);
    if (end === "unavailable") assert.ok(!isThere, `${id} was certainly not done`);
  }
  t.diagnostic(JSON.stringify(counts));
  assert.ok((counts.unavailable ?? 0) > 0);
  for (const store of stores) await store.close();
});

test("etcd out of space is told with what to do, and goes on once there is some", async (t) => {
  const full = await startEtcd({ args: ["--quota-backend-bytes", "3000000"] });
  t.after(() => full.stop());
  const store = await openStore(full.url());
  const large = { ...marker("m", "s"), hash: "x".repeat(300_000) };
  await assert.rejects(
    async () => {
      for (let i = 0; i < 30; i++) await putMarker(store, large);
    },
    (error) => isStoreError("unavailable")(error) && /compact and defragment/.test(String(error)),
  );
  await store.ping();
  const [status] = JSON.parse(full.ctl("endpoint", "status", "-w", "json"));
  full.ctl("compact", String(status.Status.header.revision));
  full.ctl("defrag");
  full.ctl("alarm", "disarm");
  assert.equal(await bump(store, "a"), 1);
  await store.close();
});
