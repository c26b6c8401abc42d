// Unique jobs claimed and released, then clean-up: file and memory return near the start, tokens do not go back.
// scripts/million.mjs does the same with a million.
import assert from "node:assert/strict";
import { test } from "node:test";
import { startServer } from "./server.js";
import { churn, describe, forgetful, observable, tokensRise } from "./system-churn.js";
import { Client } from "./system-client.js";

const jobs = 20_000;
/** The store keeps some free pages for the next batches. */
const fileSlackBytes = 10 * 2 ** 20;
/** Up to 50,000 records stay in memory, also the mark that one is gone. */
const memorySlackMb = 40;

test(`${jobs} jobs claimed and released leave file and memory near where they were`, async (t) => {
  await using server = await startServer({ env: forgetful, program: observable });
  const { start, peak, end, loadMs, cleanMs, tokens } = await churn(server, jobs);
  t.diagnostic(`start: ${describe(start)}`);
  t.diagnostic(`peak: ${describe(peak)} (${Math.round(jobs / (loadMs / 1000))} jobs a second)`);
  t.diagnostic(`after clean-up (${Math.round(cleanMs)} ms): ${describe(end)}`);
  assert.ok(end.fileBytes <= start.fileBytes + fileSlackBytes, "the file shrank");
  assert.ok(end.heapMb <= start.heapMb + memorySlackMb, "memory was given back");

  const client = new Client(server.url, "secret-a");
  assert.deepEqual((await client.get("/locks")).body.locks, []);
  const metrics = String((await client.get("/metrics")).body);
  assert.match(metrics, /^holdfast_record_retention_seconds 2$/m);
  assert.match(metrics, new RegExp(`^holdfast_cleaned_total ${jobs}$`, "m"));
  client.close();
  assert.ok(tokens.size >= jobs / 1000);
  assert.ok((await tokensRise(server, tokens)) > 0, "a name that was forgotten goes on above its last token");

  await using again = await server.restart();
  assert.ok(
    (await tokensRise(again, new Map([["job-1", 0]]))) > Math.max(...tokens.values()),
    "also after kill -9",
  );
});
