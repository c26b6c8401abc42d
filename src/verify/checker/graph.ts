/**
 * The work graph: what replies about nodes say of its promises, held against each other. No search: who holds a node is
 * told by tokens, and each check accuses only what no order of the calls can explain. What a node's history says, and
 * the queue, are judged beside it.
 */
import type { NodeLease, NodeReply } from "../node-calls.js";
import { checkEntries, checkUnanswered } from "./graph-history.js";
import {
  type GraphLedger,
  grantedFrom,
  graphLedgerOf,
  type Hold,
  isForgettable,
  isLook,
  knownBy,
  livesOf,
  liveUntil,
  type NodeFacts,
  type NodeNoted,
  promisedUntil,
  toldOf,
} from "./graph-ledger.js";
import { graceMs } from "./holds.js";
import type { Ledger } from "./ledger.js";
import { lateBy } from "./sessions.js";
import { type Accuse, at, told } from "./wording.js";

/** How many nodes there were. */
export function checkGraph({ history }: Pick<Ledger, "history">, accuse: Accuse): number {
  const ledger = graphLedgerOf(history);
  for (const node of ledger.nodes.values()) {
    checkOwners(node, accuse);
    checkOrder(node, ledger, accuse);
    checkHolds(node, ledger, accuse);
    for (const noted of node.operations) {
      checkTaken(node, noted, ledger, accuse);
      checkLost(node, noted, ledger, accuse);
    }
    checkEntries(node, ledger, accuse);
  }
  checkUnanswered(ledger, accuse);
  checkRequests(ledger, accuse);
  checkSeen(ledger, accuse);
  checkQueue(ledger, accuse);
  return ledger.nodes.size;
}

const holderOf = (hold: Hold): string => {
  const [first] = toldOf(hold);
  return `token ${hold.token} of ${hold.by}${first === undefined ? "" : ` (${told(first.noted)})`}`;
};

/** I10: a token is one lease's, of one person. */
function checkOwners({ node, holds, operations }: NodeFacts, accuse: Accuse): void {
  for (const hold of holds)
    for (const { noted, lease } of toldOf(hold))
      if (lease.by !== hold.by || noted.principal !== hold.by)
        accuse("I10", node, [noted], `token ${hold.token} is ${hold.by}'s, but ${told(noted)}`);
  for (const noted of operations) {
    const lease = holderIn(noted.reply as NodeReply);
    const known = lease === null ? undefined : holds.find(({ token }) => token === lease.token);
    if (lease !== null && known !== undefined && known.by !== lease.by)
      accuse("I10", node, [noted], `token ${lease.token} is ${known.by}'s, but ${told(noted)}`);
  }
}

/** Another's lease that a refusal names. */
function holderIn(reply: NodeReply): NodeLease | null {
  return reply.kind === "taken" || reply.kind === "updated" ? reply.holder : null;
}

/** I9: a later grant has a higher token. */
function checkOrder({ node, holds }: NodeFacts, ledger: GraphLedger, accuse: Accuse): void {
  let latest: Hold | null = null;
  for (const hold of [...holds].reverse()) {
    if (latest !== null && grantedFrom(hold, ledger) > knownBy(latest))
      accuse(
        "I9",
        node,
        [...toldOf(latest), ...toldOf(hold)].map(({ noted }) => noted).slice(0, 2),
        `granted after a higher token: ${holderOf(latest)}, then ${holderOf(hold)}`,
      );
    if (latest === null || knownBy(hold) < knownBy(latest)) latest = hold;
  }
}

/** I1, I2: no two live leases at once. I16: none goes on after its time. */
function checkHolds({ node, holds }: NodeFacts, ledger: GraphLedger, accuse: Accuse): void {
  const { history } = ledger;
  holds.forEach((hold, nth) => {
    const until = liveUntil(hold, history);
    for (const next of holds.slice(nth + 1)) {
      // One that was granted later, with a lower token, is accused for that.
      if (knownBy(next) >= until || knownBy(next) < grantedFrom(hold, ledger)) continue;
      const late = livesOf(hold).find(({ began }) => began > knownBy(next));
      const shown = [
        ...toldOf(hold)
          .map(({ noted }) => noted)
          .slice(0, 1),
        late,
        toldOf(next)[0]?.noted,
      ];
      accuse(
        late === undefined ? "I2" : "I16",
        node,
        shown.filter((noted) => noted !== undefined),
        `two live holders: ${holderOf(hold)} had it until ${at(until)} at least, and by ${at(knownBy(next))} so had ${holderOf(next)}`,
      );
    }
    for (const noted of livesOf(hold)) {
      const over = overBefore(hold, noted, history);
      if (noted.began > over)
        accuse(
          "I16",
          node,
          [noted],
          `${holderOf(hold)} was over by ${at(over)}, and went on: ${told(noted)}`,
        );
    }
  });
}

/** When its time was over, by all that was asked before this; infinite where that is not known. */
function overBefore(hold: Hold, noted: NodeNoted, history: GraphLedger["history"]): number {
  const isBefore = (other: NodeNoted): boolean => other !== noted && other.began <= noted.ended;
  const before = toldOf(hold).filter((one) => isBefore(one.noted));
  if (before.length === 0 || hold.mayKeep.some(isBefore)) return Number.POSITIVE_INFINITY;
  return Math.max(...before.map(({ noted: { ended }, lease }) => ended + lease.leftMs)) + lateBy(history);
}

/** I3, I12, I28: who is refused is told of a holder who can have been it, and is not it. */
function checkTaken(node: NodeFacts, noted: NodeNoted, { history }: GraphLedger, accuse: Accuse): void {
  const lease = holderIn(noted.reply as NodeReply);
  if (lease === null) return;
  const { call, principal, began } = noted;
  const isSameRun = call.run === null || lease.run === null || call.run === lease.run;
  if (lease.by === principal && isSameRun)
    accuse("I12", node.node, [noted], `its own claim stood in its way: ${told(noted)}`);
  const hold = node.byToken.get(lease.token);
  const higher = node.holds.find((one) => one.token > lease.token && knownBy(one) < began);
  if (higher !== undefined)
    accuse("I28", node.node, [noted], `${holderOf(higher)} had followed, but ${told(noted)}`);
  if (hold === undefined) return;
  const ended = hold.ends.find((end) => livesOf(hold).includes(end) && end.ended < began);
  if (ended !== undefined)
    accuse("I28", node.node, [ended, noted], `${holderOf(hold)} had ended it, but ${told(noted)}`);
  const over = overBefore(hold, noted, history) + graceMs;
  if (began > over)
    accuse("I3", node.node, [noted], `${holderOf(hold)} was over by ${at(over)}, but ${told(noted)}`);
}

/** It was live from the beginning of the call to its end, if it was known before. */
const isLiveAt = (hold: Hold, { ended }: NodeNoted, history: GraphLedger["history"]): boolean =>
  Math.min(promisedUntil(hold, history), liveUntil(hold, history)) > ended;

/** I22: a holder is not told that its lease is lost while it surely had it. */
function checkLost(
  { node, byToken }: NodeFacts,
  noted: NodeNoted,
  { history }: GraphLedger,
  accuse: Accuse,
): void {
  const { call, reply, principal, began } = noted;
  if (reply.kind !== "lost" || call.token === null || call.verb === "claim") return;
  const hold = byToken.get(call.token);
  if (hold === undefined || hold.by !== principal || knownBy(hold) >= began) return;
  const isSameRun = toldOf(hold).every(
    ({ lease: { run } }) => run === null || call.run === null || run === call.run,
  );
  if (isSameRun && isLiveAt(hold, noted, history))
    accuse("I22", node, [noted], `${holderOf(hold)} was promised to last, but ${told(noted)}`);
}

/** I19: a request id is granted one lease. */
function checkRequests({ operations, history }: GraphLedger, accuse: Accuse): void {
  const first = new Map<string, NodeNoted>();
  for (const noted of operations) {
    const { call, reply, principal } = noted;
    if (call.requestId === null || reply.kind !== "claimed" || !reply.isNew || isForgettable(history, noted))
      continue;
    const key = JSON.stringify([principal, call.requestId]);
    const before = first.get(key);
    first.set(key, before ?? noted);
    if (before?.reply.kind !== "claimed") continue;
    const isSame = before.reply.node === reply.node && before.reply.lease.token === reply.lease.token;
    if (!isSame) accuse("I19", reply.node, [before, noted], `granted twice: ${told(before)}; ${told(noted)}`);
  }
}

/** I30: whoever is on a node, its edge names. I22: a node that was created is there, and so is who holds it. */
function checkSeen(ledger: GraphLedger, accuse: Accuse): void {
  const { operations, history, nodes } = ledger;
  const created = operations.filter(
    (noted) => noted.call.verb === "create" && noted.reply.kind === "done" && !isForgettable(history, noted),
  );
  for (const noted of operations) {
    const { reply, call } = noted;
    if (reply.kind !== "nodes") continue;
    for (const { id, lease, carrier } of reply.nodes) {
      if (lease !== null && carrier !== lease.by)
        accuse(
          "I30",
          id,
          [noted],
          `${lease.by} is on it with token ${lease.token}, its edge names ${carrier}`,
        );
      const hold = nodes.get(id)?.holds.findLast((one) => knownBy(one) < noted.began);
      if (hold !== undefined && lease?.token !== hold.token && isLiveAt(hold, noted, history))
        accuse(
          "I22",
          id,
          [noted],
          `${holderOf(hold)} was promised to last, and is not shown by ${told(noted)}`,
        );
    }
    if (call.verb !== "list" || !reply.isWhole) continue;
    const ids = new Set(reply.nodes.map(({ id }) => id));
    for (const one of created)
      if (one.ended < noted.began && one.call.type === call.type && !ids.has(one.call.node ?? ""))
        accuse("I22", one.call.node ?? "", [one, noted], "was created, and is not in the list of all nodes");
  }
}

/** I32: the queue is what a look at every node says is free. */
function checkQueue({ operations }: GraphLedger, accuse: Accuse): void {
  const isChange = (noted: NodeNoted): boolean => !isLook(noted);
  for (const queue of operations) {
    const { reply, call, process } = queue;
    if (call.verb !== "queue" || reply.kind !== "nodes" || !reply.isWhole) continue;
    const list = operations.findLast(
      (one) => one.call.verb === "list" && one.process === process && one.ended <= queue.began,
    );
    if (list?.reply.kind !== "nodes" || !list.reply.isWhole) continue;
    // A lease may run out in between.
    if (list.reply.nodes.some(({ lease }) => lease !== null)) continue;
    const isMoving = operations.some(
      (one) =>
        isChange(one) && one.began < queue.ended && Number.isFinite(one.ended) && one.ended > list.began,
    );
    if (isMoving) continue;
    const free = list.reply.nodes.filter(({ status, isStopped }) => status !== "done" && !isStopped);
    const queued = new Set(reply.nodes.map(({ id }) => id));
    for (const { id } of free)
      if (!queued.delete(id)) accuse("I32", id, [list, queue], "is free, and not in the queue");
    for (const id of queued) accuse("I32", id, [list, queue], "is in the queue, and not free");
  }
}
