// Counters that two processes add to under a lease. One of the processes is stopped between its read and its write,
// for longer than its lease lasts, and then writes what it had in mind: only a fenced counter refuses it.
import type { Caller, Lab, Workload } from "../../src/verify/lab.js";
import { between, pick } from "../../src/verify/workloads/chance.js";
import { acquiring, crew, few, letGo, namesOf } from "../../src/verify/workloads/crew.js";
import { ask } from "./register.js";

const nameCount = 4;
const processCount = 8;
const ttlMs = 1000;

/** What is lost is counted by the register, not here. */
export const stoppedCounter = (registerUrl: string): Workload => ({
  name: "stopped-counter",
  says: "counters guarded by leases, with fencing and without, while their writers are stopped",
  minimums: { fencedWrites: 100, fencedRefused: 5, unfencedWrites: 100, unfencedLost: 10 },
  never: { fencedLost: "I6" },
  run: async (lab) => {
    const tally = { fencedRefused: 0 };
    const names = namesOf(lab, nameCount);
    await crew(few(lab, processCount), async (index) => {
      const caller = lab.caller(`stopped-${index}`, index);
      while (!lab.over.aborted) {
        const name = pick(lab, names);
        if (await isRefused(lab, caller, registerUrl, name, names.indexOf(name) % 2 === 0))
          tally.fencedRefused++;
        await lab.sleep(between(lab, 10, 60), lab.over);
      }
    });
    return tally;
  },
});

async function isRefused(
  lab: Lab,
  caller: Caller,
  registerUrl: string,
  name: string,
  isFenced: boolean,
): Promise<boolean> {
  const reply = await caller.call(acquiring(name, ttlMs));
  if (reply.kind !== "granted") return false;
  const { token, lease } = reply;
  const value = await ask(registerUrl, { name, isFenced, token });
  await lab.sleep(between(lab, 50, 200));
  const written = value === null ? null : await ask(registerUrl, { name, isFenced, token, value: value + 1 });
  await letGo(lab, caller, name, lease);
  return written === null;
}
