// Claim-next over a queue of 100,000 open nodes, beside plain durable acquires on the same server: 64 connections, the
// same number of each in every round, in turn. What a round claimed is created anew before the next, so that the queue
// stays as long as it was.

import { atLeast, count, type Findings, median, milliseconds, rateOf } from "../findings.js";
import type { Lab } from "../lab.js";
import type { Tally } from "../orders.js";
import { quiet } from "../proc.js";
import type { Holdfast } from "../server.js";
import { inTurn } from "../versus.js";

const NODES = 100_000;
const QUICK_NODES = 10_000;
/** Of each in a round: about a second's work, and a small part of the queue. */
const SLICE = 8000;
const QUICK_SLICE = 3000;
/** Nodes are made by more connections than claim them: there are many to make. */
const CREATING = 128;

type Operation = "acquire" | "next";
const GOOD = { acquire: "acquired", next: "claimed" } as const;

export async function next(lab: Lab): Promise<Findings> {
  const { quick, rounds } = lab.options;
  const [nodes, slice] = quick ? [QUICK_NODES, QUICK_SLICE] : [NODES, SLICE];
  const holdfast = await lab.holdfast();
  lab.say(`claim-next: creating ${nodes} nodes`);
  const made = await create(lab, holdfast, nodes, 0);
  const tallies: Record<Operation, Tally[]> = { acquire: [], next: [] };
  const ratios: number[] = [];
  // Round 0 warms up.
  for (let round = 0; round <= rounds; round += 1) {
    const rates = new Map<Operation, number>();
    for (const operation of inTurn<Operation>(["acquire", "next"], round)) {
      await quiet(holdfast.pid);
      const tally = await measure(lab, holdfast, operation, round, slice);
      rates.set(operation, rateOf(tally, [GOOD[operation]]));
      if (round > 0) tallies[operation].push(tally);
    }
    await create(lab, holdfast, slice, round + 1);
    if (round === 0) continue;
    const [plain, claimed] = [rates.get("acquire") ?? 0, rates.get("next") ?? 0];
    ratios.push(claimed / plain);
    lab.say(`claim-next: round ${round}: ${Math.round(claimed)}/s, acquire ${Math.round(plain)}/s`);
  }
  await holdfast.stop();
  const ratio = median(ratios);
  const told = (operation: Operation): string => {
    const rate = median(tallies[operation].map((tally) => rateOf(tally, [GOOD[operation]])));
    const p99 = median(tallies[operation].map(({ p99Ms }) => p99Ms));
    return `${count(rate)}/s, p99 ${milliseconds(p99)}`;
  };
  return {
    facts: [
      { label: `claim-next with ${count(nodes)} open nodes, 64 connections`, value: told("next") },
      { label: "… durable acquire on the same server", value: told("acquire") },
      {
        label: "… claim-next beside acquire",
        value: `${ratio.toFixed(2)} (${Math.min(...ratios).toFixed(2)} – ${Math.max(...ratios).toFixed(2)})`,
      },
      { label: "… nodes created", value: `${count(rateOf(made, ["created"]))}/s` },
    ],
    bars: [atLeast("claim-next beside a plain acquire", ratio, 0.5)],
  };
}

function create(lab: Lab, holdfast: Holdfast, nodes: number, batch: number): Promise<Tally> {
  const work = { kind: "create", names: { style: "random", stem: `b${batch}`, seed: 100 + batch } } as const;
  const extent = { connections: CREATING, count: nodes, limitSeconds: 60 + nodes / 500 };
  return lab.run(holdfast, work, extent, ["created"]);
}

function measure(
  lab: Lab,
  holdfast: Holdfast,
  operation: Operation,
  round: number,
  slice: number,
): Promise<Tally> {
  const names = { style: "random", stem: `run${round}`, seed: round + 1 } as const;
  const acquire = { kind: "acquire", names, body: { ttl_seconds: 2700 } } as const;
  const work = operation === "acquire" ? acquire : ({ kind: "next" } as const);
  return lab.run(holdfast, work, { count: slice }, [GOOD[operation]]);
}
