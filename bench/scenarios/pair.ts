// Acquire and release in turn on each connection, a fresh name each time; a pair is two requests, and the speed is
// compared per request.

import { count, type Findings } from "../findings.js";
import type { Lab } from "../lab.js";
import { namesOf } from "../names.js";
import { ask } from "../server.js";
import { compare } from "../versus.js";

const BODY = { ttl_seconds: 600 };

export async function pair(lab: Lab): Promise<Findings> {
  const holdfast = await lab.holdfast();
  const probe = namesOf({ style: "random", stem: "probe", seed: 1000 })();
  const taken = await ask(holdfast, "POST", `/locks/${probe}/acquire`, BODY);
  const released = await ask(holdfast, "POST", `/locks/${probe}/release`, {
    lease_id: taken.field("lease_id"),
  });
  const echo = await lab.echo({ acquire: taken.text, release: released.text });
  const row = await compare(lab, {
    label: "acquire + release (requests)",
    holdfast,
    echo,
    good: ["acquired", "released"],
    work: (round) => ({
      kind: "handover",
      names: { style: "random", stem: `run${String(round).padStart(2, "0")}`, seed: round + 1 },
      body: BODY,
    }),
  });
  await Promise.all([holdfast.stop(), echo.stop()]);
  return {
    rows: [row],
    facts: [{ label: "acquire + release", value: `${count(row.holdfast.perSecond / 2)} pairs/s` }],
  };
}
