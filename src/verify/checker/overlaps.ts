/**
 * Names that exclude each other: `path:` names their ancestors and everything below, `repo:global` every `path:` and
 * `repo:` name. The search takes names one by one, so what lies between two names is judged here, by the time for
 * which leases were certainly held, or may have been. Leases of one session do not stand in each other's way.
 */
import type { History } from "../history.js";
import { heldUntil, overBy } from "./holds.js";
import {
  type Acquire,
  decidedFrom,
  firstGrant,
  grantedBy,
  grantedFrom,
  isOfSession,
  type LeaseFacts,
  type Ledger,
  type NameFacts,
  type Noted,
} from "./ledger.js";
import { type Accuse, at, told } from "./wording.js";

export const canOverlap = (name: string): boolean => name.startsWith("path:") || name.startsWith("repo:");

export function overlaps(one: string, other: string): boolean {
  if (!canOverlap(one) || !canOverlap(other)) return false;
  const isBelow = one.startsWith(`${other}/`) || other.startsWith(`${one}/`);
  return one === "repo:global" || other === "repo:global" || (isBelow && one.startsWith("path:"));
}

export function checkOverlaps({ names, history }: Ledger, accuse: Accuse): void {
  const group = [...names.values()].filter(({ name }) => canOverlap(name));
  checkExclusion(group, history, accuse);
  for (const name of names.values())
    for (const noted of name.operations) {
      if (!isBlocked(noted)) continue;
      const blocking = blockingIn(noted, group);
      if (blocking !== null) checkBlocked(name, noted, blocking, history, accuse);
    }
}

/** I1: leases on names that overlap are never held at once. */
function checkExclusion(group: readonly NameFacts[], history: History, accuse: Accuse): void {
  const holds = group
    .flatMap((name) => [...holdsOf(name, history), ...unheardIn(name)])
    .filter(({ from, until }) => from < until)
    .sort((one, other) => one.from - other.from);
  let open: Hold[] = [];
  for (const hold of holds) {
    open = open.filter(({ until }) => until > hold.from);
    for (const other of open)
      if (overlaps(hold.name, other.name) && !areOfOneSession(hold.lease, other.lease))
        accuse(
          "I1",
          hold.name,
          [other.shown, hold.shown],
          `overlaps ${other.name}, and both were held at ${at(hold.from)}: ${told(other.shown)}; ${told(hold.shown)}`,
        );
    open.push(hold);
  }
}

/** A name was certainly held from the first instant to the second. */
interface Hold {
  readonly name: string;
  readonly from: number;
  readonly until: number;
  readonly shown: Noted;
  /** Null: nobody was told of its grant. */
  readonly lease: LeaseFacts | null;
}

const holdsOf = ({ name, leases }: NameFacts, history: History): Hold[] =>
  leases.map((lease) => ({
    name,
    from: grantedBy(lease),
    until: heldUntil(lease, history),
    shown: firstGrant(lease),
    lease,
  }));

/** Leases that nobody was told of, from who saw them first to who saw them last. One of a session may stand in nobody's way. */
function unheardIn({ name, operations, byToken, heldFirst, lostAcquires }: NameFacts): Hold[] {
  if (lostAcquires.some(({ call }) => call.session !== null)) return [];
  const holds = new Map<number, Hold>();
  for (const { began, reply } of operations) {
    const isHeld = reply.kind === "held" || (reply.kind === "state" && reply.held);
    const token = isHeld ? reply.token : null;
    const shown = token === null || byToken.has(token) ? undefined : heldFirst.get(token);
    if (token !== null && shown !== undefined)
      holds.set(token, { name, from: shown.ended, until: began, shown, lease: null });
  }
  return [...holds.values()];
}

const areOfOneSession = (one: LeaseFacts | null, other: LeaseFacts | null): boolean =>
  one !== null &&
  other !== null &&
  one.session !== null &&
  one.session === other.session &&
  one.principal === other.principal;

const isBlocked = ({ reply }: Noted): boolean => reply.kind === "held" && reply.token === null;

/**
 * The names that can be meant by the refusal: the one that it names, or else all. Null: it is one of somebody's
 * whose calls are not in the history.
 */
function blockingIn({ reply }: Noted, group: readonly NameFacts[]): readonly NameFacts[] | null {
  const named = reply.kind === "held" ? reply.overlapping : undefined;
  if (named === undefined) return group;
  const found = group.filter(({ name }) => name === named);
  return found.length === 0 && (named === null || canOverlap(named)) ? null : found;
}

/** I3: who is refused because of a name that overlaps can name one that was held. */
function checkBlocked(
  name: NameFacts,
  noted: Noted,
  group: readonly NameFacts[],
  history: History,
  accuse: Accuse,
): void {
  // Its own session's leases stand in nobody's way.
  const session = "session" in noted.call ? noted.call.session : null;
  const isOwn = (lease: LeaseFacts): boolean =>
    session !== null && lease.principal === noted.principal && isOfSession(lease, session);
  const from = decidedFrom(noted, history);
  const mayBeHeld = (lease: LeaseFacts): boolean =>
    !isOwn(lease) && grantedFrom(lease) <= noted.ended && overBy(lease, history, noted.recorder) >= from;
  const mayBeGranted = ({ began, call, principal }: Acquire): boolean =>
    began <= noted.ended && (session === null || call.session !== session || principal !== noted.principal);
  const isExplained = group.some(
    (other) =>
      overlaps(name.name, other.name) &&
      other.name !== name.name &&
      (other.lostAcquires.some(mayBeGranted) || other.leases.some(mayBeHeld)),
  );
  if (!isExplained)
    accuse("I3", name.name, [noted], `no lease on a name that overlaps can have been held: ${told(noted)}`);
}
