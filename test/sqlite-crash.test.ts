// kill -9 at any moment: what was acknowledged is there, and nobody else had the file meanwhile.
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { MemoryStore } from "../src/engines/memory/store.js";
import type { SqliteOptions } from "../src/engines/sqlite/open.js";
import type { Cursor } from "../src/store/store.js";
import { isStoreError } from "./conformance.js";
import { assertSame, narrow, randomWrites, wide } from "./random-writes.js";
import { openSqlite } from "./sqlite-lab.js";
import { SqliteChild } from "./sqlite-process.js";
import { bump, follow, scratch, seeded, take, tokenOf, told } from "./store-lab.js";

const rounds = 10;
const callers = 12;

test("a second process on the same file is refused and told who has it; after kill -9 of that one it gets it", async (t) => {
  const path = join(scratch(t), "data.db");
  const first = new SqliteChild(path, ["hold"]);
  await first.said(1);
  for (let attempt = 0; attempt < 2; attempt++)
    await assert.rejects(openSqlite({ path }), (error) => {
      assert.ok(isStoreError("unavailable")(error));
      const message = String(error);
      assert.ok(
        message.includes(path) && message.includes(`process ${first.pid}`) && message.includes("in use"),
        message,
      );
      return true;
    });
  const second = new SqliteChild(path, ["hold"]);
  await second.ended;
  assert.match(second.errors, /in use by another Holdfast process/);
  assert.deepEqual(second.lines, []);
  await first.kill();
  const store = await openSqlite({ path });
  assert.equal(await bump(store, "a"), 1);
  await store.close();
});

/** What the child said: the last token acknowledged for each name. */
function acknowledged(lines: readonly string[]): Map<string, number> {
  const acks = new Map<string, number>();
  for (const line of lines) {
    const [word, name = "", token] = line.split(" ");
    if (word === "ack") acks.set(name, Number(token));
  }
  return acks;
}

test(`kill -9 under load, ${rounds} times: every acknowledged write is there, tokens go on, the feed has no gap`, async (t) => {
  const path = join(scratch(t), "data.db");
  const seed = Date.now() % 1_000_000;
  const random = seeded(seed);
  const tokens = new Map<string, number>();
  const seen = new Map<string, number>();
  let cursor: Cursor | undefined;
  let writes = 0;
  for (let round = 0; round < rounds; round++) {
    // Every other round moves slices into the tree all the time, so that some kills hit one of those.
    const options: Partial<SqliteOptions> = round % 2 ? { backlogBytesMax: 3_000, cacheRecordsMax: 5 } : {};
    const what = `seed ${seed}, round ${round}`;
    const child = new SqliteChild(path, ["load", String(callers)], options);
    if (round % 5 === 4) await delay(random(150));
    else {
      await child.said(2 + random(400));
      await delay(random(30));
    }
    await child.kill();
    for (const [name, token] of acknowledged(child.lines)) {
      assert.ok(token > (tokens.get(name) ?? 0), `${what}: ${name} went on rising`);
      tokens.set(name, token);
    }
    writes += child.lines.length;

    const store = await openSqlite({ path, ...options });
    cursor ??= `${(await store.head()).split("-")[0]}-0`;
    let total = 0;
    for (let i = 0; i < callers; i++) {
      const name = `n-${i}`;
      const token = await tokenOf(store, name);
      const acked = tokens.get(name) ?? 0;
      assert.ok(
        token === acked || token === acked + 1,
        `${what}: ${name} has ${token}, acknowledged was ${acked}`,
      );
      tokens.set(name, token);
      total += token;
    }
    const over = new AbortController();
    const fresh = total - [...seen.values()].reduce((sum, token) => sum + token, 0);
    for (const change of await take(follow(store, cursor, over.signal), fresh)) {
      const [name = "", token] = told(change).split("=");
      assert.equal(Number(token), (seen.get(name) ?? 0) + 1, `${what}: ${name} in the feed`);
      seen.set(name, Number(token));
      cursor = change.cursor;
    }
    assert.equal(await store.head(), cursor, `${what}: one event per write`);
    over.abort();
    await store.close();
  }
  assert.ok(writes > 100, `${writes} writes are too few to mean anything`);
});

for (const [what, breadth] of [
  ["few names", narrow],
  ["more names than one slice takes", wide],
] as const)
  test(`after kill -9 a store holds exactly the steps up to some moment: ${what}`, async (t) => {
    const dir = scratch(t);
    const random = seeded(Date.now() % 1_000_000);
    for (let round = 0; round < 3; round++) {
      const seed = random(1_000_000);
      const path = join(dir, `data-${round}.db`);
      const options = round % 2 ? {} : { backlogBytesMax: 2_000, cacheRecordsMax: 3 };
      const child = new SqliteChild(
        path,
        ["random", String(seed), breadth === wide ? "wide" : "narrow"],
        options,
      );
      await child.said(breadth === wide ? 10 + random(40) : 50 + random(400));
      await child.kill();
      const acked = child.lines.length - 1;
      const store = await openSqlite({ path, cacheRecordsMax: 5 });
      const steps = Number((await store.head()).split("-")[1]);
      assert.ok(
        steps === acked || steps === acked + 1,
        `seed ${seed}: ${steps} steps, ${acked} acknowledged`,
      );
      const model = new MemoryStore();
      const next = randomWrites(seed, breadth);
      for (let step = 0; step < steps; step++) await next(model);
      await assertSame(store, model, { seed, breadth }, "after the kill");
      await store.close();
    }
  });
