// Five times more calls than the server can answer: it grants nearly as much as at its best, and those who hold leases
// keep them.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { Client } from "../system-client.js";
import { type Held, startHolders } from "../system-holders.js";
import type { Engine } from "./engines.js";
import type { Counts, Overloaded, OverloadJob } from "./overload-load.js";
import { principals } from "./principals.js";

const program = fileURLToPath(new URL("./overload-load.js", import.meta.url));
const load = {
  /** Enough that commits are well filled, few enough that nobody is refused. */
  peakConnections: 256,
  // More than the server lets wait, however fast the machine is: it refuses what its loop does not get to in 200 ms.
  backlogMs: 500,
  connectionsMin: 2000,
  connectionsMax: 10_000,
  factor: 5,
  rounds: 8,
  peakMs: [400, 1200],
  // Refusals are held back for up to 2 s: it takes a while until they come evenly.
  overloadMs: [1500, 1500],
} as const;
const goodputMin = 0.8;
/**
 * Where others have the cores for more of the time, they decide what is granted by the clock, and only what a grant costs
 * the server can be told.
 */
const robbedMax = 0.2;
const renewalsMin = 0.999;
const holderCount = 100;
const renewalsNeeded = 1000;
/** Of the whole measurement. */
const withinMs = 180_000;

/** Why it is red; empty when it is green. */
export async function runOverload(engine: Engine, say: (line: string) => void): Promise<string[]> {
  const [caller, holder] = principals;
  if (caller === undefined || holder === undefined) throw new Error("two principals are needed");
  await using server = await engine.start({});
  const client = new Client(server.url, holder.bearer, { sockets: holderCount + 20 });
  const holders = await startHolders(client, holderCount);
  const { port, pid } = server;
  const overloaded = await run({ port, pid, bearer: caller.bearer, prefix: "load-", ...load });
  const held = await holders.end();
  client.close();
  return judged(engine.name, overloaded, held, say);
}

/** Of each overload: the part of what was granted just before and after it, for each ms of the time that is named. */
const goodputs = ({ peaks, overloads }: Overloaded, time: "elapsedMs" | "processorMs"): number[] => {
  const rateOf = (counts: Counts): number => counts.acquired / Math.max(1, counts[time]);
  return overloads.map((overload, nth) => {
    const around = peaks.slice(nth, nth + 2).map(rateOf);
    return (around.length * rateOf(overload)) / around.reduce((sum, rate) => sum + rate, 0);
  });
};

function median(values: readonly number[]): number {
  const sorted = [...values].sort((one, other) => one - other);
  const middle = sorted.length / 2;
  return ((sorted[Math.ceil(middle) - 1] ?? 0) + (sorted[Math.floor(middle)] ?? 0)) / 2;
}

function judged(
  engine: string,
  overloaded: Overloaded,
  { renewed, failed, slowestMs, isKept }: Held,
  say: (line: string) => void,
): string[] {
  const { connections, peaks, overloads } = overloaded;
  const byTime = goodputs(overloaded, "elapsedMs");
  const byProcessor = goodputs(overloaded, "processorMs");
  const robbed = median([...peaks, ...overloads].map((counts) => counts.robbedMs / counts.elapsedMs));
  const isOwnMachine = robbed < robbedMax;
  const asked = renewed + failed.length;
  const told = (all: readonly Counts[], what: keyof Counts): string =>
    `${Math.round(median(all.map((counts) => (1000 * counts[what]) / counts.elapsedMs)))}/s`;
  const percent = (share: number): string => (100 * share).toFixed(0);
  const inRounds = (shares: readonly number[]): string =>
    `${percent(median(shares))} % of peak (${shares.map(percent).join(", ")})`;
  say(
    `${engine}: ${told(peaks, "acquired")} granted at peak; of ${told(overloads, "offered")} asked for over ` +
      `${connections} connections ${told(overloads, "acquired")} granted, ${told(overloads, "refused")} refused, ` +
      `${told(overloads, "unsent")} found all connections busy`,
  );
  say(
    `${engine}: granted ${inRounds(byProcessor)} for the processor time that the server used, ${inRounds(byTime)} for the time ` +
      `that passed; others had the cores for ${percent(robbed)} % of it${isOwnMachine ? "" : ": it shows nothing"}`,
  );
  say(
    `${engine}: ${renewed} of ${asked} renewals by ${holderCount} holders of 2 s leases went through, ` +
      `the slowest took ${Math.round(slowestMs)} ms`,
  );
  const refusing = overloads.filter(({ refused }) => refused > 0).length;
  const strange = [...peaks, ...overloads].reduce((sum, { other }) => sum + other, 0);
  return [
    ...(median(byProcessor) >= goodputMin ? [] : [`goodput is below ${percent(goodputMin)} % of peak`]),
    ...(median(byTime) >= goodputMin || !isOwnMachine
      ? []
      : [`goodput is below ${percent(goodputMin)} % of peak by the clock`]),
    ...(renewed >= renewalsMin * asked ? [] : [`fewer than ${100 * renewalsMin} % of renewals went through`]),
    ...(isKept ? [] : ["a holder lost its lease"]),
    ...(asked >= renewalsNeeded ? [] : ["too few renewals to tell"]),
    ...(2 * refusing > overloads.length
      ? []
      : [`somebody was refused in ${refusing} of ${overloads.length} rounds: it was no overload`]),
    ...(strange === 0
      ? []
      : [`${strange} calls were answered neither with a lease nor with when to come back`]),
  ];
}

async function run(job: OverloadJob): Promise<Overloaded> {
  const child = spawn(process.execPath, [program, JSON.stringify(job)], {
    stdio: ["ignore", "pipe", "inherit"],
    timeout: withinMs,
  });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
  });
  await once(child, "close");
  return JSON.parse(output) as Overloaded;
}
