import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { openSqlite } from "../../../test/sqlite-lab.js";
import { claim, scratch, TurnedClocks, until } from "../../../test/store-lab.js";
import { decideAcquire } from "../../core/acquire.js";
import { decideInspect } from "../../core/inspect.js";
import { policyDefault } from "../../core/limits.js";
import type { Store } from "../../store/store.js";
import { openDatabase } from "./binding.js";
import { EngineClock } from "./engine-clock.js";
import { getMeta } from "./schema.js";

const hourMs = 3_600_000;

const acquire = async (store: Store, name: string, ttlMs: number): Promise<number> => {
  const { outcome } = await store.transact([], (view) =>
    decideAcquire(view, claim(name, { ttlMs }), policyDefault),
  );
  if ("refused" in outcome) throw new Error(outcome.refused);
  return outcome.granted.lock.token;
};
/** How long the name is still held, in ms; null: it is free. */
const left = async (store: Store, name: string): Promise<number | null> => {
  const { holding, now } = await store.transact([], (view) =>
    decideInspect(view, "default", name, policyDefault),
  );
  return holding === null ? null : holding.expiresAt - now;
};

test("a new file begins at the wall time, and from then on only the monotonic clock counts", () => {
  const clocks = new TurnedClocks();
  const clock = new EngineClock(clocks);
  clock.start(0, 0);
  const began = clocks.wallAt;
  assert.equal(clock.now(), began);
  for (const stepMs of [hourMs, -2 * hourMs, 24 * hourMs, -30 * hourMs]) {
    clocks.step(stepMs);
    assert.equal(clock.now(), began);
  }
  clocks.monotonicAt += 0.75;
  assert.equal(clock.now(), began);
  clocks.monotonicAt += 0.75;
  assert.equal(clock.now(), began + 1);
});

test("over a restart, time goes on by the wall time that passed and never goes back", () => {
  const stored = { engineAt: 5_000_000, wallAt: 1_700_000_000_000 };
  const rows: [wallPassedMs: number, enginePassedMs: number][] = [
    [0, 0],
    [1, 1],
    [60_000, 60_000],
    [-1, 0],
    [-hourMs, 0],
    [48 * hourMs, 48 * hourMs],
  ];
  for (const [wallPassedMs, enginePassedMs] of rows) {
    const clocks = new TurnedClocks();
    clocks.wallAt = stored.wallAt + wallPassedMs;
    const clock = new EngineClock(clocks);
    clock.start(stored.engineAt, stored.wallAt);
    assert.equal(clock.now(), stored.engineAt + enginePassedMs, `${wallPassedMs} ms`);
  }
});

test("a wall clock that is stepped while the store runs ends no lease and prolongs none", async (t) => {
  const clocks = new TurnedClocks();
  const store = await openSqlite({ path: join(scratch(t), "data.db"), clocks });
  await acquire(store, "job", 60_000);
  for (const stepMs of [hourMs, -2 * hourMs]) {
    clocks.step(stepMs);
    assert.equal(await left(store, "job"), 60_000);
  }
  clocks.pass(60_000);
  assert.equal(await left(store, "job"), 0, "held at its last instant");
  clocks.pass(1);
  assert.equal(await left(store, "job"), null);
  await store.close();
});

/** What happens to a lease of 60 s over a restart: what is left of it when the store is open again. */
const restarts: [
  what: string,
  run: (clocks: TurnedClocks) => void,
  down: (clocks: TurnedClocks) => void,
  leftMs: number | null,
][] = [
  ["10 s of downtime", () => {}, (c) => c.pass(10_000), 50_000],
  ["the wall goes back 1 h while down", () => {}, (c) => c.step(-hourMs), 60_000],
  ["down for less than the wall goes back", () => {}, (c) => c.step(10_000 - hourMs), 60_000],
  ["the wall was stepped forth while running", (c) => c.step(hourMs), (c) => c.pass(10_000), 50_000],
  ["the wall was stepped back while running", (c) => c.step(-hourMs), (c) => c.pass(10_000), 50_000],
  ["20 s running, 10 s down", (c) => c.pass(20_000), (c) => c.pass(10_000), 30_000],
  ["longer down than the lease", () => {}, (c) => c.pass(60_001), null],
];

for (const how of ["closed", "killed"] as const)
  for (const [what, run, down, leftMs] of restarts)
    test(`restart after the store was ${how}: ${what}`, async (t) => {
      const dir = scratch(t);
      const clocks = new TurnedClocks();
      let path = join(dir, "data.db");
      const before = await openSqlite({ path, clocks });
      const token = await acquire(before, "job", 60_000);
      run(clocks);
      await acquire(before, "other", 1_000);
      const engineAt = before.now();
      if (how === "killed") {
        // What a killed process leaves behind. Copied by another process: closing a file here would drop SQLite's locks.
        const copy = join(dir, "copy.db");
        execFileSync("sh", ["-c", 'cp "$1" "$2" && cp "$1-wal" "$2-wal"', "cp", path, copy]);
        path = copy;
      }
      await before.close();
      down(clocks);
      const after = await openSqlite({ path, clocks });
      t.after(() => after.close());
      assert.ok(after.now() >= engineAt, "time never goes back");
      assert.equal(await left(after, "job"), leftMs);
      if (leftMs === null) assert.equal(await acquire(after, "job", 1_000), token + 1);
    });

test("a lease that was settled is not revived, however far the wall goes back", async (t) => {
  const clocks = new TurnedClocks();
  const path = join(scratch(t), "data.db");
  let store = await openSqlite({ path, clocks });
  const token = await acquire(store, "job", 1_000);
  clocks.pass(1_001);
  assert.equal(await left(store, "job"), null);
  for (let restart = 1; restart <= 3; restart++) {
    await store.close();
    clocks.step(-24 * hourMs);
    store = await openSqlite({ path, clocks });
    assert.equal(await left(store, "job"), null);
  }
  assert.equal(await acquire(store, "job", 1_000), token + 1);
  await store.close();
});

test("restarts without a write in between keep the time", async (t) => {
  const clocks = new TurnedClocks();
  const path = join(scratch(t), "data.db");
  let store = await openSqlite({ path, clocks });
  await acquire(store, "job", 60_000);
  const engineAt = store.now();
  for (let restart = 1; restart <= 3; restart++) {
    await store.close();
    clocks.pass(1_000);
    clocks.step(-hourMs);
    store = await openSqlite({ path, clocks });
    assert.equal(store.now(), engineAt);
  }
  clocks.pass(5);
  assert.equal(store.now(), engineAt + 5);
  await store.close();
});

test("while a lease lives and nothing is written, the clock is stored all the same", async (t) => {
  const clocks = new TurnedClocks();
  const path = join(scratch(t), "data.db");
  const store = await openSqlite({ path, clocks });
  await acquire(store, "job", 600_000);
  clocks.pass(300_000);
  clocks.step(hourMs);
  const reader = openDatabase(path, { readOnly: true });
  t.after(() => reader.close());
  await until(() => Number(getMeta(reader, "engine_at")) === store.now());
  assert.equal(getMeta(reader, "wall_at"), clocks.wallAt);
  await store.close();
});
