// The control: the echo server beside a second one just like it, measured as every other row is. Its ratio should be
// 1; how far it and its rounds are from 1 is what this machine does by itself, and no other row is sharper than that.

import { type Findings, milliseconds } from "../findings.js";
import type { Lab } from "../lab.js";
import { compare } from "../versus.js";

const REPLY = JSON.stringify({ status: "acquired", lease_id: "x".repeat(36), metadata: "x".repeat(160) });

export async function control(lab: Lab): Promise<Findings> {
  const first = await lab.echo({ acquire: REPLY });
  const second = await lab.echo({ acquire: REPLY });
  const row = await compare(lab, {
    label: "control: echo beside a second echo",
    holdfast: second,
    echo: first,
    good: ["acquired"],
    work: (round) => ({
      kind: "acquire",
      names: { style: "random", stem: `run${String(round).padStart(2, "0")}`, seed: round + 1 },
      body: { ttl_seconds: 600 },
    }),
  });
  await Promise.all([first.stop(), second.stop()]);
  const spread = `ratio ${row.ratio.toFixed(2)}, rounds ${row.ratioLowest.toFixed(2)} – ${row.ratioHighest.toFixed(2)}`;
  const value = `${spread}; p99 ratio ${row.p99Ratio.toFixed(2)} at ${milliseconds(row.echo.p99Ms)}`;
  return { rows: [row], facts: [{ label: "noise: two equal echo servers", value }] };
}
