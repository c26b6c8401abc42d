// A million unique jobs claimed and released over HTTP, then the clean-up, with a short retention: prints what file
// and memory do, and that a name that was forgotten goes on above its last token. Needs the build; not a test.
//   npm run -s build && node scripts/million.mjs [--jobs 1000000] [--rest SECONDS] [--dist DIR]
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

const { values } = parseArgs({
  options: {
    jobs: { type: "string", default: "1000000" },
    // V8 gives the pages of a main thread back about 100 s after its last full collection.
    rest: { type: "string", default: "130" },
    dist: { type: "string", default: fileURLToPath(new URL("../dist", import.meta.url)) },
  },
});
const load = (file) => import(pathToFileURL(join(resolve(values.dist), file)).href);
const { churn, describe, forgetful, observable, tokensRise } = await load("test/system-churn.js");
const { startServer } = await load("test/server.js");
const { residentMb } = await load("bench/proc.js");

const jobs = Number(values.jobs);
const warmUp = 20_000;
const server = await startServer({ env: forgetful, program: observable });
let saidAt = performance.now();
const say = (text) => {
  if (performance.now() - saidAt < 10_000) return;
  saidAt = performance.now();
  console.log(`  ${text}`);
};
console.log(`${jobs} jobs, each claimed and released once, with ${JSON.stringify(forgetful)}`);
// A server that has just started has not yet made the memory its own that it works in; what counts is what many more
// jobs add to one that has.
const { start: cold } = await churn(server, warmUp, say);
const { start, peak, end, loadMs, cleanMs, tokens } = await churn(server, jobs, say);
await sleep(Number(values.rest) * 1000);
const resting = residentMb(server.pid);
const rise = await tokensRise(server, tokens);
console.log(`cold           ${describe(cold)}`);
console.log(`start          ${describe(start)}; after ${warmUp} jobs and their clean-up`);
console.log(
  `peak           ${describe(peak)}; ${(loadMs / 1000).toFixed(0)} s, ${Math.round((jobs / loadMs) * 1000)} jobs a second`,
);
console.log(`after clean-up ${describe(end)}; ${(cleanMs / 1000).toFixed(1)} s after the last release`);
console.log(`at rest        memory ${resting} MB resident; ${values.rest} s later`);
console.log(
  `tokens         ${tokens.size} names of before granted again, each at least ${rise} above its last`,
);
const code = await server.stop();
if (rise < 1 || code !== 0) {
  console.log(`FAILED: lowest rise ${rise}, exit code ${code}`);
  process.exitCode = 1;
}
