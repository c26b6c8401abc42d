import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { openSqlite } from "../../../test/sqlite-lab.js";
import { bump, follow, scratch, TurnedClocks, take, tell, told, until } from "../../../test/store-lab.js";
import { openDatabase } from "./binding.js";

const words = (from: number, to: number): string[] =>
  Array.from({ length: to - from + 1 }, (_, i) => `word-${from + i}`);

/** Numbers of the events that are in the file. */
function stored(path: string): { first: number; last: number } | null {
  const database = openDatabase(path, { readOnly: true });
  try {
    const row = database
      .prepare("SELECT min(first) AS first, max(first + count - 1) AS last FROM feed")
      .get();
    return row?.first == null ? null : { first: Number(row.first), last: Number(row.last) };
  } finally {
    database.close();
  }
}

test("a follower that resumes after restarts misses nothing and sees nothing twice", async (t) => {
  const path = join(scratch(t), "data.db");
  const over = new AbortController();
  let store = await openSqlite({ path });
  let cursor = await store.head();
  const seen: string[] = [];
  let sent = 0;
  for (let restart = 0; restart < 4; restart++) {
    const more = words(sent + 1, sent + 30);
    sent += 30;
    await Promise.all(more.map((word) => tell(store, word)));
    // It has read only a part when the store goes away.
    for (const change of await take(follow(store, cursor, over.signal), 20)) {
      cursor = change.cursor;
      seen.push(told(change));
    }
    await store.close();
    store = await openSqlite({ path });
  }
  seen.push(...(await take(follow(store, cursor, over.signal), sent - seen.length)).map(told));
  assert.deepEqual(seen, words(1, sent));
  const live = follow(store, undefined, over.signal);
  await tell(store, "after");
  assert.deepEqual((await take(live, 1)).map(told), ["after"]);
  over.abort();
  await store.close();
});

test("what is no longer in memory is read from the file", async (t) => {
  const store = await openSqlite({ path: join(scratch(t), "data.db") });
  const start = await store.head();
  const over = new AbortController();
  const count = 20_000;
  for (let round = 0; round < 20; round++)
    await Promise.all(words(round * 1000 + 1, round * 1000 + 1000).map((word) => tell(store, word)));
  const all = await take(follow(store, start, over.signal), count);
  assert.deepEqual(all.map(told), words(1, count));
  over.abort();
  await store.close();
});

test("events beyond the wanted number go, and whoever needs them is told", async (t) => {
  const path = join(scratch(t), "data.db");
  let store = await openSqlite({ path, feedEventsMax: 100 });
  const start = await store.head();
  const over = new AbortController();
  for (const word of words(1, 250)) await tell(store, word);
  await until(() => stored(path)?.first === 151);
  await store.close();
  store = await openSqlite({ path, feedEventsMax: 100 });
  const head = await store.head();
  const [epoch] = head.split("-");
  assert.deepEqual(await take(follow(store, start, over.signal), 1), [{ cursor: head, reset: true }]);
  assert.deepEqual(await take(follow(store, `${epoch}-149`, over.signal), 1), [
    { cursor: head, reset: true },
  ]);
  assert.deepEqual((await take(follow(store, `${epoch}-150`, over.signal), 100)).map(told), words(151, 250));
  over.abort();
  await store.close();
});

test("events that are too old go, and whoever needs them is told, also when none is left", async (t) => {
  const path = join(scratch(t), "data.db");
  const clocks = new TurnedClocks();
  let store = await openSqlite({ path, clocks, feedAgeMaxMs: 60_000 });
  const start = await store.head();
  const over = new AbortController();
  for (const word of words(1, 5)) await tell(store, word);
  clocks.pass(30_000);
  for (const word of words(6, 10)) await tell(store, word);
  clocks.pass(30_001);
  await bump(store, "a write");
  await until(() => stored(path)?.first === 6);
  assert.equal((await take(follow(store, start, over.signal), 1)).length, 1);
  clocks.pass(600_000);
  await store.transact([], () => ({
    reply: 0,
    events: [],
    writes: [{ key: "x", record: null, drop: [], add: [] }],
  }));
  await until(() => stored(path) === null);
  await store.close();
  store = await openSqlite({ path, clocks, feedAgeMaxMs: 60_000 });
  const head = await store.head();
  assert.equal(head, start.replace(/0$/, "11"), "numbers go on though the events are gone");
  assert.deepEqual(await take(follow(store, start, over.signal), 1), [{ cursor: head, reset: true }]);
  const late = follow(store, head, over.signal);
  await tell(store, "next");
  assert.deepEqual((await take(late, 1)).map(told), ["next"]);
  over.abort();
  await store.close();
});

test("under a load that never pauses, old events go all the same", async (t) => {
  const path = join(scratch(t), "data.db");
  const store = await openSqlite({ path, feedEventsMax: 200 });
  let stop = false;
  const load = Array.from({ length: 8 }, async (_, i) => {
    while (!stop) await bump(store, `n-${i}`);
  });
  let events = 0;
  await until(async () => {
    events = (await store.gauges()).events_total ?? 0;
    return events > 3000;
  });
  const kept = stored(path);
  stop = true;
  await Promise.all(load);
  assert.ok(kept !== null && kept.last - kept.first < 1500, JSON.stringify(kept));
  await store.close();
});
