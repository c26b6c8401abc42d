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
