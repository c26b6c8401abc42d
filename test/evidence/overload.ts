// Five times more calls than the server can answer: it answers nearly as many as it can at its best, and those who
// hold leases keep them. Each overload is measured between two peaks, so that a change of the machine's own speed
// meets both.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { Client, until } from "../system-client.js";
import { type Held, startHolders } from "../system-holders.js";
import { type Engine, principals } from "./engines.js";
import type { Overloaded, OverloadJob } from "./overload-load.js";

const program = fileURLToPath(new URL("./overload-load.js", import.meta.url));
const rounds = 3;
/** Enough that commits are well filled, few enough that nobody is refused. */
const peakConnections = 128;
const overloadConnections = 2000;
const factor = 5;
const goodputMin = 0.8;
const renewalsMin = 0.999;
const holderCount = 100;
const renewalsNeeded = 1000;
const times = { warmUpMs: 1500, durationMs: 2500 };

/** What one overload did, beside the peaks right before and after it. */
interface Round {
  readonly peak: number;
  readonly overloaded: Overloaded;
  readonly held: Held;
}

/** Why it is red; empty when it is green. */
export async function runOverload(engine: Engine, say: (line: string) => void): Promise<string[]> {
  const [caller, holder] = principals;
  if (caller === undefined || holder === undefined) throw new Error("two principals are needed");
  await using server = await engine.start({});
  const client = new Client(server.url, holder.bearer, { sockets: holderCount + 20 });
  let next = 0;
  const load = (connections: number, rate: number | null): Promise<Overloaded> =>
    run({ port: server.port, bearer: caller.bearer, connections, rate, prefix: `load-${next++}-`, ...times });
  const peaks = [perSecond(await load(peakConnections, null), "acquired")];
  const done: Round[] = [];
  for (let round = 0; round < rounds; round++) {
    const before = peaks[round] ?? 0;
    const holders = await startHolders(client, holderCount, `round-${round}`);
    const overloaded = await load(overloadConnections, factor * before);
    await until(
      async () => ((await client.look(`round-${round}-0`)).status === 200 ? true : undefined),
      "reads are let in again",
    );
    const held = await holders.end();
    const after = perSecond(await load(peakConnections, null), "acquired");
    peaks.push(after);
    done.push({ peak: (before + after) / 2, overloaded, held });
  }
  client.close();
  return judged(engine.name, done, say);
}

function judged(engine: string, done: readonly Round[], say: (line: string) => void): string[] {
  const mean = (of: (round: Round) => number): number =>
    done.reduce((sum, round) => sum + of(round), 0) / done.length;
  const rate = (what: keyof Overloaded): number => mean(({ overloaded }) => perSecond(overloaded, what));
  const peak = mean((round) => round.peak);
  // The middle one: on a machine that others use as well, one round in three may be spoilt.
  const goodput = done
    .map((round) => perSecond(round.overloaded, "acquired") / round.peak)
    .sort((one, other) => one - other)[done.length >> 1];
  if (goodput === undefined) throw new Error("nothing was measured");
  const renewed = done.reduce((sum, { held }) => sum + held.renewed, 0);
  const asked = renewed + done.reduce((sum, { held }) => sum + held.failed.length, 0);
  const slowestMs = Math.max(...done.map(({ held }) => held.slowestMs));
  const whole = (value: number): string => Math.round(value).toString();
  say(
    `${engine}: peak ${whole(peak)} grants/s; at ${whole(rate("offered"))} calls/s ${whole(rate("acquired"))} grants/s ` +
      `(${(100 * goodput).toFixed(0)} % of peak), ${whole(rate("refused"))} refused/s, ${whole(rate("unsent"))} unsent/s`,
  );
  say(
    `${engine}: ${renewed} of ${asked} renewals by ${holderCount} holders went through, the slowest took ${whole(slowestMs)} ms`,
  );
  return [
    ...(goodput >= goodputMin ? [] : [`goodput is below ${100 * goodputMin} % of peak`]),
    ...(renewed >= renewalsMin * asked ? [] : [`fewer than ${100 * renewalsMin} % of renewals went through`]),
    ...(done.every(({ held }) => held.isKept) ? [] : ["a holder lost its lease"]),
    ...(asked >= renewalsNeeded ? [] : ["too few renewals to tell"]),
    ...(rate("offered") >= 0.9 * factor * peak ? [] : ["the load was no overload"]),
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
