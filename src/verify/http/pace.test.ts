// The load that a run may put on a service is bounded, in time and at once.
import assert from "node:assert/strict";
import { test } from "node:test";
import { monotonicMs, sleep } from "./clock.js";
import { Pace } from "./pace.js";

test("calls begin no faster than the pace, but for a small burst", async () => {
  const pace = new Pace({ callsPerSecond: 500, inFlightMax: 1 });
  const beganAt = monotonicMs();
  await Promise.all(Array.from({ length: 116 }, () => pace.begin()));
  // 2 ms each, the first 15 at once.
  assert.ok(monotonicMs() - beganAt >= 195, `${monotonicMs() - beganAt}`);
});

test("only so many calls are under way at once, and all get their turn", async () => {
  const pace = new Pace({ callsPerSecond: 1000, inFlightMax: 3 });
  let [now, most, done] = [0, 0, 0];
  await Promise.all(
    Array.from({ length: 20 }, () =>
      pace.during(async () => {
        most = Math.max(most, ++now);
        await sleep(2);
        now--;
        done++;
      }),
    ),
  );
  assert.deepEqual([most, done], [3, 20]);
});

test("nobody calls while the service wants silence", async () => {
  const pace = new Pace({ callsPerSecond: 1000, inFlightMax: 3 });
  const beganAt = monotonicMs();
  pace.hush(60);
  pace.hush(20);
  await pace.begin();
  assert.ok(monotonicMs() - beganAt >= 59, `${monotonicMs() - beganAt}`);
});

test("nor does anybody whose turn comes meanwhile", async () => {
  const pace = new Pace({ callsPerSecond: 20, inFlightMax: 3 });
  const turns = Array.from({ length: 3 }, () => pace.begin());
  await turns[0];
  const hushedAt = monotonicMs();
  pace.hush(200);
  await Promise.all(turns);
  assert.ok(monotonicMs() - hushedAt >= 199, `${monotonicMs() - hushedAt}`);
});

test("a service that can be reached again does not take back that it wants silence", async () => {
  const pace = new Pace({ callsPerSecond: 1000, inFlightMax: 3 });
  const beganAt = monotonicMs();
  pace.hush(60);
  pace.missed();
  pace.answered();
  await pace.begin();
  assert.ok(monotonicMs() - beganAt >= 59, `${monotonicMs() - beganAt}`);
});

test("a pace that was too fast settles near what the service allows, and comes back", async () => {
  const pace = new Pace({ callsPerSecond: 2000, inFlightMax: 3 });
  for (let nth = 0; nth < 20; nth++) pace.hush(0);
  assert.equal(Math.round(pace.rate), 1200, "calls that were under way together count once");
  await sleep(110);
  pace.hush(0);
  const low = pace.rate;
  assert.ok(low <= 1200, `${low}`);
  await sleep(300);
  await pace.begin();
  assert.ok(pace.rate > low, `${pace.rate}`);
});

test("a pace is not cut below what the service takes", async () => {
  const pace = new Pace({ callsPerSecond: 500, inFlightMax: 3 });
  for (let nth = 0; nth < 400; nth++) pace.taken();
  pace.hush(0);
  assert.equal(pace.rate, 360);
});

test("while the service cannot be reached one call at a time tries, until it answers", async () => {
  const pace = new Pace({ callsPerSecond: 1000, inFlightMax: 3 });
  for (let nth = 0; nth < 5; nth++) pace.missed();
  let begun = 0;
  const calls = Array.from({ length: 20 }, async () => {
    await pace.begin();
    begun++;
    if (begun < 3) pace.missed();
    else pace.answered();
  });
  await Promise.race(calls);
  assert.equal(begun, 1);
  await Promise.all(calls);
});

test("nobody is kept waiting once it has ended", async () => {
  const pace = new Pace({ callsPerSecond: 1000, inFlightMax: 3 });
  pace.hush(60_000);
  await pace.begin(AbortSignal.abort());
});
