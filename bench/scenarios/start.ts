// How long a start takes, from spawn to the first 200 of GET /ready, with few and with many leases in the store:
// clean stops and starts in turn, then one start of each after kill -9, which must find all its leases again.

import { atMost, type Findings, median, milliseconds } from "../findings.js";
import type { Lab } from "../lab.js";
import type { Holdfast } from "../server.js";
import { inTurn } from "../versus.js";

const LOOKED_AT = 2000;

export interface Stored {
  readonly leases: number;
  readonly holdfast: Holdfast;
}

export async function startTimes(lab: Lab, small: Stored, large: Stored): Promise<Findings> {
  const stores = [small, large].map(({ leases, holdfast }) => ({
    leases,
    holdfast,
    clean: [] as number[],
    killed: 0,
  }));
  const [few, many] = stores;
  if (few === undefined || many === undefined) throw new Error("two stores are needed");
  for (let round = 0; round <= lab.options.rounds; round += 1) {
    for (const store of inTurn(stores, round)) {
      await store.holdfast.stop("SIGTERM");
      store.holdfast = await lab.holdfast(store.holdfast.dataDirectory);
      // The first start after the load finds a cold or a dirty cache.
      if (round > 0) store.clean.push(store.holdfast.readyAfterMs);
      lab.say(`start: ${store.leases} leases: ${milliseconds(store.holdfast.readyAfterMs)}`);
    }
  }
  for (const store of stores) {
    const fresh = { style: "random", stem: "killed", seed: 5 } as const;
    await lab.run(store.holdfast, { kind: "acquire", names: fresh, body: {} }, { count: LOOKED_AT }, [
      "acquired",
    ]);
    await store.holdfast.stop("SIGKILL");
    store.holdfast = await lab.holdfast(store.holdfast.dataDirectory);
    store.killed = store.holdfast.readyAfterMs;
    const renew = { kind: "pool", pool: String(store.leases), request: "renew" } as const;
    await lab.run(store.holdfast, renew, { count: LOOKED_AT }, ["renewed"]);
    await store.holdfast.stop();
  }
  const ratio = median(many.clean.map((ms, round) => ms / (few.clean[round] ?? Number.NaN)));
  const facts = stores.map(({ leases, clean, killed }) => ({
    label: `start with ${leases.toLocaleString("en-US")} leases`,
    value: `${milliseconds(median(clean))}, after kill -9 ${milliseconds(killed)}`,
  }));
  const what = `start with ${many.leases.toLocaleString("en-US")} leases beside 1,000`;
  const afterKill = `${what}, after kill -9 (one start)`;
  return { facts, bars: [atMost(what, ratio, 1.5), atMost(afterKill, many.killed / few.killed, 1.5)] };
}
