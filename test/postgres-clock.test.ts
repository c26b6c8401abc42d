// The database's own clock set forward and back by an hour: leases are measured by a clock that only servers move, so none ends
// early, and none ends later than it should.
import assert from "node:assert/strict";
import { dirname } from "node:path";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { giveAway, Postgres } from "./postgres-lab.js";
import { call, startServer } from "./server.js";
import { until } from "./store-lab.js";
import { wallClock } from "./system-wall-clock.js";

const hourMs = 3_600_000;
const ttlMs = 3000;
/** How coarse the shared clock is, and what a busy machine may add. */
const slackMs = 2500;

test("a step of the database's clock ends no lease early and none late", async () => {
  const wall = wallClock();
  giveAway(dirname(wall.env.FAKETIME_TIMESTAMP_FILE ?? ""));
  const server = await Postgres.start({ env: wall.env });
  try {
    const place = await server.database();
    await using one = await startServer({ args: ["--store", place] });
    await using two = await startServer({ args: ["--store", place] });
    const acquire = (at: typeof one, token: string, name: string) =>
      call<{ status: string }>(at, "POST", `/locks/${name}/acquire`, {
        token,
        body: { ttl_seconds: ttlMs / 1000 },
      });
    for (const stepMs of [hourMs, -hourMs, 0]) {
      const name = `step-${stepMs}`;
      const before = performance.now();
      assert.equal((await acquire(one, "secret-a", name)).body.status, "acquired");
      const granted = performance.now();
      wall.step(stepMs);
      await until(async () => {
        const [row] = await server.sql("SELECT extract(epoch FROM clock_timestamp())::float8 * 1000 AS at");
        return Math.abs(Number(row?.at) - Date.now() - stepMs) < 60_000;
      });
      for (;;) {
        const { body } = await acquire(two, "secret-b", name);
        const now = performance.now();
        if (body.status === "acquired") {
          assert.ok(now - before >= ttlMs, `taken over ${now - before} ms after it was asked for`);
          assert.ok(
            now - granted < ttlMs + slackMs,
            `taken over only ${now - granted} ms after it was granted`,
          );
          break;
        }
        await delay(20);
      }
    }
  } finally {
    await server.stop();
  }
});
