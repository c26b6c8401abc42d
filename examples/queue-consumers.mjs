// Several consumers share a list of jobs: each asks for the first free one of those that are left, works under it, and
// marks it done. Every job is done exactly once, also when a consumer dies in the middle of one.
//   HOLDFAST_URL=http://127.0.0.1:4280 HOLDFAST_TOKEN=… node examples/queue-consumers.mjs
import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { createClient } from "holdfast/client";

const jobs = Array.from({ length: 20 }, (_, number) => `${process.env.PREFIX ?? "mail"}-${number}`);
const client = createClient({
  url: process.env.HOLDFAST_URL ?? "http://127.0.0.1:4280",
  token: process.env.HOLDFAST_TOKEN,
});

if (process.argv[2] === "consumer")
  await consume(process.argv[3], process.argv[4], process.argv[5] === "dies");
else await conduct();

/** What is done is written down by the job's own resource: here a file that can be made only once. */
async function consume(name, directory, dies) {
  for (;;) {
    const done = new Set(readdirSync(directory));
    const left = jobs.filter((job) => !done.has(job));
    if (left.length === 0) return;
    const claim = await client.jobs.claimFirst(left, { owner: name, ttl: "2s" });
    if (!claim.claimed) {
      await sleep(200); // others are at all that is left; if one of them dies, its job is free again soon
      continue;
    }
    const { jobId, leaseId } = claim;
    if (!readdirSync(directory).includes(jobId)) {
      if (dies) process.kill(process.pid, "SIGKILL");
      await sleep(50); // the work
      writeFileSync(join(directory, jobId), name, { flag: "wx" });
    }
    await client.releaseJob(jobId, leaseId, { outcome: "done" });
  }
}

async function conduct() {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-queue-"));
  try {
    const consumers = ["one", "two", "three", "four"].map((name, at) =>
      fork(fileURLToPath(import.meta.url), ["consumer", name, directory, at === 0 ? "dies" : "lives"]),
    );
    const codes = await Promise.all(consumers.map(async (consumer) => (await once(consumer, "exit"))[1]));
    console.log(`consumer one ended by ${codes[0]}, the others went on`);
    console.log(`${readdirSync(directory).length} of ${jobs.length} jobs done, each once`);
  } finally {
    rmSync(directory, { recursive: true });
  }
}
