/**
 * Waiting in line, I25 and I26, judged by waiters who waited in vain: only of them it is certain when they stood in
 * line. One that was refused at `ended` had arrived `waitMs` earlier at the latest, and did not leave before
 * `began + waitMs`. Of one that was granted it is not certain when it arrived, so it is judged only where the history
 * says how long a request may be on its way, and that is added. Queues of one line; names that overlap others are left out, for their turn
 * depends on those.
 */
import type { History } from "../history.js";
import { graceMs, heldUntil, seenOverBy } from "./holds.js";
import {
  type Acquire,
  firstGrant,
  grantedBy,
  grantedFrom,
  isForgotten,
  isOp,
  type LeaseFacts,
  type Ledger,
  type NameFacts,
  requestKey,
} from "./ledger.js";
import { canOverlap } from "./overlaps.js";
import { lateBy, tickMs } from "./sessions.js";
import { type Accuse, at, told } from "./wording.js";

/** How long a free name may be kept from who waits for it: until it is told, or looks. */
const wakeUpMs = 500;
const withinMs = ({ terms }: History): number => wakeUpMs + (terms?.lookEveryMs ?? 0) + (terms?.lateMs ?? 0);

interface Wait {
  readonly acquire: Acquire;
  /** It stood in line from the first instant to the second. */
  readonly from: number;
  readonly to: number;
}

export function checkQueue(name: NameFacts, ledger: Ledger, accuse: Accuse): void {
  if (canOverlap(name.name)) return;
  const waits = waitsIn(name, ledger.history);
  // Without a line nobody has a turn.
  if (ledger.history.terms?.lookEveryMs === undefined) {
    for (const lease of name.leases) checkTurn(lease, waits, ledger, accuse);
    checkServed(name, ledger, accuse);
  }
  for (const [nth, lease] of name.leases.entries()) {
    const next = name.leases[nth + 1];
    const isDelayed = [...lease.grants, ...lease.mayGrant].some(({ call }) => call.delayMs > 0);
    if (isDelayed) continue;
    checkWakeUp(lease, next, waits, ledger, accuse);
    if (next !== undefined) checkLate(lease, next, ledger, accuse);
  }
}

function waitsIn({ operations }: NameFacts, history: History): Wait[] {
  // Where places share a line, one that has just come stands at its own place first.
  const slackMs = lateBy(history) + tickMs;
  return operations.flatMap((acquire) => {
    if (!isOp(acquire, "acquire") || acquire.call.waitMs === 0) return [];
    if (acquire.reply.kind !== "held" && acquire.reply.kind !== "delayed") return [];
    const { began, ended, call } = acquire;
    // Answered early, for whatever reason: nothing is known.
    if (ended - began < call.waitMs) return [];
    const [from, to] = [ended - call.waitMs + slackMs, began + call.waitMs - slackMs];
    return from < to && !isUpset(history, from, to) ? [{ acquire, from, to }] : [];
  });
}

const isUpset = ({ upsets = [] }: History, from: number, to: number): boolean =>
  upsets.some((upset) => upset.from < to && upset.to > from);

/** I25: nobody who came after a waiter was granted while it stood in line. */
function checkTurn(lease: LeaseFacts, waits: readonly Wait[], ledger: Ledger, accuse: Accuse): void {
  const grant = firstGrant(lease);
  const request = requestKey(grant);
  const came = Math.min(grantedFrom(lease), cameFrom(ledger, grant));
  const until = grantedBy(lease);
  const passed = waits.find(
    ({ acquire, from, to }) =>
      came > from && until < to && (request === null || request !== requestKey(acquire)),
  );
  if (passed === undefined) return;
  const { acquire, from, to } = passed;
  const says = `stood in line from ${at(from)} to ${at(to)} and was passed: ${told(acquire)}; ${told(grant)}`;
  accuse("I25", lease.name.name, [acquire, grant], says);
}

/**
 * I25: nor was anybody who came after a waiter granted before it, where both were. Where places share a line, each tells the
 * others late who has come to it, and who waits at one that was away for long loses its turn to those at others.
 */
function checkServed({ leases }: NameFacts, ledger: Ledger, accuse: Accuse): void {
  const { history, pulses } = ledger;
  if (history.timely === undefined) return;
  const withinLineMs = wakeUpMs + history.timely.transitMs;
  /** Of those with lower tokens the one that came last, by where it asked. */
  const lasts = new Map<string | undefined, { readonly lease: LeaseFacts; readonly came: number }>();
  for (const lease of leases) {
    const grant = firstGrant(lease);
    const { began, ended, call, recorder } = grant;
    const came = Math.min(grantedFrom(lease), cameFrom(ledger, grant));
    const isWaiter = call.waitMs > 0 && lease.grants.length === 1 && lease.mayGrant.length === 0;
    const inOwnLine = isWaiter ? pulses.after(recorder, began, withinLineMs) : Number.POSITIVE_INFINITY;
    const isAway = isUpset(history, began, ended);
    for (const [where, last] of lasts) {
      if (isAway && where !== recorder) continue;
      const inLine = inOwnLine + (where === recorder ? 0 : (history.terms?.lateMs ?? 0));
      if (last.came <= inLine || isForgotten(history, began, ended)) continue;
      const says = `stood in line by ${at(inLine)} and was passed: ${told(grant)}; ${told(firstGrant(last.lease))}`;
      accuse("I25", lease.name.name, [grant, firstGrant(last.lease)], says);
    }
    if (came > (lasts.get(recorder)?.came ?? Number.NEGATIVE_INFINITY)) lasts.set(recorder, { lease, came });
  }
}

/** The earliest instant at which it can have come: a request id is the ticket that keeps its place. */
const cameFrom = ({ requests }: Ledger, acquire: Acquire): number =>
  Math.min(
    acquire.began,
    ...(requests.get(requestKey(acquire) ?? "")?.acquires ?? []).map(({ began }) => began),
  );

/** I26: after a lease and before the next, if there is one, the name was not free for long while somebody stood in line. */
function checkWakeUp(
  lease: LeaseFacts,
  next: LeaseFacts | undefined,
  waits: readonly Wait[],
  ledger: Ledger,
  accuse: Accuse,
): void {
  const lost = lease.name.lostAcquires.map((acquire) => cameFrom(ledger, acquire));
  // Who is told that a lease is over is told by a step that serves the queue as well.
  const freeFrom = Math.min(...lease.overs.map(({ ended }) => ended));
  const freeTo = next === undefined ? Number.POSITIVE_INFINITY : grantedFrom(next);
  const { history } = ledger;
  // Who stood in line before, and never heard, may have got it.
  const isTaken = (by: number): boolean => lost.some((came) => came <= by);
  const overslept = waits.find(
    ({ from, to }) =>
      Math.min(freeTo, to) - Math.max(freeFrom, from) > withinMs(history) &&
      !isTaken(Math.max(freeFrom, from)) &&
      !isForgotten(history, heldUntil(lease, history), Math.min(freeTo, to)),
  );
  if (overslept === undefined) return;
  const { acquire } = overslept;
  accuse(
    "I26",
    lease.name.name,
    next === undefined ? [acquire] : [acquire, firstGrant(next)],
    `was free from ${at(freeFrom)} to ${at(freeTo)} while somebody stood in line: ${told(acquire)}`,
  );
}

/** I26: nor was the one who got it after standing in line kept from it for long. */
function checkLate(lease: LeaseFacts, next: LeaseFacts, ledger: Ledger, accuse: Accuse): void {
  const { history, pulses } = ledger;
  const grant = firstGrant(next);
  const { began, ended, call, recorder } = grant;
  if (history.timely === undefined || call.waitMs === 0) return;
  // Of several calls that may have been granted it, nobody knows which one stood in line.
  if (next.grants.length > 1 || next.mayGrant.length > 0) return;
  // Somebody who never heard of it may have had it in between.
  if (next.token > lease.token + 1) return;
  const expired = seenOverBy(lease, history, recorder) + graceMs;
  const freeFrom = Math.min(expired, ...lease.overs.map((over) => over.ended));
  const from = Math.max(freeFrom, began);
  if (pulses.after(recorder, from, withinMs(history) + history.timely.transitMs) >= ended) return;
  if (isForgotten(history, heldUntil(lease, history), ended)) return;
  accuse(
    "I26",
    lease.name.name,
    [grant],
    `was free from ${at(freeFrom)}, and who stood in line got it long after: ${told(grant)}`,
  );
}
