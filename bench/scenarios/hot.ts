// One hot name: 64 contenders wait for it, each releases as soon as it is granted and waits again. A hand-over is
// one release and the grant it causes; they follow one another, so the figure is a latency chain and is set beside
// the echo server with a single connection.

import { count, type Findings, median, milliseconds, rateOf } from "../findings.js";
import type { Lab } from "../lab.js";
import type { Tally } from "../orders.js";
import { quiet } from "../proc.js";
import { ask, type Target } from "../server.js";
import { inTurn } from "../versus.js";

const BODY = { ttl_seconds: 60, wait_seconds: 30 };
const GOOD = ["acquired", "released"];

export async function hot(lab: Lab): Promise<Findings> {
  const holdfast = await lab.holdfast();
  const taken = await ask(holdfast, "POST", "/locks/hot-probe/acquire", BODY);
  const released = await ask(holdfast, "POST", "/locks/hot-probe/release", {
    lease_id: taken.field("lease_id"),
  });
  const echo = await lab.echo({ acquire: taken.text, release: released.text });
  const { seconds, rounds } = lab.options;
  const contend = { kind: "handover", names: { style: "same", stem: "hot-name" }, body: BODY } as const;
  const rates: number[] = [];
  const ratios: number[] = [];
  const longest: number[] = [];
  for (let round = 0; round <= rounds; round += 1) {
    const tallies = new Map<Target, Tally>();
    for (const target of inTurn<Target>([echo, holdfast], round)) {
      await quiet(holdfast.pid);
      const work = { ...contend, rising: target === holdfast };
      const connections = target === holdfast ? 64 : 1;
      tallies.set(target, await lab.run(target, work, { connections, seconds }, GOOD));
    }
    const alone = tallies.get(echo);
    const tally = tallies.get(holdfast);
    if (alone === undefined || tally === undefined) throw new Error("a round without both runs");
    if ((tally.outcomes.token_not_rising ?? 0) > 0) lab.fail("one hot name: a fencing token did not rise");
    if (round === 0) continue;
    rates.push(rateOf(tally, ["acquired"]));
    ratios.push(rateOf(tally, ["acquired"]) / rateOf(alone, GOOD));
    longest.push(tally.maxMs);
    lab.say(`one hot name: round ${round}: ${Math.round(rates.at(-1) ?? 0)} hand-overs/s`);
  }
  await Promise.all([holdfast.stop(), echo.stop()]);
  return {
    facts: [
      { label: "one hot name, 64 contenders", value: `${count(median(rates))} hand-overs/s` },
      { label: "… beside the echo server's requests/s on one connection", value: median(ratios).toFixed(2) },
      { label: "… longest wait for a turn", value: milliseconds(Math.max(...longest)) },
    ],
  };
}
