/**
 * Counters guarded by leases: read, work, write one more. Some holders pause for longer than their TTL and write all
 * the same. Half of the counters look at the fencing token and half do not; those that do must lose no update.
 */
import type { Caller, Lab, Workload } from "../lab.js";
import { between, odds, once, pick } from "./chance.js";
import { acquiring, crew, few, letGo, namesOf } from "./crew.js";

const nameCount = 6;
const processCount = 10;
const ttlMs = 1000;

interface CounterTally extends Record<string, number> {
  /** Holders that wrote after their lease had run out. */
  pauses: number;
  fencedWrites: number;
  /** Writes that a fenced counter refused because of a higher token. */
  fencedRefused: number;
  fencedLost: number;
  unfencedWrites: number;
  unfencedLost: number;
}

/** What the lease guards. */
export class Counter {
  #value = 0;
  #writes = 0;
  #highest = 0;

  constructor(readonly isFenced: boolean) {}

  /** Null where a later holder has been here. A read counts as having been here: what it saw must still be true when it writes. */
  read(token: number): number | null {
    return this.#admits(token) ? this.#value : null;
  }

  write(token: number, value: number): boolean {
    if (!this.#admits(token)) return false;
    this.#value = value;
    this.#writes++;
    return true;
  }

  get writes(): number {
    return this.#writes;
  }

  /** Each write that was accepted added one to what it had read. */
  get lost(): number {
    return this.#writes - this.#value;
  }

  #admits(token: number): boolean {
    if (!this.isFenced) return true;
    if (token < this.#highest) return false;
    this.#highest = token;
    return true;
  }
}

export const counter: Workload = {
  name: "counter",
  says: "counters guarded by leases, with fencing and without, while holders pause past their TTL",
  minimums: { pauses: 15, fencedWrites: 80, fencedRefused: 3, unfencedWrites: 80, unfencedLost: 3 },
  purpose: ["pauses", "fencedWrites", "unfencedWrites"],
  never: { fencedLost: "I6" },
  run: async (lab) => {
    const counters = new Map(namesOf(lab, nameCount).map((name, nth) => [name, new Counter(nth % 2 === 0)]));
    const tally = { pauses: 0, fencedRefused: 0 };
    const first = { fenced: once(), unfenced: once() };
    await crew(few(lab, processCount), async (index) => {
      const caller = lab.caller(`counter-${index}`, index);
      while (!lab.over.aborted) {
        const [name, guarded] = pick(lab, [...counters]);
        const isFirst = guarded.isFenced ? first.fenced : first.unfenced;
        await count(lab, caller, name, guarded, tally, isFirst);
        await lab.sleep(between(lab, 20, 150), lab.over);
      }
    });
    return { ...tally, ...totals([...counters.values()]) };
  },
};

async function count(
  lab: Lab,
  caller: Caller,
  name: string,
  guarded: Counter,
  tally: Pick<CounterTally, "pauses" | "fencedRefused">,
  isFirst: () => boolean,
): Promise<void> {
  const reply = await caller.call(acquiring(name, ttlMs));
  if (reply.kind !== "granted") return;
  const { token, lease } = reply;
  const value = guarded.read(token);
  const pauses = odds(lab, 0.12) || isFirst();
  await lab.sleep(pauses ? between(lab, 1200, 2500) : between(lab, 5, 60));
  if (pauses) tally.pauses++;
  if (value === null || !guarded.write(token, value + 1)) tally.fencedRefused++;
  await letGo(lab, caller, name, lease);
}

export function totals(counters: readonly Counter[]): Omit<CounterTally, "pauses" | "fencedRefused"> {
  const sum = (isFenced: boolean, of: (counter: Counter) => number): number =>
    counters.filter((counter) => counter.isFenced === isFenced).reduce((total, one) => total + of(one), 0);
  return {
    fencedWrites: sum(true, ({ writes }) => writes),
    fencedLost: sum(true, ({ lost }) => lost),
    unfencedWrites: sum(false, ({ writes }) => writes),
    unfencedLost: sum(false, ({ lost }) => lost),
  };
}
