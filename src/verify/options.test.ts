// What a run refuses before it calls anybody: all of these would else end in a verdict that means nothing.
import assert from "node:assert/strict";
import { test } from "node:test";
import { VerifyError } from "./error.js";
import { checked, type VerifyOptions } from "./options.js";
import { verify } from "./run.js";
import { mutex } from "./workloads/mutex.js";

const good: VerifyOptions = { url: "http://127.0.0.1:4280", bearers: ["secret"], durationMs: 5000 };

const rows: readonly (readonly [string, Partial<VerifyOptions>, RegExp])[] = [
  ["no duration", { durationMs: Number.NaN }, /from 5000 ms to 86400000 ms/],
  ["a duration of 0", { durationMs: 0 }, /from 5000 ms/],
  ["a negative duration", { durationMs: -5000 }, /from 5000 ms/],
  ["a duration in which nothing can happen", { durationMs: 4999 }, /from 5000 ms/],
  ["a duration that no timer takes", { durationMs: 25 * 86_400_000 }, /from 5000 ms/],
  ["no workloads", { workloads: [] }, /at least one workload/],
  ["no bearer tokens", { bearers: [] }, /at least one bearer token/],
  ["an empty bearer token", { bearers: ["secret", ""] }, /none that is empty/],
  ["a bearer token that no header takes", { bearers: ["a\nb"] }, /bearer token/],
  ["no URL", { url: "" }, /is no URL of a server/],
  ["a URL of something else", { url: "ftp://127.0.0.1" }, /is no URL of a server/],
  ["a password in the URL", { url: "http://me:hunter2@127.0.0.1" }, /^(?!.*hunter2).*leave them out/],
];

for (const [what, wrong, says] of rows)
  test(`${what} is refused at once`, async () => {
    await assert.rejects(
      verify({ ...good, ...wrong }),
      (error) => error instanceof VerifyError && error.code === "usage" && says.test(error.message),
    );
  });

test("a workload that is given twice runs once: two under the same names would accuse each other", () => {
  const { workloads } = checked({ ...good, workloads: [mutex, mutex] });
  assert.deepEqual(workloads, [mutex]);
});

test("nobody there is no usage error", async () => {
  await assert.rejects(
    verify({ ...good, url: "http://127.0.0.1:1" }),
    (error) => error instanceof VerifyError && error.code === "unreachable",
  );
});
