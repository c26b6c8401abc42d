/**
 * Sessions as a history shows them. A session is over at one instant, and everything its names need to know of it is
 * between which two instants that lies. So a keepalive, whatever the number of leases, costs the search nothing.
 */
import type { Call, History, Reply } from "../history.js";
import type { Noted } from "./ledger.js";
import { type Accuse, at, told } from "./wording.js";

export interface SessionFacts {
  readonly id: string;
  readonly principal: string;
  readonly ttlMs: number;
  /** Every call that was answered with this id. */
  readonly openings: readonly Opening[];
  /** What others did with it. */
  readonly strangers: readonly Noted[];
  /** The call that opened it, and the keepalives that were done, by the instant at which they began. */
  readonly prolongs: readonly Noted[];
  readonly lostKeepalives: readonly Noted[];
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

type Opening = Noted<Call, Extract<Reply, { kind: "opened" }>>;

/** One that was opened before the history began, if ever: nothing is known of it. */
const unknownSession: Omit<SessionFacts, "id"> = {
  principal: "",
  ttlMs: 0,
  openings: [],
  strangers: [],
  prolongs: [],
  lostKeepalives: [],
  lives: [],
  gone: [],
  ends: [],
  overFrom: Number.NEGATIVE_INFINITY,
  overBy: Number.POSITIVE_INFINITY,
};

/** A service's clock may tick in whole milliseconds. */
export const tickMs = 1;

/** How long after its time something may still go on, in ms. */
export const lateBy = ({ clockBoundMs, terms }: History): number =>
  clockBoundMs + tickMs + (terms?.lateMs ?? 0);

const isOpening = (noted: Noted): noted is Opening => noted.reply.kind === "opened";

/** Every session that was opened or named. `all` is in the order in which operations began. */
export function sessionsIn(all: readonly Noted[], history: History): Map<string, SessionFacts> {
  const openings = new Map<string, Opening[]>();
  const calls = new Map<string, Noted[]>();
  const bound = new Map<string, string | null>();
  for (const noted of all) {
    const { call, reply } = noted;
    if (isOpening(noted)) {
      openings.set(noted.reply.session, [...(openings.get(noted.reply.session) ?? []), noted]);
      if (!calls.has(noted.reply.session)) calls.set(noted.reply.session, []);
    }
    const named = "session" in call ? call.session : null;
    // Who proves to hold a lease may name another session than the lease's.
    if (call.op === "acquire" && reply.kind === "granted" && !bound.has(reply.lease))
      bound.set(reply.lease, named);
    const id = call.op === "renew" && reply.kind === "granted" ? (bound.get(reply.lease) ?? null) : named;
    if (id !== null) note(calls, id, noted);
  }
  return new Map([...calls].map(([id, found]) => [id, factsOf(id, openings.get(id) ?? [], found, history)]));
}

function note(calls: Map<string, Noted[]>, id: string, noted: Noted): void {
  const known = calls.get(id);
  if (known === undefined) calls.set(id, [noted]);
  else known.push(noted);
}

function factsOf(
  id: string,
  openings: readonly Opening[],
  all: readonly Noted[],
  history: History,
): SessionFacts {
  const opened = openings.at(-1);
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
  const forgotten = quiet.filter(({ from }) => from > opened.ended).map(({ to }) => to);
  const mayEnd = Math.min(least, ...ends.map(({ began }) => began), ...restores);
  const most = ttlMs + lateBy(history);
  const isEnded = ends.filter(({ reply }) => reply.kind === "done");
  return {
    id,
    principal: opened.principal,
    ttlMs,
    openings,
    strangers: all.filter(
      ({ call, principal, reply }) =>
        principal !== opened.principal &&
        call.op !== "renew" &&
        (reply.kind === "done" || reply.kind === "granted"),
    ),
    prolongs,
    lostKeepalives: lost,
    lives,
    gone,
    ends,
    overFrom: Math.max(mayEnd, ...lives.map(({ began }) => began)),
    overBy: Math.min(
      // Each keepalive without a reply may have come in the last moment.
      Math.max(...prolongs.map(({ ended }) => ended)) + most * (1 + lost.length),
      ...[...isEnded, ...gone].map(({ ended }) => ended),
      // No session outlives a restore.
      ...forgotten,
    ),
  };
}

/** How long a session could go on, at most and at least, for the call that was told of one of its leases. */
export function restOf(session: SessionFacts, { began, ended }: Noted, history: History): Rest {
  const { prolongs, lostKeepalives, ttlMs, principal } = session;
  if (principal === "") return { least: Number.NEGATIVE_INFINITY, most: Number.POSITIVE_INFINITY };
  const slackMs = lateBy(history);
  const before = prolongs.filter((prolong) => prolong.ended < began);
  const latest = [...prolongs, ...lostKeepalives]
    .filter((prolong) => prolong.began <= ended)
    .map((prolong) => Math.min(prolong.ended, ended));
  return {
    least: Math.max(...before.map((prolong) => prolong.began)) + ttlMs - ended - slackMs,
    most: Math.min(ttlMs, Math.max(...latest) + ttlMs - began) + slackMs,
  };
}

/** In ms. */
export interface Rest {
  readonly least: number;
  readonly most: number;
}

/** No session is lost before its time (I22), and none goes on after it (I16) or is granted anything then (I5). */
export function checkSessions(sessions: Iterable<SessionFacts>, history: History, accuse: Accuse): void {
  for (const session of sessions) {
    const { id, gone, lives, prolongs, overFrom, overBy, ends, ttlMs } = session;
    const blame = (invariant: string, shown: readonly Noted[], says: string): void =>
      accuse(invariant, `session ${id}`, shown, says);
    checkOpening(session, history, blame);
    const late = lives.find(({ began }) => began > overBy);
    const early = gone.find(({ ended }) => ended < overFrom);
    if (late !== undefined) {
      const over = [...gone, ...ends].find(({ ended }) => ended === overBy);
      const says = over === undefined ? `had run out by ${at(overBy)}` : `was over: ${told(over)}`;
      const shown = over === undefined ? [late] : [over, late];
      blame(late.call.op === "acquire" ? "I5" : "I16", shown, `${says}; and went on: ${told(late)}`);
    } else if (early !== undefined)
      blame("I22", [early], `was to live until ${at(overFrom)} at least, but ${told(early)}`);
    const most = (ttlMs + lateBy(history)) * (1 + session.lostKeepalives.length);
    let latest: number | null = null;
    for (const noted of prolongs) {
      if (latest !== null && noted.began > latest)
        blame("I16", [noted], `had run out by ${at(latest)}, and went on: ${told(noted)}`);
      latest = Math.max(latest ?? 0, noted.ended + most);
    }
  }
}

/** I15: a session belongs to the one who opened it. I18: it lives as long as it was asked to. */
function checkOpening(
  { openings, strangers, prolongs, ttlMs }: SessionFacts,
  history: History,
  blame: (invariant: string, shown: readonly Noted[], says: string) => void,
): void {
  const [opened, twin] = openings;
  if (opened === undefined) return;
  if (twin !== undefined) {
    blame("I15", [opened, twin], `was given to two callers: ${told(opened)}; ${told(twin)}`);
    return;
  }
  for (const stranger of strangers)
    blame("I15", [opened, stranger], `was used by a stranger: ${told(opened)}; ${told(stranger)}`);
  const slackMs = history.clockBoundMs + tickMs;
  for (const noted of prolongs) {
    const { began, ended, reply } = noted;
    const leftMs = "leftMs" in reply ? reply.leftMs : undefined;
    if (leftMs !== undefined && (leftMs > ttlMs + tickMs || leftMs < ttlMs - (ended - began) - slackMs))
      blame("I18", [noted], `asked for ${ttlMs} ms and got ${leftMs}: ${told(noted)}`);
  }
}
