// How long a verdict takes: 10,000 operations of 12 processes on 20 names, with lost replies and crashes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { check } from "../../src/verify/check.js";
import { playHistory, settingOf } from "./driver.js";

const limitMs = 2000;

test("10,000 operations are judged in under 2 s", (t) => {
  const names = Array.from({ length: 20 }, (_, nth) => `job-${nth}`);
  const seed = 7;
  const history = playHistory({
    ...settingOf(seed),
    operations: 10_000,
    names,
    processes: 12,
    clockBoundMs: 20,
    loss: 0.05,
    crashes: 0.1,
    restores: 0,
  });
  const [began, before] = [performance.now(), process.cpuUsage()];
  const verdict = check(history);
  const clockMs = Math.round(performance.now() - began);
  // Judged by the processor's time, over all threads: what else runs on the machine is not the checker's.
  const { user, system } = process.cpuUsage(before);
  const processorMs = Math.round((user + system) / 1000);
  const lost = history.operations.filter(({ reply }) => reply.kind === "unknown").length;
  t.diagnostic(
    `${verdict.operations} operations, ${lost} without a reply, on ${verdict.names} names: ` +
      `${clockMs} ms by the clock, ${processorMs} ms of processor time`,
  );
  assert.deepEqual([verdict.violations, verdict.unknown], [[], []], `seed ${seed}`);
  assert.ok(processorMs < limitMs, `${processorMs} ms`);
});
