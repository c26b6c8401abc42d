/**
 * I28: who is told that a name is held is told by whom, with what that one had to show, and for how long. Which lease
 * it is, the token says; here the rest of such a reply is held against that lease.
 */
import type { Holder } from "../history.js";
import { expiredBy, mayEndFrom } from "./holds.js";
import {
  type Acquire,
  decidedFrom,
  firstGrant,
  type LeaseFacts,
  type Ledger,
  type NameFacts,
  type Noted,
} from "./ledger.js";
import { tickMs } from "./sessions.js";
import { type Accuse, at, told } from "./wording.js";

export function checkHolders(name: NameFacts, ledger: Ledger, accuse: Accuse): void {
  for (const noted of name.operations) {
    const { reply } = noted;
    const isHeld = reply.kind === "held" || (reply.kind === "state" && reply.held);
    if (!isHeld || reply.token === null || reply.holder === undefined) continue;
    const lease = name.byToken.get(reply.token);
    const blame = (says: string): void =>
      accuse("I28", name.name, lease === undefined ? [noted] : [firstGrant(lease), noted], says);
    checkWho(name, lease, noted, reply.holder, blame);
    // Where places count for themselves, each says what it has seen of the lease.
    if (lease?.session === null && ledger.history.terms?.margin === undefined)
      checkLeft(lease, noted, reply.holder, ledger, blame);
  }
}

/** The holder is one whose acquire was granted it, or can have been. */
function checkWho(
  name: NameFacts,
  lease: LeaseFacts | undefined,
  noted: Noted,
  { principal, label }: Holder,
  blame: (says: string) => void,
): void {
  const asked: readonly Acquire[] =
    lease === undefined ? name.lostAcquires : [...lease.grants, ...lease.mayGrant];
  const before = asked.filter(({ began }) => began <= noted.ended);
  // Of a lease that nobody can have been granted others speak.
  if (before.length === 0) return;
  const isIts = (acquire: Acquire): boolean =>
    acquire.principal === principal && (acquire.call.label ?? label) === label;
  if (before.some(isIts)) return;
  const shown = label === null ? "nothing to show" : JSON.stringify(label);
  blame(`${told(noted)}, as one of ${principal} with ${shown}, who was not granted it`);
}

/** What is left lies between the last end that its holder was told before and the latest that it can have. */
function checkLeft(
  lease: LeaseFacts,
  noted: Noted,
  { leftMs }: Holder,
  { history }: Ledger,
  blame: (says: string) => void,
): void {
  const latest = expiredBy(lease, history);
  const isKnown = ({ ended }: Noted): boolean => ended < noted.began;
  const promised = [...lease.grants, ...lease.renewals]
    .filter(isKnown)
    .map(({ began, reply }) => began + reply.leftMs - history.clockBoundMs);
  const earliest = Math.min(Math.max(...promised), mayEndFrom(lease, history));
  if (decidedFrom(noted, history) + leftMs > latest + tickMs)
    blame(`${told(noted)} for ${leftMs} ms more, and it was over by ${at(latest)}`);
  else if (noted.ended + leftMs < earliest - tickMs - (history.terms?.lateMs ?? 0))
    blame(`${told(noted)} for ${leftMs} ms more, and it had until ${at(earliest)} at least`);
}
