/**
 * Names that exclude each other: a path, what lies above it and what lies below, and `repo:global` where nobody else
 * is disturbed by it. Some hold with a session, which may have a path and the one above it at once; some prove to be
 * the holder and ask again.
 */
import type { Reply } from "../history.js";
import { type Caller, has, type Lab, type Workload } from "../lab.js";
import { between, odds, pick } from "./chance.js";
import {
  Abandoned,
  type AcquireCall,
  acquiring,
  askUntilKnown,
  crew,
  few,
  type Granted,
  letGo,
} from "./crew.js";

/** Below the run's prefix. The last begins like the first and has nothing to do with it. */
const tree = ["a", "a/b", "a/b/c", "a/b/d", "a/e", "a-b"] as const;
const repoGlobal = "repo:global";
const processCount = 8;
/** Short: who walks away from a name stands in the way of many. */
const ttlMs = 1000;
/** The shortest that a session may live. */
const sessionTtlMs = 5000;
/** How often who is refused asks again. */
const triesMax = 5;

interface OverlapTally extends Record<string, number> {
  grants: number;
  /** Refused because of a lease on a name above. */
  refusedAbove: number;
  refusedBelow: number;
  /** Granted to who had been refused because of a name that overlaps. */
  afterRefusal: number;
  /** Granted to a session that had a name that overlaps. */
  nested: number;
  /** Its own lease again, to who proved to hold it by the lease or the session. */
  proven: number;
  takeovers: number;
}

/** What the processes have in common. */
interface Shared {
  readonly lab: Lab;
  /** What names there are to choose from; some more than once. */
  readonly names: readonly string[];
  readonly abandoned: Abandoned;
  readonly tally: OverlapTally;
}

const pathsOf = ({ prefix }: Lab): string[] => tree.map((path) => `path:${prefix}${path}`);

export const overlap: Workload = {
  name: "overlap",
  says: "paths, those above and below them: no two callers hold what overlaps",
  minimums: { grants: 60, refusedAbove: 25, refusedBelow: 40, afterRefusal: 15, nested: 3, proven: 15 },
  purpose: ["refusedAbove", "refusedBelow", "afterRefusal"],
  needs: { nested: "sessions" },
  kinds: ["path:"],
  owns: (name, prefix) =>
    name === repoGlobal || name.startsWith(`path:${prefix}`) || name.startsWith(`repo:${prefix}`),
  run: async (lab) => {
    const tally: OverlapTally = {
      grants: 0,
      refusedAbove: 0,
      refusedBelow: 0,
      afterRefusal: 0,
      nested: 0,
      proven: 0,
      takeovers: 0,
    };
    const alone = lab.isAlone === true ? [repoGlobal, `repo:${lab.prefix}a`] : [];
    // What is above all others less often, or nothing else would be held.
    const [, ...below] = pathsOf(lab);
    const names = [...pathsOf(lab), ...below, ...below, ...alone];
    const shared: Shared = { lab, names, abandoned: new Abandoned(), tally };
    await crew(few(lab, processCount), async (index) => {
      const caller = lab.caller(`overlap-${index}`, index);
      while (!lab.over.aborted) {
        if (has(lab, "sessions") && odds(lab, 0.25)) await holdTwo(caller, shared);
        else await holdOne(caller, shared);
        await lab.sleep(between(lab, 20, 150), lab.over);
      }
    });
    return tally;
  },
};

async function holdOne(caller: Caller, shared: Shared): Promise<void> {
  const { lab, names, abandoned, tally } = shared;
  const name = pick(lab, names);
  const call = acquiring(name, ttlMs, { waitMs: odds(lab, 0.2) ? 1000 : 0 });
  const granted = await take(caller, call, shared);
  if (granted === null) return;
  const { lease, token } = granted;
  await lab.sleep(between(lab, 10, 80));
  if (odds(lab, 0.3)) await ask(caller, { ...call, waitMs: 0, lease }, granted, tally);
  if (odds(lab, 0.3)) await caller.call({ op: "renew", name, lease, ttlMs: null });
  await lab.sleep(between(lab, 10, 80));
  if (odds(lab, 0.05)) abandoned.leave(name, token);
  else await letGo(lab, caller, name, lease);
}

/** A session takes a path and one above it, in either order. */
async function holdTwo(caller: Caller, shared: Shared): Promise<void> {
  const { lab, tally } = shared;
  const opened = await caller.call({ op: "open", ttlMs: sessionTtlMs });
  if (opened.kind !== "opened") return;
  const { session } = opened;
  const [root = "", ...others] = pathsOf(lab);
  const below = pick(
    lab,
    others.filter((name) => isAbove(root, name)),
  );
  const [first, second] = odds(lab, 0.5) ? [root, below] : [below, root];
  const call = acquiring(first, null, { session });
  const granted = await take(caller, call, shared);
  if (granted !== null) {
    const both = await take(caller, { ...call, name: second }, shared);
    if (both !== null) tally.nested++;
    await ask(caller, call, granted, tally);
    await lab.sleep(between(lab, 10, 80));
    if (both !== null && odds(lab, 0.5)) await letGo(lab, caller, second, both.lease);
  }
  await askUntilKnown(lab, caller, { op: "end", session });
}

/** Asks for what it holds. */
async function ask(
  caller: Caller,
  call: AcquireCall,
  { lease }: Granted,
  tally: OverlapTally,
): Promise<void> {
  const reply = await caller.call(call);
  if (reply.kind === "granted" && reply.lease === lease) tally.proven++;
}

/** Asks until it is granted, a few times. */
async function take(caller: Caller, call: AcquireCall, shared: Shared): Promise<Granted | null> {
  const { lab, abandoned, tally } = shared;
  let isRefused = false;
  for (let tries = 0; tries < triesMax && !lab.over.aborted; tries++) {
    const reply = await caller.call(call);
    if (reply.kind === "granted") {
      tally.grants++;
      if (isRefused) tally.afterRefusal++;
      if (abandoned.takenBy(call.name, reply.token)) tally.takeovers++;
      return reply;
    }
    isRefused = noteRefusal(call.name, reply, tally) || isRefused;
    await lab.sleep(between(lab, 20, 120), lab.over);
  }
  return null;
}

/** Whether it was refused because of a name that overlaps. */
function noteRefusal(name: string, reply: Reply, tally: OverlapTally): boolean {
  if (reply.kind !== "held" || typeof reply.overlapping !== "string") return false;
  if (isAbove(reply.overlapping, name)) tally.refusedAbove++;
  else tally.refusedBelow++;
  return true;
}

const isAbove = (one: string, other: string): boolean => one === repoGlobal || other.startsWith(`${one}/`);
