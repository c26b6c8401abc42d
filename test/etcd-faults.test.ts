// Three members of a real etcd under load while faults come and go: the leader is killed, a member is stopped and goes on, most of
// them are gone. What was acknowledged is never lost, nothing is acknowledged that was not done, and it recovers by itself.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { openStore } from "../src/engines/open.js";
import { type Store, StoreError } from "../src/store/store.js";
import { startEtcd } from "./etcd-lab.js";
import { bump, follow, take, tokenOf, told, until } from "./store-lab.js";

const lab = await startEtcd({ members: 3 });
after(() => lab.stop());

const deadlineMs = 5_000;
const names = ["a", "b", "c", "d", "e", "f"];

interface Tally {
  readonly acknowledged: Map<string, number[]>;
  unknown: number;
  refused: number;
  slowestMs: number;
  lastDoneAt: number;
}

/** Workers that count up names by either store until they are told to stop. */
function load(stores: readonly Store[]) {
  const tally: Tally = { acknowledged: new Map(), unknown: 0, refused: 0, slowestMs: 0, lastDoneAt: 0 };
  let isOn = true;
  const worker = async (n: number): Promise<void> => {
    const name = names[n % names.length] ?? "a";
    const store = stores[n % stores.length] ?? assert.fail();
    while (isOn) {
      const begun = performance.now();
      try {
        const token = await bump(store, name);
        tally.acknowledged.set(name, [...(tally.acknowledged.get(name) ?? []), token]);
        tally.lastDoneAt = performance.now();
      } catch (error) {
        assert.ok(
          error instanceof StoreError && ["unknown", "unavailable", "contended"].includes(error.kind),
          String(error),
        );
        if (error.kind === "unknown") tally.unknown++;
        else tally.refused++;
        await delay(50);
      }
      tally.slowestMs = Math.max(tally.slowestMs, performance.now() - begun);
    }
  };
  const all = Promise.all(Array.from({ length: 12 }, (_, n) => worker(n)));
  const stop = async (): Promise<Tally> => {
    isOn = false;
    await all;
    return tally;
  };
  return { tally, stop };
}

async function judge(store: Store, tally: Tally): Promise<void> {
  let [done, last] = [0, 0];
  for (const name of names) {
    const tokens = tally.acknowledged.get(name) ?? [];
    assert.equal(new Set(tokens).size, tokens.length, `${name}: a token was given twice`);
    const token = await tokenOf(store, name);
    assert.ok(token >= Math.max(0, ...tokens), `${name}: an acknowledged step is lost`);
    done += tokens.length;
    last += token;
  }
  assert.ok(done > 100, `${done} steps`);
  assert.ok(
    last >= done && last <= done + tally.unknown,
    `${last} done, ${done} acknowledged, ${tally.unknown} unknown`,
  );
}

test("the leader is killed, another is stopped and goes on: nothing is lost, nothing falsely told", async (t) => {
  const url = lab.url();
  const stores = [await openStore(url), await openStore(url)];
  const [one = assert.fail()] = stores;
  const over = new AbortController();
  const events = follow(one, await one.head(), over.signal);
  const seen: string[] = [];
  const watching = (async () => {
    for (;;) {
      const [change] = await take(events, 1);
      if (change === undefined) return;
      seen.push(told(change));
    }
  })();
  const { tally, stop } = load(stores);
  await delay(1_000);
  const leader = await lab.leader();
  await leader.kill();
  await delay(4_000);
  leader.start();
  await delay(2_000);
  const stopped = await lab.leader();
  stopped.signal("SIGSTOP");
  await delay(deadlineMs + 1_500); // longer than a call waits for its answer
  stopped.signal("SIGCONT");
  await delay(3_000);
  const at = performance.now();
  await until(() => tally.lastDoneAt > at, 5_000);
  await stop();
  t.diagnostic(JSON.stringify({ ...tally, acknowledged: undefined }));
  await judge(one, tally);
  assert.ok(tally.slowestMs < 2 * deadlineMs + 2_000, `${tally.slowestMs} ms`);
  // A step is told once, in the order of the tokens of its name, whether its caller heard of it or not.
  const expected = (await Promise.all(names.map((name) => tokenOf(one, name)))).reduce(
    (sum, n) => sum + n,
    0,
  );
  await until(() => seen.length >= expected);
  over.abort();
  await watching;
  assert.ok(!seen.includes("reset"));
  for (const name of names) {
    const own = seen.filter((word) => word.startsWith(`${name}=`)).map((word) => Number(word.slice(2)));
    assert.deepEqual(
      own,
      own.map((_, i) => i + 1),
    );
  }
  for (const store of stores) await store.close();
});

test("without a quorum every call ends in time, and goes on by itself when there is one again", async () => {
  const store = await openStore(lab.url());
  assert.equal(await bump(store, "a"), 1);
  const [first, second] = [lab.member(0), lab.member(1)];
  await first.kill();
  await second.kill();
  for (let i = 0; i < 3; i++) {
    const begun = performance.now();
    const kinds = await Promise.all(
      [bump(store, `x${i}`), tokenOf(store, "a"), store.ping(), store.head()].map((call) =>
        call.then(
          () => "done",
          (error) => (error instanceof StoreError ? error.kind : String(error)),
        ),
      ),
    );
    assert.ok(performance.now() - begun < 2 * deadlineMs, "in time");
    assert.ok(
      kinds.every((kind) => kind === "unavailable" || kind === "unknown"),
      kinds.join(),
    );
    assert.notEqual(kinds[1], "unknown", "who only reads cannot have done anything");
  }
  first.start();
  second.start();
  const begun = performance.now();
  await until(
    () =>
      bump(store, "a").then(
        () => true,
        () => false,
      ),
    20_000,
  );
  assert.ok(performance.now() - begun < 15_000);
  assert.ok((await tokenOf(store, "a")) >= 2);
  await store.close();
});

test("a member that is stopped holds nobody up who can ask another", async () => {
  const store = await openStore(lab.url());
  for (const member of lab.members) {
    if (member === (await lab.leader())) continue;
    member.signal("SIGSTOP");
    const begun = performance.now();
    await until(() =>
      bump(store, member.name).then(
        () => true,
        () => false,
      ),
    );
    assert.ok(performance.now() - begun < deadlineMs + 2_000);
    member.signal("SIGCONT");
    await delay(500);
  }
  await store.close();
});
