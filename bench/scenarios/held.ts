// Work on leases that are held: 50,000 are taken first (the fill), then each is renewed in turn, or its owner is
// read by GET /jobs/{id}.

import { atLeast, type Findings, type Row } from "../findings.js";
import type { Lab } from "../lab.js";
import { namesOf } from "../names.js";
import { ask, type Target } from "../server.js";
import { compare } from "../versus.js";

const LEASES = 50_000;
const TTL = { ttl_seconds: 86_400 };
const NAMES = { style: "random", stem: "held", seed: 7 } as const;

export async function renew(lab: Lab): Promise<Findings> {
  const row = await measure(lab, "renew", "renew over 50,000 leases", "renewed");
  return { rows: [row] };
}

export async function owner(lab: Lab): Promise<Findings> {
  const row = await measure(lab, "owner", "GET owner", "claimed");
  return { rows: [row], bars: [atLeast("GET owner: speed beside the echo server", row.ratio, 0.8)] };
}

/** Takes `leases` leases on random names and keeps them in the load process as `pool`. */
export async function fill(
  lab: Lab,
  target: Target,
  leases: number,
  pool: string,
  body: object = TTL,
): Promise<void> {
  const keep = { pool, every: Math.max(1, Math.floor(leases / LEASES)) };
  const names = { ...NAMES, stem: `held-${pool}` };
  const work = { kind: "acquire", names, body, keep } as const;
  await lab.run(target, work, { count: leases, limitSeconds: 60 + leases / 500 }, ["acquired"]);
}

async function measure(lab: Lab, request: "renew" | "owner", label: string, good: string): Promise<Row> {
  const holdfast = await lab.holdfast();
  const name = namesOf({ ...NAMES, stem: "held-probe" })();
  const taken = await ask(holdfast, "POST", `/locks/${name}/acquire`, TTL);
  const renewed = await ask(holdfast, "POST", `/locks/${name}/renew`, { lease_id: taken.field("lease_id") });
  const seen = await ask(holdfast, "GET", `/jobs/${name}`);
  const echo = await lab.echo({ renew: renewed.text, GET: seen.text });
  lab.say(`${label}: taking ${LEASES} leases`);
  await fill(lab, holdfast, LEASES, "leases");
  const work = { kind: "pool", pool: "leases", request } as const;
  const row = await compare(lab, { label, holdfast, echo, good: [good], work: () => work });
  await Promise.all([holdfast.stop(), echo.stop()]);
  return row;
}
