/**
 * Fencing tokens of a few names, over every way a lease can end: release, expiry, an operator's force where the
 * caller may, and a lock delay in between. What else happens to the service meanwhile must not set them back.
 */
import { type Caller, has, type Lab, type Workload } from "../lab.js";
import { between, odds, pick } from "./chance.js";
import { acquiring, crew, few, letGo, namesOf } from "./crew.js";

const nameCount = 4;
const processCount = 6;
const ttlMs = 1000;
const delayMs = 1000;

type Ending = "afterRelease" | "afterExpiry" | "afterForce";

interface TokenTally extends Record<string, number> {
  grants: number;
  /** Grants, by how the lease before had ended. */
  afterRelease: number;
  afterExpiry: number;
  afterForce: number;
  /** Refused while a lock delay ran. */
  delayed: number;
  reads: number;
  /** A token that was not above one granted earlier. */
  setBack: number;
}

/** What was last known of a name. */
interface Last {
  token: number;
  ending: Ending;
}

export const tokens: Workload = {
  name: "tokens",
  says: "fencing tokens rise over release, expiry, force and whatever happens outside",
  minimums: { grants: 100, afterRelease: 50, afterExpiry: 10, delayed: 10, reads: 40 },
  purpose: ["afterRelease", "afterExpiry", "delayed"],
  never: { setBack: "I9" },
  run: async (lab) => {
    const tally: TokenTally = {
      grants: 0,
      afterRelease: 0,
      afterExpiry: 0,
      afterForce: 0,
      delayed: 0,
      reads: 0,
      setBack: 0,
    };
    const names = namesOf(lab, nameCount);
    const last = new Map<string, Last>();
    const first = { isDue: true };
    await crew(few(lab, processCount), async (index) => {
      const caller = lab.caller(`tokens-${index}`, index);
      let mayForce = has(lab, "force");
      while (!lab.over.aborted) {
        const name = pick(lab, names);
        if (odds(lab, 0.2)) await look(caller, name, last, tally);
        if (mayForce && odds(lab, 0.08)) mayForce = await force(caller, name, last);
        await take(lab, caller, name, last, tally, first);
        await lab.sleep(between(lab, 30, 200), lab.over);
      }
    });
    return tally;
  },
};

async function take(
  lab: Lab,
  caller: Caller,
  name: string,
  last: Map<string, Last>,
  tally: TokenTally,
  first: { isDue: boolean },
): Promise<void> {
  const knownBefore = last.get(name)?.token ?? 0;
  // The first lease runs out with a lock delay, not by chance: a short run must see that too.
  const isFirst = first.isDue;
  first.isDue = false;
  const isDelayed = odds(lab, 0.3) || isFirst;
  const reply = await caller.call(acquiring(name, ttlMs, { delayMs: isDelayed ? delayMs : 0 }));
  if (reply.kind === "delayed") tally.delayed++;
  if (isFirst && reply.kind !== "granted") first.isDue = true;
  if (reply.kind !== "granted") return;
  tally.grants++;
  if (reply.token <= knownBefore) tally.setBack++;
  const before = last.get(name);
  if (before !== undefined && before.token < reply.token) tally[before.ending]++;
  const mine: Last = { token: reply.token, ending: "afterExpiry" };
  // A grant that was made earlier may be heard of later.
  if (before === undefined || before.token < reply.token) last.set(name, mine);
  if (isFirst) {
    // In the middle of the delay, if the service is not very slow.
    await lab.sleep(ttlMs + delayMs / 2, lab.over);
    await take(lab, caller, name, last, tally, first);
  }
  if (isFirst || odds(lab, 0.2)) return;
  await lab.sleep(between(lab, 5, 60));
  // Said before it is asked: the next may be granted before the reply is here.
  mine.ending = "afterRelease";
  const released = await letGo(lab, caller, name, reply.lease);
  if (released.kind === "lost") mine.ending = "afterExpiry";
}

async function look(caller: Caller, name: string, last: Map<string, Last>, tally: TokenTally): Promise<void> {
  const knownBefore = last.get(name)?.token ?? 0;
  const reply = await caller.call({ op: "read", name });
  if (reply.kind !== "state") return;
  tally.reads++;
  // What a free name tells is the last token that is remembered: less, after a restore.
  if (reply.held && reply.token < knownBefore) tally.setBack++;
}

/** False once the caller was told that it may not. */
async function force(caller: Caller, name: string, last: Map<string, Last>): Promise<boolean> {
  const reply = await caller.call({ op: "force", name });
  const ended = last.get(name);
  if (reply.kind === "done" && ended?.ending === "afterExpiry") ended.ending = "afterForce";
  return !(reply.kind === "refused" && reply.code === "forbidden");
}
