// Five times more calls than the server can answer: it answers nearly as many as it can at its best, and those who
// hold leases keep them. Peak and overload are measured in turn, so that a change of the machine's own speed meets
// both.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { Client, until } from "../system-client.js";
import { startHolders } from "../system-holders.js";
import { type Engine, principals } from "./engines.js";
import type { Overloaded, OverloadJob } from "./overload-load.js";

const program = fileURLToPath(new URL("./overload-load.js", import.meta.url));
const rounds = 2;
/** Enough that commits are well filled, few enough that nobody is refused. */
const peakConnections = 128;
const overloadConnections = 2000;
const factor = 5;
const goodputMin = 0.8;
const renewalsMin = 0.999;
const holderCount = 100;

/** Why it is red; empty when it is green. */
export async function runOverload(engine: Engine, say: (line: string) => void): Promise<string[]> {
  await using server = await engine.start({});
  const [caller, holder] = principals;
  if (caller === undefined || holder === undefined) throw new Error("two principals are needed");
  const load = (job: Partial<OverloadJob>): Promise<Overloaded> =>
    run({
      port: server.port,
      bearer: caller.bearer,
      connections: peakConnections,
      rate: null,
      warmUpMs: 1500,
      durationMs: 3500,
      prefix: `load-${next++}-`,
      ...job,
    });
  let next = 0;
  const client = new Client(server.url, holder.bearer, { sockets: holderCount + 20 });
  const sums = { peak: 0, good: 0, refused: 0, unsent: 0, offered: 0 };
  let [renewed, failed, slowestMs, isKept] = [0, 0, 0, true];
  for (let round = 0; round < rounds; round++) {
    const peak = perSecond(await load({}), "acquired");
    sums.peak += peak / rounds;
    const holders = await startHolders(client, holderCount, `round-${round}`);
    const overloaded = await load({ connections: overloadConnections, rate: factor * peak });
    await until(
      async () => ((await client.look(`round-${round}-0`)).status === 200 ? true : undefined),
      "reads are let in again",
    );
    const held = await holders.end();
    renewed += held.renewed;
    failed += held.failed.length;
    slowestMs = Math.max(slowestMs, held.slowestMs);
    isKept &&= held.isKept;
    sums.good += perSecond(overloaded, "acquired") / rounds;
    for (const what of ["refused", "unsent", "offered"] as const)
      sums[what] += perSecond(overloaded, what) / rounds;
  }
  client.close();
  const goodput = sums.good / sums.peak;
  const renewals = renewed / Math.max(1, renewed + failed);
  const whole = (value: number): string => Math.round(value).toString();
  say(
    `${engine.name}: peak ${whole(sums.peak)} grants/s; at ${whole(sums.offered)} calls/s ${whole(sums.good)} grants/s ` +
      `(${(100 * goodput).toFixed(0)} % of peak), ${whole(sums.refused)} refused/s, ${whole(sums.unsent)} unsent/s`,
  );
  say(
    `${engine.name}: ${renewed} of ${renewed + failed} renewals of ${holderCount} holders went through ` +
      `(${(100 * renewals).toFixed(2)} %), the slowest took ${whole(slowestMs)} ms`,
  );
  return [
    ...(goodput >= goodputMin ? [] : [`goodput is below ${100 * goodputMin} % of peak`]),
    ...(renewals >= renewalsMin ? [] : [`fewer than ${100 * renewalsMin} % of renewals went through`]),
    ...(isKept ? [] : ["a holder lost its lease"]),
    ...(renewed > 1000 ? [] : ["too few renewals to tell"]),
    ...(sums.offered > 4 * sums.peak ? [] : ["the load was no overload"]),
  ];
}

const perSecond = (overloaded: Overloaded, what: keyof Overloaded): number =>
  (1000 * overloaded[what]) / overloaded.elapsedMs;

async function run(job: OverloadJob): Promise<Overloaded> {
  const child = spawn(process.execPath, [program, JSON.stringify(job)], {
    stdio: ["ignore", "pipe", "inherit"],
    timeout: 60_000,
  });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
  });
  await once(child, "close");
  return JSON.parse(output) as Overloaded;
}
