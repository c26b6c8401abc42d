/** Request ids: at most one grant for each, the same answer to every repeat, and none to another request. */
import type { History } from "../history.js";
import {
  type Acquire,
  type Grant,
  isAnswered,
  isForgotten,
  mayBeReentry,
  type RequestFacts,
} from "./ledger.js";
import { type Accuse, told } from "./wording.js";

/** What a request id stands for; how long to wait is not part of it. */
const bodyOf = ({ call }: Acquire): string => JSON.stringify([call.name, call.ttlMs, call.session]);

export function checkRequests(requests: Iterable<RequestFacts>, history: History, accuse: Accuse): void {
  for (const request of requests) {
    // Who got its own lease again was granted nothing.
    const reentries = new Set<Acquire>(
      request.leases.flatMap((lease) => lease.grants.filter((grant) => mayBeReentry(lease, grant))),
    );
    const acquires = request.acquires.filter((acquire) => !reentries.has(acquire));
    const grants = acquires
      .filter((acquire) => isAnswered(acquire, "granted"))
      .sort((one, other) => one.ended - other.ended);
    for (const noted of acquires) {
      checkReuse(request, noted, accuse);
      checkSpent(request, noted, accuse);
      // A restore may have forgotten what came before it.
      const first = grants.find((grant) => !isForgotten(history, grant.began, noted.ended));
      if (first !== undefined && noted !== first) checkRepeat(request, first, noted, accuse);
    }
  }
}

/** I21: an id that stands for one request only is not refused for being used twice. */
function checkReuse({ id, acquires }: RequestFacts, noted: Acquire, accuse: Accuse): void {
  const isOther = (other: Acquire): boolean => bodyOf(other) !== bodyOf(noted) && other.began < noted.ended;
  if (noted.reply.kind === "reused" && !acquires.some(isOther))
    accuse(
      "I21",
      noted.call.name,
      [noted],
      `request id ${id} was used for nothing else, but: ${told(noted)}`,
    );
}

/** I20, I27: a lease that is over was granted to somebody: told so, or without a reply. */
function checkSpent({ id, acquires, leases }: RequestFacts, noted: Acquire, accuse: Accuse): void {
  if (noted.reply.kind !== "lost" || leases.length > 0) return;
  const earlier = acquires.filter((other) => other !== noted && other.began <= noted.ended);
  if (earlier.some(({ reply }) => reply.kind === "unknown")) return;
  const suspect = earlier.find(({ call }) => call.waitMs > 0) ?? earlier[0];
  const shown = suspect === undefined ? [noted] : [suspect, noted];
  const says = `request id ${id} was granted nothing: ${shown.map(told).join("; then ")}`;
  accuse(suspect !== undefined && suspect.call.waitMs > 0 ? "I27" : "I20", noted.call.name, shown, says);
}

/** I19, I21: after its grant an id gets the same lease, or hears that it is over; for another request it is refused. */
function checkRepeat({ id }: RequestFacts, first: Grant, noted: Acquire, accuse: Accuse): void {
  const { reply } = noted;
  if (reply.kind === "refused" || reply.kind === "unknown") return;
  const isGrant = reply.kind === "granted";
  const isSame = isGrant && reply.lease === first.reply.lease;
  const blame = (invariant: string, what: string): void =>
    accuse(
      invariant,
      noted.call.name,
      [first, noted],
      `request id ${id} ${what}: ${told(first)}; ${told(noted)}`,
    );
  if (bodyOf(noted) !== bodyOf(first)) {
    if (isSame || (noted.began > first.ended && reply.kind !== "reused"))
      blame("I21", "was granted for another request");
    else if (isGrant) blame("I19", "was granted twice");
  } else if (isGrant && !isSame) blame("I19", "was granted twice");
  else if (!isGrant && noted.began > first.ended && reply.kind !== "lost")
    blame("I19", "was granted, and a repeat was not told so");
}
