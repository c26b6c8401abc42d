// What more live leases cost. Three servers run side by side with few, more and very many leases (TTL 24 h) and are
// measured in turn, so that each round compares them on the same machine at the same time. Acquires come in slices
// that are released before the next, so that a server with 1,000 leases stays one.

import { atLeast, count, type Fact, type Findings, median } from "../findings.js";
import type { Lab } from "../lab.js";
import type { PoolRequest, Tally } from "../orders.js";
import { quiet, residentMb } from "../proc.js";
import type { Holdfast } from "../server.js";
import { inTurn } from "../versus.js";
import { fill } from "./held.js";
import { startTimes } from "./start.js";

const SLICE = 4000;
const SLICES = 4;

type Operation = "acquire" | "renew" | "owner";
const OPERATIONS: readonly Operation[] = ["acquire", "renew", "owner"];

interface Filled {
  readonly leases: number;
  readonly holdfast: Holdfast;
  readonly rates: Record<Operation, number[]>;
}

export async function scale(lab: Lab): Promise<Findings> {
  const sizes = lab.options.quick ? [1000, 10_000, 100_000] : [1000, 100_000, 1_000_000];
  const servers: Filled[] = [];
  for (const leases of sizes) {
    const holdfast = await lab.holdfast();
    lab.say(`scale: taking ${leases} leases`);
    await fill(lab, holdfast, leases, String(leases));
    servers.push({ leases, holdfast, rates: { acquire: [], renew: [], owner: [] } });
  }
  // Round 0 warms up: the small servers have seen far fewer requests than the big one.
  for (let round = 0; round <= lab.options.rounds; round += 1) {
    for (const server of inTurn(servers, round)) await measure(lab, server, round);
  }
  const [small, ...larger] = servers;
  const largest = larger.at(-1);
  if (small === undefined || largest === undefined) throw new Error("no servers to compare");
  const facts = [factOf(small, small), ...larger.map((server) => factOf(server, small))];
  const ratio = ratioOf(largest, small, "acquire");
  const bar = atLeast(`acquire at ${count(largest.leases)} live leases beside 1,000`, ratio, 0.8);
  await larger[0]?.holdfast.stop("SIGKILL");
  const start = await startTimes(lab, small, largest);
  return { facts: [...facts, ...(start.facts ?? [])], bars: [bar, ...(start.bars ?? [])] };
}

async function measure(lab: Lab, server: Filled, round: number): Promise<void> {
  const { holdfast, leases, rates } = server;
  const acquired: Tally[] = [];
  for (let slice = 0; slice < SLICES; slice += 1) {
    const names = {
      style: "random",
      stem: `new-${round}-${slice}`,
      seed: 100 + round * SLICES + slice,
    } as const;
    const keep = { pool: "new", every: 1 };
    const work = { kind: "acquire", names, body: { ttl_seconds: 600 }, keep } as const;
    acquired.push(await lab.run(holdfast, work, { count: SLICE }, ["acquired"]));
    const undo = { kind: "pool", pool: "new", request: "release", once: true, drain: true } as const;
    await lab.run(holdfast, undo, {}, ["released"]);
  }
  const over = async (request: PoolRequest, good: string): Promise<Tally> => {
    const work = { kind: "pool", pool: String(leases), request } as const;
    return lab.run(holdfast, work, { count: SLICE * SLICES }, [good]);
  };
  const renewed = await over("renew", "renewed");
  const owners = await over("owner", "claimed");
  await quiet(holdfast.pid);
  if (round === 0) return;
  rates.acquire.push(perSecond(acquired));
  rates.renew.push(perSecond([renewed]));
  rates.owner.push(perSecond([owners]));
  const figures = OPERATIONS.map((name) => `${name} ${Math.round(rates[name].at(-1) ?? 0)}/s`);
  lab.say(`scale: round ${round}: ${leases} leases: ${figures.join(", ")}`);
}

function perSecond(tallies: readonly Tally[]): number {
  const replies = tallies.reduce((sum, tally) => sum + tally.replies, 0);
  return replies / (tallies.reduce((sum, tally) => sum + tally.elapsedMs, 0) / 1000);
}

function ratioOf(server: Filled, small: Filled, operation: Operation): number {
  return median(
    server.rates[operation].map((rate, round) => rate / (small.rates[operation][round] ?? Number.NaN)),
  );
}

function factOf(server: Filled, small: Filled): Fact {
  const figures = OPERATIONS.map((name) => {
    const ratio = server === small ? "" : ` (${ratioOf(server, small, name).toFixed(2)} ×)`;
    return `${name === "owner" ? "GET owner" : name} ${count(median(server.rates[name]))}/s${ratio}`;
  });
  const memory = residentMb(server.holdfast.pid);
  if (memory !== undefined) figures.push(`${memory} MB`);
  return { label: `${count(server.leases)} live leases`, value: figures.join(", ") };
}
