// Heartbeats for many leases at once: POST /jobs/heartbeat with 1,000 leases, and the keepalive of one session that
// holds 1,000. Each is set beside single renews on the same server in alternating rounds; a cost is the time of one
// call at full load, that is the renews the server does in the time of one such call.

import { atMost, count, type Findings, median, rateOf } from "../findings.js";
import type { Lab } from "../lab.js";
import type { Work } from "../orders.js";
import { quiet } from "../proc.js";
import { ask, type Holdfast } from "../server.js";
import { inTurn } from "../versus.js";
import { fill } from "./held.js";

const BULK_CONNECTIONS = 8;
const LEASES_PER_CALL = 1000;
const RENEW: Work = { kind: "pool", pool: "leases", request: "renew" };

export async function bulk(lab: Lab): Promise<Findings> {
  const holdfast = await lab.holdfast();
  await fill(lab, holdfast, BULK_CONNECTIONS * LEASES_PER_CALL, "leases");
  const work: Work = { kind: "pool", pool: "leases", request: "bulk" };
  const { perSecond, cost } = await besideRenew(
    lab,
    holdfast,
    "bulk heartbeat",
    work,
    "renewed",
    BULK_CONNECTIONS,
    64,
  );
  await holdfast.stop();
  return {
    facts: [
      {
        label: "bulk heartbeat (1,000 leases a call)",
        value: `${count(perSecond * LEASES_PER_CALL)} leases/s`,
      },
      { label: "… one call costs as much as", value: `${count(cost)} renews` },
      { label: "… one lease in it costs", value: `${(cost / LEASES_PER_CALL).toFixed(3)} of a renew` },
    ],
  };
}

export async function session(lab: Lab): Promise<Findings> {
  const holdfast = await lab.holdfast();
  const id = String((await ask(holdfast, "POST", "/sessions", { ttl_seconds: 3600 })).field("session_id"));
  await fill(lab, holdfast, LEASES_PER_CALL, "leases");
  await fill(lab, holdfast, LEASES_PER_CALL, "bound", { session_id: id });
  const kept = (await ask(holdfast, "POST", `/sessions/${id}/keepalive`, {})).field("leases");
  if (kept !== LEASES_PER_CALL) lab.fail(`session: keepalive counts ${kept} leases, not ${LEASES_PER_CALL}`);
  const work: Work = { kind: "repeat", path: `/sessions/${id}/keepalive`, body: {} };
  const many = await besideRenew(lab, holdfast, "session heartbeat, 64 connections", work, "ok", 64, 64);
  const one = await besideRenew(lab, holdfast, "session heartbeat, 1 connection", work, "ok", 1, 1);
  await holdfast.stop();
  return {
    facts: [
      { label: "session heartbeat (1,000 leases), 64 connections", value: `${count(many.perSecond)}/s` },
      {
        label: "… cost beside one renew",
        value: `${many.cost.toFixed(2)} (one connection: ${one.cost.toFixed(2)})`,
      },
    ],
    bars: [atMost("session heartbeat of 1,000 leases: cost in renews", Math.max(many.cost, one.cost), 3)],
  };
}

interface Cost {
  readonly perSecond: number;
  /** In renews. */
  readonly cost: number;
}

async function besideRenew(
  lab: Lab,
  holdfast: Holdfast,
  label: string,
  work: Work,
  good: string,
  connections: number,
  renewConnections: number,
): Promise<Cost> {
  const { seconds, rounds } = lab.options;
  const rates: number[] = [];
  const costs: number[] = [];
  const renewing = { work: RENEW, good: "renewed", connections: renewConnections };
  const beating = { work, good, connections };
  for (let round = 0; round <= rounds; round += 1) {
    const speeds = new Map<object, number>();
    for (const side of inTurn([renewing, beating], round)) {
      await quiet(holdfast.pid);
      const extent = { connections: side.connections, seconds };
      speeds.set(side, rateOf(await lab.run(holdfast, side.work, extent, [side.good]), [side.good]));
    }
    if (round === 0) continue;
    rates.push(speeds.get(beating) ?? 0);
    costs.push((speeds.get(renewing) ?? 0) / (speeds.get(beating) ?? 0));
    lab.say(
      `${label}: round ${round}: ${Math.round(rates.at(-1) ?? 0)}/s, cost ${costs.at(-1)?.toFixed(2)} renews`,
    );
  }
  return { perSecond: median(rates), cost: median(costs) };
}
