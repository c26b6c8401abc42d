/**
 * Leases bound to sessions: kept alive by one call for all, over in the moment that the session is ended or runs
 * out. Others want the same names meanwhile.
 */
import type { Caller, Lab, Workload } from "../lab.js";
import { between, odds, once, pick } from "./chance.js";
import { Abandoned, acquiring, askUntilKnown, crew, type Granted, letGo, namesOf } from "./crew.js";

const nameCount = 8;
const processCount = 8;
/** The shortest that a session may live. */
const sessionTtlMs = 5000;
const boundMax = 3;

interface SessionTally extends Record<string, number> {
  opened: number;
  /** Leases granted to a session. */
  bound: number;
  keepalives: number;
  /** A bound lease was renewed after its session would have run out but for its keepalives. */
  outlived: number;
  ended: number;
  /** A lease was refused because its session had ended. */
  endedLost: number;
  /** An ended session was refused. */
  gone: number;
  /** A name was granted after the session that had it ran out. */
  takeovers: number;
}

interface Bound extends Granted {
  readonly name: string;
}

/** What the processes have in common. */
interface Shared {
  readonly abandoned: Abandoned;
  readonly isFirst: () => boolean;
  readonly tally: SessionTally;
}

export const sessions: Workload = {
  name: "sessions",
  says: "leases live and end with their sessions",
  minimums: {
    opened: 30,
    bound: 60,
    keepalives: 60,
    outlived: 2,
    ended: 20,
    endedLost: 10,
    gone: 8,
    takeovers: 2,
  },
  purpose: ["endedLost"],
  run: async (lab) => {
    const tally: SessionTally = {
      opened: 0,
      bound: 0,
      keepalives: 0,
      outlived: 0,
      ended: 0,
      endedLost: 0,
      gone: 0,
      takeovers: 0,
    };
    const names = namesOf(lab, nameCount);
    const abandoned = new Abandoned();
    const isFirst = once();
    await crew(processCount, async (index) => {
      const caller = lab.caller(`session-${index}`, index);
      while (!lab.over.aborted) {
        await live(lab, caller, names, { abandoned, isFirst, tally });
        await lab.sleep(between(lab, 20, 200), lab.over);
      }
    });
    return tally;
  },
};

/** One session from its first to its last call. */
async function live(
  lab: Lab,
  caller: Caller,
  names: readonly string[],
  { abandoned, isFirst, tally }: Shared,
): Promise<void> {
  const opened = await caller.call({ op: "open", ttlMs: sessionTtlMs });
  if (opened.kind !== "opened") return;
  tally.opened++;
  const openedAt = lab.now();
  const { session } = opened;
  const isLong = odds(lab, 0.15);
  const held = await bind(lab, caller, session, names, abandoned, tally);
  for (let nth = isLong ? 5 : between(lab, 1, 3); nth > 0 && !lab.over.aborted; nth--) {
    await lab.sleep(isLong ? 1500 : between(lab, 30, 250), lab.over);
    const alive = await caller.call({ op: "keepalive", session });
    if (alive.kind === "gone") return;
    if (alive.kind === "done") tally.keepalives++;
  }
  const one = held[0];
  if (one !== undefined) {
    const renewed = await caller.call({ op: "renew", name: one.name, lease: one.lease, ttlMs: null });
    if (renewed.kind === "granted" && lab.now() - openedAt > sessionTtlMs) tally.outlived++;
    if (odds(lab, 0.3)) {
      held.shift();
      await letGo(lab, caller, one.name, one.lease);
    }
  }
  if (odds(lab, 0.2) && !lab.over.aborted) {
    for (const { name, token } of held) abandoned.leave(name, token);
    return;
  }
  await end(lab, caller, session, held, tally, isFirst);
}

async function bind(
  lab: Lab,
  caller: Caller,
  session: string,
  names: readonly string[],
  abandoned: Abandoned,
  tally: SessionTally,
): Promise<Bound[]> {
  const held: Bound[] = [];
  for (let tries = 0; tries < 2 * boundMax && held.length < boundMax && !lab.over.aborted; tries++) {
    const name = pick(lab, names);
    // Some get a TTL of their own, and live until the earlier end of the two.
    const ttlMs = odds(lab, 0.2) ? 2000 : null;
    const reply = await caller.call(acquiring(name, ttlMs, { session, waitMs: odds(lab, 0.3) ? 1000 : 0 }));
    if (reply.kind !== "granted") continue;
    // The session is proof of being the holder: asking again for a name that it has gives the lease it has.
    if (held.some(({ lease }) => lease === reply.lease)) continue;
    tally.bound++;
    if (abandoned.takenBy(name, reply.token)) tally.takeovers++;
    if (ttlMs === null) held.push({ ...reply, name });
  }
  return held;
}

async function end(
  lab: Lab,
  caller: Caller,
  session: string,
  held: readonly Bound[],
  tally: SessionTally,
  isFirst: () => boolean,
): Promise<void> {
  const ended = await askUntilKnown(lab, caller, { op: "end", session });
  if (ended.kind !== "done") return;
  tally.ended++;
  const one = held[0];
  if (one !== undefined && (odds(lab, 0.6) || isFirst())) {
    const late = await caller.call({ op: "renew", name: one.name, lease: one.lease, ttlMs: null });
    if (late.kind === "lost") tally.endedLost++;
  }
  if (odds(lab, 0.4)) {
    const late = odds(lab, 0.5)
      ? await caller.call({ op: "keepalive", session })
      : await caller.call(acquiring(one?.name ?? `${lab.prefix}n0`, null, { session }));
    if (late.kind === "gone") tally.gone++;
  }
}
