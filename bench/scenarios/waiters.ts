// 10,000 waiters on one name, each on a connection of its own. First the server's CPU time is read over idle windows of three
// seconds with nobody waiting and with all waiting: waiting must cost no polling. Then the holder releases; each
// waiter that is granted releases at once, until every one has had the name exactly once, in rising tokens.

import { setTimeout as sleep } from "node:timers/promises";
import { type Bar, count, type Fact, type Findings, milliseconds } from "../findings.js";
import type { Lab } from "../lab.js";
import type { Tally } from "../orders.js";
import { cpuMs, openFilesMax, residentMb } from "../proc.js";
import { ask, type Holdfast } from "../server.js";

const NAME = "queue";
const IDLE_MS = 3000;
/** The least of so many counts: polling would be in each, and what is collected after the rush of arrivals is not. */
const IDLE_WINDOWS = 4;
/** CPU time is read in steps of 10 ms. */
const POLLING_MS_MAX = 50;
const GATHER_WITHIN_MS = 120_000;

export async function waiters(lab: Lab): Promise<Findings> {
  const waiting = Math.min(lab.options.waiters, openFilesMax() - 500);
  const holdfast = await lab.holdfast();
  const held = await ask(holdfast, "POST", `/locks/${NAME}/acquire`, { ttl_seconds: 3600 });
  await sleep(1000);
  const alone = await cpuWhileIdle(holdfast);

  lab.say(`waiters: ${waiting} connections start to wait`);
  const body = { ttl_seconds: 600, wait_seconds: 600 };
  const names = { style: "same", stem: NAME } as const;
  const work = { kind: "handover", names, body, times: 1, rising: true } as const;
  const extent = { connections: waiting, limitSeconds: 500 };
  const running = lab.run(holdfast, work, extent, ["acquired", "released"]);
  running.catch(() => undefined);
  const gathered = await gather(holdfast, waiting, running);
  if (gathered < waiting) lab.fail(`waiters: only ${gathered} of ${waiting} wait`);
  await sleep(1000);
  const together = await cpuWhileIdle(holdfast);
  const memory = residentMb(holdfast.pid);

  lab.say("waiters: released");
  const releasedAt = performance.timeOrigin + performance.now();
  await ask(holdfast, "POST", `/locks/${NAME}/release`, { lease_id: held.field("lease_id") });
  const tally = await running;
  const { acquired = 0, released = 0, held: unserved = 0, token_not_rising: wrong = 0 } = tally.outcomes;
  if (acquired !== waiting || released !== waiting || unserved > 0 || wrong > 0) {
    lab.fail(`waiters: not everyone got it exactly once in rising tokens: ${JSON.stringify(tally.outcomes)}`);
  }
  await holdfast.stop();
  const tookMs = tally.endedAt - releasedAt;
  const facts: Fact[] = [
    { label: `${count(waiting)} waiters on one name: all served after`, value: milliseconds(tookMs) },
    { label: "… grants", value: `${count(acquired / (tookMs / 1000))}/s` },
    { label: "… granted exactly once, tokens strictly rising", value: `${acquired} of ${waiting}` },
  ];
  if (memory !== undefined) facts.push({ label: "… server memory while all wait", value: `${memory} MB` });
  return { facts, bars: pollingBars(alone, together) };
}

function pollingBars(alone: number | undefined, together: number | undefined): Bar[] {
  if (alone === undefined || together === undefined) return [];
  const measured = `${together} ms (nobody waiting: ${alone} ms)`;
  const met = together - alone <= POLLING_MS_MAX;
  const wanted = `≤ ${POLLING_MS_MAX} ms more`;
  return [{ what: "waiting costs no polling: CPU time in 3 idle s", wanted, measured, met }];
}

async function cpuWhileIdle(holdfast: Holdfast): Promise<number | undefined> {
  const windows: number[] = [];
  for (let i = 0; i < IDLE_WINDOWS; i += 1) {
    const before = cpuMs(holdfast.pid);
    await sleep(IDLE_MS);
    const after = cpuMs(holdfast.pid);
    if (before !== undefined && after !== undefined) windows.push(after - before);
  }
  return windows.length === 0 ? undefined : Math.min(...windows);
}

/** Waits until the server counts so many waiters, or the load has ended; returns how many it counts. */
async function gather(holdfast: Holdfast, waiting: number, running: Promise<Tally>): Promise<number> {
  let over = false;
  const end = () => {
    over = true;
  };
  running.then(end, end);
  const startedAt = performance.now();
  for (;;) {
    const seen = Number((await ask(holdfast, "GET", `/locks/${NAME}`)).field("waiters"));
    if (seen >= waiting || over || performance.now() - startedAt > GATHER_WITHIN_MS) return seen;
    await sleep(200);
  }
}
