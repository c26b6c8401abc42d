/** Streams of events are cut and resumed, over and over, while others work on the names that they follow. */
import type { Caller, Lab, Workload } from "../lab.js";
import { between, odds, pick } from "./chance.js";
import { acquiring, crew, letGo, look, namesOf } from "./crew.js";

const nameCount = 4;
const workerCount = 4;
const streamCount = 3;
const ttlMs = 1000;
/** How long events of the last changes may be on their way, in ms: as long as a stream may take that is in time. */
const lastEventsMs = 2000;

interface WatchTally extends Record<string, number> {
  grants: number;
  renewals: number;
  releases: number;
  abandoned: number;
  /** Times that a stream was cut and went on. */
  resumed: number;
  /** Changes that the streams told of. */
  told: number;
}

export const watchReplay: Workload = {
  name: "watch-replay",
  says: "streams of events are cut and resumed while others work",
  minimums: { grants: 100, renewals: 50, releases: 80, abandoned: 5, resumed: 60, told: 300 },
  purpose: ["resumed", "told"],
  run: async (lab) => {
    const tally: WatchTally = { grants: 0, renewals: 0, releases: 0, abandoned: 0, resumed: 0, told: 0 };
    const quiet = new AbortController();
    const streams = crew(streamCount, (index) => follow(lab, `watch-${index}`, quiet.signal, tally));
    const names = namesOf(lab, nameCount);
    try {
      await crew(workerCount, async (index) => {
        const caller = lab.caller(`watched-${index}`, index);
        while (!lab.over.aborted) {
          await work(lab, caller, pick(lab, names), tally);
          await lab.sleep(between(lab, 20, 120), lab.over);
        }
      });
      const restsAt = lab.now() + ttlMs + lastEventsMs;
      await look(lab, () => lab.now() >= restsAt);
    } finally {
      quiet.abort();
      await streams;
    }
    return tally;
  },
};

/** A stream is cut every other second, at times within its first moments; from the end of the run on it is left alone. */
async function follow(lab: Lab, stream: string, quiet: AbortSignal, tally: WatchTally): Promise<void> {
  while (!quiet.aborted) {
    const cut = new AbortController();
    const clock = lab.over.aborted
      ? until(quiet)
      : lab.sleep(odds(lab, 0.2) ? between(lab, 0, 30) : between(lab, 300, 3000), lab.over);
    const following = lab.watch(stream, lab.prefix, cut.signal);
    await clock;
    cut.abort();
    tally.told += await following;
    if (!quiet.aborted) tally.resumed++;
  }
}

const until = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });

async function work(lab: Lab, caller: Caller, name: string, tally: WatchTally): Promise<void> {
  const reply = await caller.call(acquiring(name, ttlMs));
  if (reply.kind !== "granted") return;
  tally.grants++;
  const { lease } = reply;
  for (let nth = between(lab, 0, 2); nth > 0; nth--) {
    await lab.sleep(between(lab, 5, 60));
    const renewed = await caller.call({ op: "renew", name, lease, ttlMs: null });
    if (renewed.kind === "granted") tally.renewals++;
  }
  if (odds(lab, 0.08)) {
    tally.abandoned++;
    return;
  }
  const released = await letGo(lab, caller, name, lease);
  if (released.kind === "done") tally.releases++;
}
