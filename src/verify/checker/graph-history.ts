/**
 * What a node's history says, held against what its callers were told: each change that was acknowledged is there once,
 * with its token, and nothing that nobody can have asked for.
 */
import type { History } from "../history.js";
import { graphStatuses, type NodeEntry } from "../node-calls.js";
import {
  type GraphLedger,
  isClaiming,
  isForgettable,
  isLook,
  type NodeFacts,
  type NodeNoted,
  toldOf,
} from "./graph-ledger.js";
import { type Accuse, told } from "./wording.js";

const isGrant = ({ what }: NodeEntry): boolean => what === "claimed" || what === "taken_over";

const ends = ["released", "given_back", "lapsed", "forced"];

/** A history that was read as a whole. */
interface Read {
  readonly noted: NodeNoted;
  readonly entries: readonly NodeEntry[];
}

const readsOf = ({ operations }: NodeFacts): Read[] =>
  operations.flatMap((noted) =>
    noted.reply.kind === "entries" && noted.reply.isWhole ? [{ noted, entries: noted.reply.entries }] : [],
  );

export function checkEntries(node: NodeFacts, { history }: GraphLedger, accuse: Accuse): void {
  let before: Read | null = null;
  for (const read of readsOf(node)) {
    const blame = (says: string, noted = read.noted): void =>
      accuse("I31", node.node, noted === read.noted ? [noted] : [noted, read.noted], says);
    checkSequence(read, history, blame);
    checkAcknowledged(node, read, history, blame);
    if (before !== null && !isForgettable(history, before.noted)) checkKept(before, read, blame);
    before = read;
  }
  if (before !== null) checkLastWord(node, before, accuse);
}

type Blame = (says: string, noted?: NodeNoted) => void;

const words = ({ seq, what, by, token }: NodeEntry): string =>
  `entry ${seq}, ${what} by ${by}${token === null ? "" : ` with token ${token}`}`;

/** Without gaps, tokens rising, and each lease over before the next begins. */
function checkSequence({ entries }: Read, { quiet = [] }: History, blame: Blame): void {
  let highest = 0;
  let holding: number | null = null;
  entries.forEach((entry, nth) => {
    const { seq, what, token } = entry;
    if (seq !== nth + 1) blame(`${words(entry)} stands in place ${nth + 1}`);
    if (isGrant(entry)) {
      if (token === null || token <= highest) blame(`${words(entry)} follows token ${highest}`);
      // A restore ends leases without a word.
      if (holding !== null && quiet.length === 0) blame(`${words(entry)} while token ${holding} holds it`);
      highest = Math.max(highest, token ?? 0);
      holding = token;
    }
    const isEnd = ends.includes(what) || isDone(entry);
    if (!isEnd || token === null) return;
    if (token !== holding)
      blame(`${words(entry)} while ${holding === null ? "nobody" : `token ${holding}`} holds it`);
    holding = null;
  });
}

const isDone = ({ to }: NodeEntry): boolean =>
  to !== null && (graphStatuses as Readonly<Record<string, string>>)[to] === "terminal";

/** What had been acknowledged before it was read is in it, once. */
function checkAcknowledged(
  node: NodeFacts,
  { noted: read, entries }: Read,
  history: History,
  blame: Blame,
): void {
  const once = (found: readonly NodeEntry[], noted: NodeNoted, what: string, most = 1): void => {
    if (found.length >= 1 && found.length <= most) return;
    blame(`${what} is in its history ${found.length} times: ${told(noted)}`, noted);
  };
  for (const hold of node.holds) {
    const first = toldOf(hold).find(
      ({ noted }) => noted.ended < read.began && !isForgettable(history, noted),
    );
    if (first === undefined) continue;
    const found = entries.filter((entry) => isGrant(entry) && entry.token === hold.token);
    once(found, first.noted, `the grant of token ${hold.token}`);
    if (found.some(({ by }) => by !== hold.by))
      blame(`token ${hold.token} is not ${hold.by}'s in it`, first.noted);
  }
  for (const noted of node.operations) {
    const { call, reply, ended } = noted;
    if (ended >= read.began || isForgettable(history, noted)) continue;
    if (call.verb === "release" && reply.kind === "done" && call.token !== null) {
      const found = entries.filter(({ what, token }) => what === "released" && token === call.token);
      once(found, noted, `the release of token ${call.token}`);
    }
    if (call.verb !== "status" || reply.kind !== "updated" || call.reason === undefined) continue;
    const found = entries.filter(({ what, reason }) => what === "status" && reason === call.reason);
    // Whoever sets what it is already changes nothing, and one that arrives again may change it back.
    const mayBeSame = call.status === "open" || entries.some(({ to }) => to === call.status);
    const asked = node.operations.filter((other) => other.call.reason === call.reason).length;
    if (found.length !== 0 || !mayBeSame) once(found, noted, `the status ${call.status}`, asked);
    if (found.some(({ to }) => to !== call.status))
      blame(`another status than was set: ${told(noted)}`, noted);
  }
}

/** Nothing in it changes or goes away. */
function checkKept(before: Read, { noted, entries }: Read, blame: Blame): void {
  if (noted.began < before.noted.ended) return;
  for (const [nth, entry] of before.entries.entries())
    if (JSON.stringify(entries[nth]) !== JSON.stringify(entry))
      blame(`${words(entry)} was there before and is not as it was`, noted);
}

/** I30: the edge is what the last entry about it says. */
function checkLastWord(
  { node, operations }: NodeFacts,
  { noted: read, entries }: Read,
  accuse: Accuse,
): void {
  const seen = operations.find(
    ({ call, reply, began }) => call.verb === "look" && reply.kind === "nodes" && began >= read.ended,
  );
  if (seen?.reply.kind !== "nodes") return;
  const isMoving = (noted: NodeNoted): boolean =>
    !isLook(noted) && Number.isFinite(noted.ended) && noted.ended > read.began && noted.began < seen.ended;
  if (operations.some(isMoving)) return;
  const [shown] = seen.reply.nodes;
  if (shown === undefined) return;
  const carrier = carrierIn(entries);
  if (shown.carrier !== carrier)
    accuse(
      "I30",
      node,
      [read, seen],
      `its edge names ${shown.carrier ?? "nobody"}, by its history ${carrier ?? "nobody"} carries it`,
    );
}

/** A claim that is given back, since nobody heard of it, leaves the edge that it found. */
function carrierIn(entries: readonly NodeEntry[]): string | null {
  let [before, now]: (string | null)[] = [null, null];
  for (const entry of entries) {
    if (isGrant(entry)) [before, now] = [now ?? null, entry.by];
    else if (entry.what === "given_back") now = before;
    else if (entry.what === "released") now = null;
  }
  return now ?? null;
}

/** I31: a grant that nobody was told of is one whose reply was lost. */
export function checkUnanswered({ nodes, operations }: GraphLedger, accuse: Accuse): void {
  const lost = operations.filter((noted) => isClaiming(noted) && noted.reply.kind === "unknown");
  const spare = new Map<string, NodeNoted[]>();
  for (const noted of lost)
    if (noted.call.verb === "next")
      spare.set(noted.principal, [...(spare.get(noted.principal) ?? []), noted]);
  for (const node of nodes.values()) {
    const read = readsOf(node).at(-1);
    if (read === undefined) continue;
    const own = lost.filter(({ call }) => call.node === node.node);
    for (const entry of read.entries) {
      if (!isGrant(entry) || entry.token === null || isAnswered(node, entry.token)) continue;
      const explains = ({ principal, began }: NodeNoted): boolean =>
        principal === entry.by && began < read.noted.ended;
      const mine = own.findIndex(explains);
      const next = spare.get(entry.by)?.findIndex(explains) ?? -1;
      if (mine >= 0) own.splice(mine, 1);
      else if (next >= 0) spare.get(entry.by)?.splice(next, 1);
      else
        accuse(
          "I31",
          node.node,
          [read.noted],
          `${words(entry)} was answered to nobody, and no reply was lost`,
        );
    }
  }
}

/** Somebody was told of the lease, by a claim or by what came of it. */
const isAnswered = ({ byToken }: NodeFacts, token: number): boolean => byToken.has(token);
