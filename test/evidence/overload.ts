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
  peakConnections: 128,
  connections: 2000,
  factor: 5,
  rounds: 8,
  phaseMs: 1200,
  settleMs: 400,
};
const goodputMin = 0.8;
const renewalsMin = 0.999;
const holderCount = 100;
const renewalsNeeded = 1000;
/** Of the whole measurement. */
const withinMs = 90_000;

/** Why it is red; empty when it is green. */
export async function runOverload(engine: Engine, say: (line: string) => void): Promise<string[]> {
  const [caller, holder] = principals;
  if (caller === undefined || holder === undefined) throw new Error("two principals are needed");
  await using server = await engine.start({});
  const client = new Client(server.url, holder.bearer, { sockets: holderCount + 20 });
  const holders = await startHolders(client, holderCount);
  const overloaded = await run({ port: server.port, bearer: caller.bearer, prefix: "load-", ...load });
  const held = await holders.end();
  client.close();
  return judged(engine.name, overloaded, held, say);
}

function judged(
  engine: string,
  { peak, overload }: Overloaded,
  { renewed, failed, slowestMs, isKept }: Held,
  say: (line: string) => void,
): string[] {
  const rate = (counts: Counts, what: keyof Counts): number => (1000 * counts[what]) / counts.elapsedMs;
  const goodput = rate(overload, "acquired") / rate(peak, "acquired");
  const asked = renewed + failed.length;
  const told = (counts: Counts, what: keyof Counts): string => `${Math.round(rate(counts, what))}/s`;
  say(
    `${engine}: ${told(peak, "acquired")} granted at peak; of ${told(overload, "offered")} asked for ` +
      `${told(overload, "acquired")} granted (${(100 * goodput).toFixed(0)} % of peak), ${told(overload, "refused")} ` +
      `refused, ${told(overload, "unsent")} found all ${load.connections} connections busy`,
  );
  say(
    `${engine}: ${renewed} of ${asked} renewals by ${holderCount} holders of 2 s leases went through, ` +
      `the slowest took ${Math.round(slowestMs)} ms`,
  );
  return [
    ...(goodput >= goodputMin ? [] : [`goodput is below ${100 * goodputMin} % of peak`]),
    ...(renewed >= renewalsMin * asked ? [] : [`fewer than ${100 * renewalsMin} % of renewals went through`]),
    ...(isKept ? [] : ["a holder lost its lease"]),
    ...(asked >= renewalsNeeded ? [] : ["too few renewals to tell"]),
    ...(overload.refused > 0 ? [] : ["nobody was refused: it was no overload"]),
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
