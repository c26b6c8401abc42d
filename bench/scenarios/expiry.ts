// Expiry churn: fresh names taken for one second only, so that after the first second the server ends as many
// leases as it grants. Afterwards a sample is looked at: all of it must have expired.

import { setTimeout as sleep } from "node:timers/promises";
import { type Findings, milliseconds } from "../findings.js";
import type { Lab } from "../lab.js";
import { namesOf } from "../names.js";
import { quiet } from "../proc.js";
import { ask } from "../server.js";
import { compare } from "../versus.js";

const BODY = { ttl_seconds: 1 };
const SAMPLE_EVERY = 100;

export async function expiry(lab: Lab): Promise<Findings> {
  const holdfast = await lab.holdfast();
  const probe = namesOf({ style: "random", stem: "probe", seed: 1000 })();
  const { text } = await ask(holdfast, "POST", `/locks/${probe}/acquire`, BODY);
  const echo = await lab.echo({ acquire: text });
  const row = await compare(lab, {
    label: "expiry churn (acquire, TTL 1 s)",
    holdfast,
    echo,
    good: ["acquired"],
    seconds: Math.max(3, lab.options.seconds),
    work: (round, target) => ({
      kind: "acquire",
      names: { style: "random", stem: `run${String(round).padStart(2, "0")}`, seed: round + 1 },
      body: BODY,
      keep: { pool: target === holdfast ? "short" : "echoed", every: SAMPLE_EVERY },
    }),
  });
  await sleep(1100);
  const caughtUpMs = 1100 + (await quiet(holdfast.pid, 60_000));
  const look = { kind: "pool", pool: "short", request: "look", once: true } as const;
  const tally = await lab.run(holdfast, look, {}, ["expired", "free"]);
  const { expired = 0, free = 0, held = 0 } = tally.outcomes;
  await Promise.all([holdfast.stop(), echo.stop()]);
  return {
    rows: [row],
    facts: [
      {
        label: "expiry churn: sample looked at afterwards",
        value: `${expired} expired, ${free} free, ${held} held`,
      },
      { label: "expiry churn: quiet after the last acquire", value: milliseconds(caughtUpMs) },
    ],
  };
}
