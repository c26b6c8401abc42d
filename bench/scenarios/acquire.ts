// Durable acquire: every request takes a fresh name for ten minutes and only `acquired` counts. Two rows, because
// names in sequence dirty few pages of a store and random ones dirty a page each.

import { atLeast, atMost, type Findings, type Row } from "../findings.js";
import type { Lab } from "../lab.js";
import { type NameSource, namesOf } from "../names.js";
import { ask } from "../server.js";
import { compare } from "../versus.js";

const BODY = { ttl_seconds: 600 };

export async function acquire(lab: Lab): Promise<Findings> {
  const rows = [await measure(lab, "counter", "in sequence"), await measure(lab, "random", "random")];
  const bars = rows.flatMap((row) => [
    atLeast(`${row.label}: speed beside the echo server`, row.ratio, 0.6),
    atMost(`${row.label}: p99 beside the echo server's`, row.p99Ratio, 3),
  ]);
  return { rows, bars };
}

async function measure(lab: Lab, style: NameSource["style"], words: string): Promise<Row> {
  const holdfast = await lab.holdfast();
  const probe = namesOf({ style, stem: "probe", seed: 1000 })();
  const { text } = await ask(holdfast, "POST", `/locks/${probe}/acquire`, BODY);
  const echo = await lab.echo({ acquire: text });
  const row = await compare(lab, {
    label: `durable acquire, names ${words}`,
    holdfast,
    echo,
    good: ["acquired"],
    work: (round) => ({
      kind: "acquire",
      names: { style, stem: `run${String(round).padStart(2, "0")}`, seed: round + 1 },
      body: BODY,
    }),
  });
  await Promise.all([holdfast.stop(), echo.stop()]);
  return row;
}
