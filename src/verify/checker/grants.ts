/**
 * The first pass: what can be said about a name's leases without any search, in words that a person can check. Each
 * check holds evidence against evidence and needs no order of the operations but that of the clock, so it accuses
 * nobody wrongly; what only an order of all operations can show is left to the search.
 */
import type { History } from "../history.js";
import { expiredBy, graceMs, heldUntil, mayEndFrom, promisedUntil, ranUntil, seenOverBy } from "./holds.js";
import {
  type Acquire,
  decidedFrom,
  firstGrant,
  grantedBy,
  grantedFrom,
  isForgotten,
  isOfSession,
  isOp,
  type LeaseFacts,
  type Ledger,
  type NameFacts,
  type Noted,
  requestKey,
  settledBy,
} from "./ledger.js";
import { lateBy, restOf, type SessionFacts, tickMs } from "./sessions.js";
import { type Accuse, at, told, who } from "./wording.js";

export function checkGrants(name: NameFacts, ledger: Ledger, accuse: Accuse): void {
  const { history } = ledger;
  let isAccused = false;
  const blame: Blame = (invariant, shown, says) => {
    isAccused = true;
    accuse(invariant, name.name, shown, says);
  };
  checkTokens(name, ledger, blame);
  checkOrder(name, blame);
  checkStrangers(name, blame);
  checkOwn(name, blame);
  // The rest tells leases apart by their tokens and holders.
  if (isAccused) return;
  checkGhosts(name, ledger, blame);
  for (const lease of name.leases) {
    checkTtl(lease, history, blame);
    checkHold(lease, history, blame);
    checkEnd(lease, history, blame);
  }
  checkDelays(name, history, blame);
}

type Blame = (invariant: string, shown: readonly Noted[], says: string) => void;

const holderOf = (lease: LeaseFacts): string =>
  `${who(firstGrant(lease))} was granted token ${lease.token} by ${at(grantedBy(lease))}`;

/** I10, I12, I13: one token per lease, one lease per token, and no token that JSON cannot carry. */
function checkTokens(name: NameFacts, ledger: Ledger, blame: Blame): void {
  const owners = new Map<number, LeaseFacts>();
  for (const noted of name.operations) {
    const { reply } = noted;
    if ((reply.kind !== "held" && reply.kind !== "state") || reply.token === null) continue;
    const least = reply.kind === "state" && !reply.held ? 0 : 1;
    if (!Number.isSafeInteger(reply.token) || reply.token < least)
      blame("I13", [noted], `${reply.token} is no token that every client can read: ${told(noted)}`);
  }
  for (const lease of name.leases) {
    const twin = owners.get(lease.token);
    owners.set(lease.token, lease);
    const namesake = ledger.byRef.get(lease.lease);
    if (namesake !== undefined && namesake.name !== name)
      blame(
        "I15",
        [firstGrant(namesake), firstGrant(lease)],
        `lease ${lease.lease} is one of ${namesake.name.name} too: ${told(firstGrant(namesake))}; ${told(firstGrant(lease))}`,
      );
    if (twin !== undefined)
      blame(
        "I10",
        [firstGrant(twin), firstGrant(lease)],
        `two leases have token ${lease.token}: ${told(firstGrant(twin))}; ${told(firstGrant(lease))}`,
      );
    for (const noted of [...lease.grants, ...lease.renewals]) {
      const { token, lease: ref } = noted.reply;
      if (!Number.isSafeInteger(token) || token < 1)
        blame("I13", [noted], `${token} is no token that every client can read: ${told(noted)}`);
      else if (token !== lease.token || ref !== lease.lease)
        blame(
          "I12",
          [firstGrant(lease), noted],
          `${holderOf(lease)} as lease ${lease.lease}, which did not keep it: ${told(noted)}`,
        );
    }
  }
}

/** I12, I19: nobody is told that a lease is held which is its own by proof, by its session or by its request id. */
function checkOwn(name: NameFacts, blame: Blame): void {
  for (const noted of name.operations) {
    if (!isOp(noted, "acquire") || noted.reply.kind !== "held" || noted.reply.token === null) continue;
    const { token } = noted.reply;
    const lease = name.byToken.get(token);
    if (lease !== undefined && isHolder(lease, noted))
      blame("I12", [firstGrant(lease), noted], `${holderOf(lease)}, and asked for it again: ${told(noted)}`);
    const request = requestKey(noted);
    if (lease !== undefined || request === null) continue;
    const asked = name.lostAcquires.filter(({ began }) => began <= noted.ended);
    if (asked.length > 0 && asked.every((acquire) => requestKey(acquire) === request))
      blame("I19", [noted], `nobody else can have been granted token ${token}: ${told(noted)}`);
  }
}

/** Whether the acquire proves to come from the lease's holder, by the lease or else by its session. */
function isHolder(lease: LeaseFacts, { call, principal }: Acquire): boolean {
  if (principal !== lease.principal) return false;
  if (call.lease !== null) return call.lease === lease.lease;
  return call.session !== null && isOfSession(lease, call.session);
}

/** I9: whatever was asked for after a token had been seen gets a higher one. */
function checkOrder(name: NameFacts, blame: Blame): void {
  const seen = name.operations
    .flatMap((noted) =>
      "token" in noted.reply && noted.reply.token !== null ? [{ noted, token: noted.reply.token }] : [],
    )
    .sort((one, other) => one.noted.ended - other.noted.ended);
  const leases = name.leases.map((lease) => ({ lease, from: grantedFrom(lease) }));
  let next = 0;
  let highest: { noted: Noted; token: number } | undefined;
  for (const { lease, from } of leases.sort((one, other) => one.from - other.from)) {
    for (let one = seen[next]; one !== undefined && one.noted.ended < from; one = seen[++next])
      if (highest === undefined || one.token > highest.token) highest = one;
    if (highest === undefined || highest.token < lease.token) continue;
    const later = firstGrant(lease);
    blame(
      highest.token === lease.token ? "I10" : "I9",
      [highest.noted, later],
      `token ${lease.token} was granted after token ${highest.token} had been seen: ${told(highest.noted)}; then ${told(later)}`,
    );
  }
}

/** I15: only its holder, by its id, does anything to a lease. */
function checkStrangers(name: NameFacts, blame: Blame): void {
  for (const noted of name.operations) {
    if (!isOp(noted, "renew") && !isOp(noted, "release")) continue;
    if (noted.reply.kind !== "done" && noted.reply.kind !== "granted") continue;
    const lease = name.byRef.get(noted.call.lease);
    if (lease === undefined)
      blame("I15", [noted], `nobody was granted this lease of ${name.name}: ${told(noted)}`);
    else if (lease.principal !== noted.principal)
      blame("I15", [firstGrant(lease), noted], `${holderOf(lease)}, and a stranger used it: ${told(noted)}`);
  }
  for (const lease of name.leases) {
    // One of them is the grant itself.
    const [, second] = lease.grants.filter((grant) => !hasProof(lease, grant));
    const stranger = lease.grants.find(({ principal }) => principal !== lease.principal) ?? second;
    if (stranger !== undefined)
      blame(
        "I15",
        [firstGrant(lease), stranger],
        `${holderOf(lease)}, and another caller got the same lease without proof: ${told(stranger)}`,
      );
  }
}

/** Whether an acquire proves to come from the holder: by the request id, the session or the lease. */
function hasProof({ lease, grants, mayGrant, session }: LeaseFacts, grant: Acquire): boolean {
  const { requestId } = grant.call;
  const isSame = (other: Acquire): boolean => other !== grant && other.call.requestId === requestId;
  const isRepeat = requestId !== null && (grants.some(isSame) || mayGrant.some(isSame));
  const isOfSession = grant.call.session !== null && grant.call.session === session?.id;
  return isRepeat || isOfSession || grant.call.lease === lease;
}

/** I20, I27: a token that is held belongs to an acquire that was granted, or whose reply was lost. */
function checkGhosts(name: NameFacts, ledger: Ledger, blame: Blame): void {
  const { quiet = [] } = ledger.history;
  const lost = name.lostAcquires.filter((acquire) => settledBy(ledger, acquire) === undefined);
  let unexplained = 0;
  for (const token of name.heldTokens) {
    const first = name.heldFirst.get(token);
    if (first === undefined || name.byToken.has(token)) continue;
    unexplained++;
    const before = lost.filter(({ began }) => began <= first.ended);
    // However often it was sent, a request id was granted one lease, unless a restore forgot it.
    const ids = new Set(before.map((acquire) => requestKey(acquire) ?? acquire.index));
    if (Math.min(before.length, ids.size * (1 + quiet.length)) >= unexplained) continue;
    const isRefused = (noted: Noted): noted is Acquire =>
      isOp(noted, "acquire") &&
      noted.ended <= first.ended &&
      noted !== first &&
      noted.reply.kind !== "granted";
    const refused = name.operations.filter(isRefused);
    const waiter = refused.find(({ call }) => call.waitMs > 0);
    const suspect = waiter ?? refused.at(-1);
    const shown = suspect === undefined ? [first] : [first, suspect];
    const says = `token ${token} is held, and nobody was granted it: ${shown.map(told).join("; perhaps to a caller that was refused: ")}`;
    blame(waiter === undefined ? "I20" : "I27", shown, says);
  }
}

/** One acquire was granted it, and no other can have been. */
const isPlain = ({ grants, mayGrant }: LeaseFacts): boolean => grants.length === 1 && mayGrant.length === 0;

/** Not before this it can have been granted: until then the one before it was held. */
function freeFrom(lease: LeaseFacts, history: History): number {
  const before = lease.name.leases[lease.name.leases.indexOf(lease) - 1];
  return before === undefined ? Number.NEGATIVE_INFINITY : heldUntil(before, history);
}

/** I18: the TTL that was asked for is the one that is answered. */
function checkTtl(lease: LeaseFacts, history: History, blame: Blame): void {
  const { renewals, mayProlong, session } = lease;
  const grant = firstGrant(lease);
  const isSteady = isPlain(lease) && [...renewals, ...mayProlong].every(({ call }) => call.ttlMs === null);
  for (const noted of [...(isPlain(lease) ? [grant] : []), ...renewals]) {
    const { call, reply, began, ended } = noted;
    const isDefault = call.op === "renew" && call.ttlMs === null;
    const ttlMs = isDefault && isSteady ? grant.call.ttlMs : call.ttlMs;
    if (ttlMs === null || reply.token !== lease.token) continue;
    const isShort = session === null && reply.leftMs < ttlMs - (ended - began) - tickMs;
    const isLong = !isDefault && reply.leftMs > ttlMs + tickMs;
    if (isShort || isLong)
      blame("I18", [noted], `asked for ${ttlMs} ms and got ${reply.leftMs}: ${told(noted)}`);
    else if (call.op === "acquire" && call.waitMs > 0 && session === null && reply.leftMs <= 0)
      blame("I5", [noted], `was over when it was granted: ${told(noted)}`);
  }
  if (session !== null) checkWithin(lease, session, isSteady ? grant.call.ttlMs : undefined, history, blame);
}

/** I18: a session's lease is told to go on neither beyond the session nor less than it and the lease's TTL allow. */
function checkWithin(
  lease: LeaseFacts,
  session: SessionFacts,
  /** The TTL that it had all the time; undefined: it may have changed. */
  ttlMs: number | null | undefined,
  history: History,
  blame: Blame,
): void {
  for (const noted of [...lease.grants, ...lease.renewals]) {
    const { call, reply, began, ended } = noted;
    const { least, most } = restOf(session, noted, history);
    const asked = call.op === "renew" ? (call.ttlMs ?? ttlMs) : ttlMs;
    const from = Math.max(began, isPlain(lease) && call.op === "acquire" ? freeFrom(lease, history) : began);
    const own = (asked ?? Number.POSITIVE_INFINITY) - (ended - from) - history.clockBoundMs - tickMs;
    if (reply.leftMs > most)
      blame("I18", [noted], `session ${session.id} ends in ${most} ms at most: ${told(noted)}`);
    else if (asked !== undefined && reply.leftMs < Math.min(own, least))
      blame(
        "I18",
        [noted],
        `had ${Math.min(own, least)} ms at least, as session ${session.id}: ${told(noted)}`,
      );
  }
}

/** I2, I12, I16, I17, I22, I28: nothing shows a lease to be over while it is certainly held. */
function checkHold(lease: LeaseFacts, history: History, blame: Blame): void {
  const until = heldUntil(lease, history);
  const over = lease.overs.find(
    ({ ended }) => ended < until && !isForgotten(history, grantedFrom(lease), ended),
  );
  if (over === undefined) return;
  const promised = Math.min(promisedUntil(lease, history, over.ended), mayEndFrom(lease, history));
  const [alive] = [...lease.lives].sort((one, other) => other.began - one.began);
  if (over.ended < promised) {
    const cause = grantOf(lease.name, over) ?? over;
    const held = `${holderOf(lease)} and held it until ${at(promised)} at least`;
    blame(whyOver(lease, cause, alive), [firstGrant(lease), cause], `${held}, but ${told(cause)}`);
  } else if (alive !== undefined) {
    const says = `token ${lease.token} of ${lease.principal} was over: ${told(over)}; then ${told(alive)}`;
    blame(whyAlive(lease, over, alive, history), [over, alive], says);
  }
}

/** Where the reply shows a token to be held: the grant of it, if anybody was told. */
function grantOf({ byToken }: NameFacts, { reply }: Noted): Noted | undefined {
  const isHeld = reply.kind === "held" || (reply.kind === "state" && reply.held);
  const lease = isHeld && reply.token !== null ? byToken.get(reply.token) : undefined;
  return lease && firstGrant(lease);
}

/** Which promise is broken where a lease that must be held was not. */
function whyOver(lease: LeaseFacts, over: Noted, alive: Noted | undefined): string {
  const { reply, principal } = over;
  if (isOp(over, "acquire") && reply.kind === "granted") {
    const isOfSession = over.call.session !== null && over.call.session === lease.session?.id;
    const isOwn = over.call.lease === lease.lease || isOfSession;
    return isOwn && principal === lease.principal ? "I12" : "I2";
  }
  if (reply.kind === "held" || (reply.kind === "state" && reply.held)) return "I2";
  return isOp(over, "read") && alive !== undefined && alive.began > over.ended ? "I28" : "I22";
}

/** Which promise is broken where a lease that is over still counts. */
function whyAlive(lease: LeaseFacts, over: Noted, alive: Noted, history: History): string {
  const hasSuccessor = "token" in over.reply && (over.reply.token ?? 0) > lease.token;
  if (isOp(alive, "release") && hasSuccessor) return "I17";
  if (isOp(alive, "release") || alive.reply.kind === "granted") return "I16";
  // A release that nobody noticed before the TTL was over is forgotten; else only the reply lagged behind.
  const until = promisedUntil(lease, history, Number.POSITIVE_INFINITY);
  const isNoticed = lease.overs.some(
    (other) => other !== over && other.began > alive.began && other.ended < until,
  );
  return isOp(over, "release") && !isNoticed ? "I22" : "I28";
}

/** I3, I16: a lease that nobody renewed in time is over for everybody. */
function checkEnd(lease: LeaseFacts, history: History, blame: Blame): void {
  const overAt = ({ recorder }: Noted): number => seenOverBy(lease, history, recorder);
  const expiredAt = expiredBy(lease, history);
  const late = lease.lives.find(
    (noted) =>
      decidedFrom(noted, history) > expiredAt + graceMs &&
      noted.reply.kind !== "granted" &&
      noted.reply.kind !== "done" &&
      decidedFrom(noted, history) > overAt(noted) + graceMs,
  );
  if (late !== undefined)
    blame(
      "I3",
      [firstGrant(lease), late],
      `${holderOf(lease)}, which was over by ${at(overAt(late))}, and nobody else can have it: ${told(late)}`,
    );
  const restore = (history.quiet ?? []).find(({ from }) => grantedBy(lease) < from);
  const brought = lease.lives.find(({ began }) => restore !== undefined && began > restore.to);
  if (brought !== undefined)
    blame(
      "I16",
      [firstGrant(lease), brought],
      `${holderOf(lease)}, a restore ended it by ${at(restore?.to ?? 0)}, and it went on: ${told(brought)}`,
    );
  const revived = lease.renewals.find(({ began }) => lease.session !== null && began > lease.session.overBy);
  if (revived !== undefined)
    blame(
      "I16",
      [revived],
      `session ${lease.session?.id} was over by ${at(lease.session?.overBy ?? 0)}, and its lease went on: ${told(revived)}`,
    );
  if (lease.session !== null || lease.mayProlong.length > 0) return;
  let over: number | null = null;
  for (const noted of [...lease.grants, ...lease.renewals].sort((one, other) => one.began - other.began)) {
    if (over !== null && noted.began > over)
      blame(
        "I16",
        [firstGrant(lease), noted],
        `${holderOf(lease)}, which was over by ${at(over)}, and it was revived: ${told(noted)}`,
      );
    over = Math.max(over ?? 0, noted.ended + noted.reply.leftMs + lateBy(history));
  }
}

/** I2: after a lease that its holder did not release, the next grant waits out its lock delay. */
function checkDelays(name: NameFacts, history: History, blame: Blame): void {
  name.leases.forEach((lease, nth) => {
    const next = name.leases[nth + 1];
    const delayMs = Math.min(...[...lease.grants, ...lease.mayGrant].map(({ call }) => call.delayMs));
    if (next === undefined || delayMs === 0) return;
    // What was asked for when the lease was over released nothing.
    const overBy = expiredBy(lease, history);
    if (lease.releases.some(({ began, reply }) => reply.kind === "done" || began <= overBy)) return;
    if (isForgotten(history, grantedFrom(lease), grantedBy(next))) return;
    const until = ranUntil(lease, history) + delayMs - history.clockBoundMs;
    if (grantedBy(next) >= until) return;
    const says = `${holderOf(lease)} with a lock delay of ${delayMs} ms and never released it; nobody may have it before ${at(until)}`;
    blame("I2", [firstGrant(lease), firstGrant(next)], `${says}: ${told(firstGrant(next))}`);
  });
}
