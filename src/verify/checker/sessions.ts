/**
 * Sessions as a history shows them. A session is over at one instant, and everything its names need to know of it is
 * between which two instants that lies. So a keepalive, whatever the number of leases, costs the search nothing.
 */
import type { History } from "../history.js";
import type { Noted } from "./ledger.js";
import { type Accuse, at, told } from "./wording.js";

export interface SessionFacts {
  readonly id: string;
  readonly principal: string;
  readonly ttlMs: number;
  /** The call that opened it, and the keepalives that were done, by the instant at which they began. */
  readonly prolongs: readonly Noted[];
  readonly lostKeepalives: number;
  /** It was alive at some instant of each of these. */
  readonly lives: readonly Noted[];
  /** Replies that it is gone. */
  readonly gone: readonly Noted[];
  /** Calls that ended it, or may have. */
  readonly ends: readonly Noted[];
  /** It is over neither before the first of these instants nor after the second. */
  readonly overFrom: number;
  readonly overBy: number;
}

/** One that was opened before the history began, if ever: nothing is known of it. */
const unknownSession: Omit<SessionFacts, "id"> = {
  principal: "",
  ttlMs: 0,
  prolongs: [],
  lostKeepalives: 0,
  lives: [],
  gone: [],
  ends: [],
  overFrom: Number.NEGATIVE_INFINITY,
  overBy: Number.POSITIVE_INFINITY,
};

/** A service's clock may tick in whole milliseconds. */
export const tickMs = 1;

/** Every session that was named. `all` is in the order in which operations began. */
export function sessionsIn(all: readonly Noted[], history: History): Map<string, SessionFacts> {
  const opened = new Map<string, Noted>();
  const calls = new Map<string, Noted[]>();
  const bound = new Map<string, string | null>();
  for (const noted of all) {
    const { call, reply } = noted;
    if (reply.kind === "opened") opened.set(reply.session, noted);
    const named = "session" in call ? call.session : null;
    // Who proves to hold a lease may name another session than the lease's.
    if (call.op === "acquire" && reply.kind === "granted" && !bound.has(reply.lease))
      bound.set(reply.lease, named);
    const id = call.op === "renew" && reply.kind === "granted" ? (bound.get(reply.lease) ?? null) : named;
    if (id !== null) note(calls, id, noted);
  }
  return new Map([...calls].map(([id, found]) => [id, factsOf(id, opened.get(id), found, history)]));
}

function note(calls: Map<string, Noted[]>, id: string, noted: Noted): void {
  const known = calls.get(id);
  if (known === undefined) calls.set(id, [noted]);
  else known.push(noted);
}

function factsOf(
  id: string,
  opened: Noted | undefined,
  all: readonly Noted[],
  history: History,
): SessionFacts {
  if (opened === undefined) return { ...unknownSession, id };
  const { clockBoundMs, quiet = [] } = history;
  const calls = all.filter(({ principal }) => principal === opened.principal);
  const ttlMs = opened.call.op === "open" ? opened.call.ttlMs : 0;
  const kept = calls.filter(({ call, reply }) => call.op === "keepalive" && reply.kind === "done");
  const lost = calls.filter(({ call, reply }) => call.op === "keepalive" && reply.kind === "unknown");
  const prolongs = [opened, ...kept];
  const lives = [
    opened,
    ...calls.filter(
      ({ reply, call }) => reply.kind === "granted" || (call.op === "keepalive" && reply.kind === "done"),
    ),
  ];
  const gone = calls.filter(({ reply }) => reply.kind === "gone");
  const ends = calls.filter(
    ({ call, reply }) => call.op === "end" && (reply.kind === "done" || reply.kind === "unknown"),
  );
  const least = Math.max(...prolongs.map(({ began }) => began)) + ttlMs - clockBoundMs;
  const restores = quiet.filter(({ to }) => to >= opened.began).map(({ from }) => from);
  const mayEnd = Math.min(least, ...ends.map(({ began }) => began), ...restores);
  const most = ttlMs + clockBoundMs + tickMs;
  const isEnded = ends.filter(({ reply }) => reply.kind === "done");
  return {
    id,
    principal: opened.principal,
    ttlMs,
    prolongs,
    lostKeepalives: lost.length,
    lives,
    gone,
    ends,
    overFrom: Math.max(mayEnd, ...lives.map(({ began }) => began)),
    overBy: Math.min(
      // Each keepalive without a reply may have come in the last moment.
      Math.max(...prolongs.map(({ ended }) => ended)) + most * (1 + lost.length),
      ...[...isEnded, ...gone].map(({ ended }) => ended),
    ),
  };
}

/** No session is lost before its time (I22), and none goes on after it (I16) or is granted anything then (I5). */
export function checkSessions(sessions: Iterable<SessionFacts>, history: History, accuse: Accuse): void {
  for (const session of sessions) {
    const { id, gone, lives, prolongs, overFrom, overBy, ends, ttlMs } = session;
    const blame = (invariant: string, shown: readonly Noted[], says: string): void =>
      accuse(invariant, `session ${id}`, shown, says);
    const late = lives.find(({ began }) => began > overBy);
    const early = gone.find(({ ended }) => ended < overFrom);
    if (late !== undefined) {
      const over = [...gone, ...ends].find(({ ended }) => ended === overBy);
      const says = over === undefined ? `had run out by ${at(overBy)}` : `was over: ${told(over)}`;
      const shown = over === undefined ? [late] : [over, late];
      blame(late.call.op === "acquire" ? "I5" : "I16", shown, `${says}; and went on: ${told(late)}`);
    } else if (early !== undefined)
      blame("I22", [early], `was to live until ${at(overFrom)} at least, but ${told(early)}`);
    const most = (ttlMs + history.clockBoundMs + tickMs) * (1 + session.lostKeepalives);
    let latest: number | null = null;
    for (const noted of prolongs) {
      if (latest !== null && noted.began > latest)
        blame("I16", [noted], `had run out by ${at(latest)}, and went on: ${told(noted)}`);
      latest = Math.max(latest ?? 0, noted.ended + most);
    }
  }
}
