/**
 * Many processes want few names. They hold, renew, release and sometimes walk away, so that the name is taken over
 * when the lease has run out; now and then one acts on a lease that it no longer has.
 */
import type { Caller, Lab, Workload } from "../lab.js";
import { between, odds, once, pick, shortTtlMs } from "./chance.js";
import {
  Abandoned,
  acquiring,
  crew,
  few,
  type Granted,
  Haste,
  letGo,
  namesOf,
  repeat,
  requestIds,
} from "./crew.js";

const nameCount = 5;
const processCount = 10;

interface MutexTally extends Record<string, number> {
  grants: number;
  /** Granted after the holder before had walked away. */
  takeovers: number;
  renewals: number;
  /** Renewed past the end that the grant had named. */
  outlived: number;
  /** A lease that was over, or never was, was refused. */
  staleRefused: number;
  lostGrants: number;
}

export const mutex: Workload = {
  name: "mutex",
  says: "many processes hold, renew, release and abandon few names",
  minimums: { grants: 100, takeovers: 8, renewals: 50, outlived: 3, staleRefused: 10, lostGrants: 2 },
  purpose: ["takeovers", "renewals"],
  run: async (lab) => {
    const tally: MutexTally = {
      grants: 0,
      takeovers: 0,
      renewals: 0,
      outlived: 0,
      staleRefused: 0,
      lostGrants: 0,
    };
    const names = namesOf(lab, nameCount);
    const abandoned = new Abandoned();
    const isFirst = once();
    const haste = new Haste(lab);
    await crew(few(lab, processCount), async (index) => {
      const process = `mutex-${index}`;
      const caller = lab.caller(process, index);
      const nextId = requestIds(lab, process);
      while (!lab.over.aborted) {
        const name = pick(lab, names);
        if (odds(lab, 0.1)) await caller.call({ op: "read", name });
        const ttlMs = shortTtlMs(lab);
        const granted = await take(haste, caller, name, ttlMs, odds(lab, 0.5) ? nextId() : null, tally);
        if (granted !== null) {
          tally.grants++;
          if (abandoned.takenBy(name, granted.token)) tally.takeovers++;
          if (odds(lab, 0.12) || isFirst()) abandoned.leave(name, granted.token);
          else await hold(lab, caller, name, ttlMs, granted, tally);
        }
        await lab.sleep(between(lab, 30, 300), lab.over);
      }
    });
    return tally;
  },
};

/** One try. With a request id the reply may be lost on purpose, and is asked for again. */
async function take(
  haste: Haste,
  caller: Caller,
  name: string,
  ttlMs: number,
  requestId: string | null,
  tally: MutexTally,
): Promise<Granted | null> {
  const { lab } = haste;
  const call = acquiring(name, ttlMs, { requestId });
  const isCut = requestId !== null && odds(lab, 0.2);
  let reply = isCut ? await haste.askBriefly(caller, call) : await haste.ask(caller, call);
  if (reply.kind === "unknown" && requestId !== null) {
    await lab.sleep(between(lab, 5, 30));
    const again = await repeat(lab, caller, call);
    if (again.hadCommitted) tally.lostGrants++;
    reply = again.reply;
  }
  return reply.kind === "granted" ? reply : null;
}

async function hold(
  lab: Lab,
  caller: Caller,
  name: string,
  ttlMs: number,
  { lease, leftMs }: Granted,
  tally: MutexTally,
): Promise<void> {
  const endsAt = lab.now() + leftMs;
  const isLong = odds(lab, 0.1);
  const renewals = isLong ? 5 : between(lab, 0, 2);
  await lab.sleep(between(lab, 5, 120));
  for (let nth = 0; nth < renewals && !lab.over.aborted; nth++) {
    const newTtlMs = !isLong && odds(lab, 0.3) ? shortTtlMs(lab) : null;
    const renewed = await caller.call({ op: "renew", name, lease, ttlMs: newTtlMs });
    if (renewed.kind === "lost") return;
    if (renewed.kind === "granted") tally.renewals++;
    if (renewed.kind === "granted" && lab.now() > endsAt) tally.outlived++;
    await lab.sleep(isLong ? ttlMs / 3 : between(lab, 5, 120));
  }
  if (odds(lab, 0.1)) await caller.call({ op: "read", name });
  await letGo(lab, caller, name, lease);
  if (odds(lab, 0.2)) await actTooLate(lab, caller, name, lease, tally);
}

async function actTooLate(
  lab: Lab,
  caller: Caller,
  name: string,
  lease: string,
  tally: MutexTally,
): Promise<void> {
  const stale = odds(lab, 0.8) ? lease : "ls_never-granted";
  const reply = odds(lab, 0.5)
    ? await caller.call({ op: "renew", name, lease: stale, ttlMs: null })
    : await caller.call({ op: "release", name, lease: stale });
  if (reply.kind === "lost") tally.staleRefused++;
}
