/**
 * What a history says about the work graph, gathered once: by node, each lease that anybody was told of, known by its
 * fencing token. Nothing is judged here. Evidence is kept as operations: something was so at one instant between the
 * operation's beginning and its end.
 */
import type { History, Operation, Reply } from "../history.js";
import { graphStatuses, type NodeCall, type NodeLease, type NodeVerb } from "../node-calls.js";
import type { Noted } from "./ledger.js";

export type NodeNoted<R extends Reply = Reply> = Noted<NodeCall, R>;

/** The caller was told that it has the lease, by this much. */
export interface Told {
  readonly noted: NodeNoted;
  readonly lease: NodeLease;
}

/** One lease of a node. */
export interface Hold {
  readonly node: string;
  readonly token: number;
  /** Whose it is. */
  readonly by: string;
  /** Claims that were answered with it: the grant, and repeats of its request. */
  readonly grants: Told[];
  /** It went on: renewals, extensions, reservations, claims by who had it. */
  readonly keeps: Told[];
  /** May have prolonged it: no reply came. */
  readonly mayKeep: NodeNoted[];
  /** Its holder ended it, or may have. */
  readonly ends: NodeNoted[];
}

export interface NodeFacts {
  readonly node: string;
  readonly operations: NodeNoted[];
  /** By token, lowest first. */
  readonly holds: Hold[];
  readonly byToken: Map<number, Hold>;
}

export interface GraphLedger {
  readonly history: History;
  readonly operations: readonly NodeNoted[];
  readonly nodes: ReadonlyMap<string, NodeFacts>;
}

const looks: readonly NodeVerb[] = ["look", "history", "list", "queue"];
export const isLook = ({ call }: NodeNoted): boolean => looks.includes(call.verb);

/** May have been granted a node: an active status claims as well. */
export const isClaiming = ({ call }: NodeNoted): boolean =>
  call.verb === "claim" || call.verb === "next" || (call.verb === "status" && isPhase(call, "active"));

export const isPhase = (
  { status }: NodeCall,
  phase: (typeof graphStatuses)[keyof typeof graphStatuses],
): boolean => status !== undefined && graphStatuses[status] === phase;

const keeping: readonly NodeVerb[] = ["renew", "extend", "reserve", "claim", "status"];

/** A backup may have forgotten what was done then. */
export const isForgettable = ({ quiet = [] }: History, { began }: Operation): boolean =>
  quiet.some(({ to }) => began <= to);

export function graphLedgerOf(history: History): GraphLedger {
  const operations = history.operations.flatMap((operation, index): NodeNoted[] =>
    operation.call.op === "node" ? [{ ...operation, call: operation.call, index }] : [],
  );
  const nodes = new Map<string, NodeFacts>();
  const facts = (node: string): NodeFacts => {
    const known = nodes.get(node) ?? { node, operations: [], holds: [], byToken: new Map() };
    nodes.set(node, known);
    return known;
  };
  for (const noted of operations) {
    const id = noted.reply.kind === "claimed" ? noted.reply.node : noted.call.node;
    if (id === null) continue;
    const node = facts(id);
    node.operations.push(noted);
    noteTold(node, noted);
  }
  for (const node of nodes.values()) {
    node.holds.sort((one, other) => one.token - other.token);
    for (const hold of node.holds) noteOthers(node, hold);
  }
  return { history, operations, nodes };
}

function noteTold(node: NodeFacts, noted: NodeNoted): void {
  const { reply } = noted;
  if (reply.kind === "claimed")
    (reply.isNew ? holdOf(node, reply.lease).grants : holdOf(node, reply.lease).keeps).push({
      noted,
      lease: reply.lease,
    });
  if (reply.kind === "kept" || (reply.kind === "updated" && reply.lease !== null)) {
    const lease = reply.lease as NodeLease;
    // A status claims what was free and renews what was its setter's: which of them it was is not told.
    holdOf(node, lease).keeps.push({ noted, lease });
  }
}

function holdOf(node: NodeFacts, { token, by }: NodeLease): Hold {
  const known = node.byToken.get(token);
  if (known !== undefined) return known;
  const hold: Hold = { node: node.node, token, by, grants: [], keeps: [], mayKeep: [], ends: [] };
  node.byToken.set(token, hold);
  node.holds.push(hold);
  return hold;
}

/** What its holder may have done to it, as far as the replies that told of it do not say. */
function noteOthers({ operations }: NodeFacts, hold: Hold): void {
  for (const noted of operations) {
    const { call, reply, principal } = noted;
    const isMeant = call.token === null || call.token === hold.token;
    if (principal !== hold.by || !isMeant) continue;
    const isDone = reply.kind === "done" || reply.kind === "updated";
    const isEnding = call.verb === "release" || (call.verb === "status" && isPhase(call, "terminal"));
    if (isEnding && (isDone || reply.kind === "unknown")) hold.ends.push(noted);
    if (!isEnding && keeping.includes(call.verb) && reply.kind === "unknown") hold.mayKeep.push(noted);
  }
}

export const toldOf = ({ grants, keeps }: Hold): Told[] => [...grants, ...keeps];

/** By then it had been granted. */
export const knownBy = (hold: Hold): number => Math.min(...toldOf(hold).map(({ noted }) => noted.ended));

/** It was not granted before; minus infinity where that is not known. */
export function grantedFrom({ grants, by }: Hold, { operations }: GraphLedger): number {
  if (grants.length === 0) return Number.NEGATIVE_INFINITY;
  let from = Math.min(...grants.map(({ noted }) => noted.began));
  for (const { noted } of grants)
    if (noted.call.requestId !== null)
      for (const { call, principal, began } of operations)
        if (principal === by && call.requestId === noted.call.requestId) from = Math.min(from, began);
  return from;
}

/** Until when the service had promised it, whatever ended it. */
export const promisedUntil = (hold: Hold, { clockBoundMs }: History): number =>
  Math.max(
    ...toldOf(hold).map((told) => Math.min(told.noted.began + told.lease.leftMs, stoodUntil(hold, told))),
  ) - clockBoundMs;

/**
 * Until when its holder certainly left a promise as it was: a reservation is as long as it says only while nobody works.
 * Who goes on with the work has as long as any other from then on, which may be less.
 */
function stoodUntil(hold: Hold, { noted }: Told): number {
  const keeping = [...hold.keeps.map((told) => told.noted), ...hold.mayKeep];
  const isReservedBefore = ({ ended }: NodeNoted): boolean =>
    keeping.some((one) => one.call.verb === "reserve" && one.began <= ended);
  // One that stretches a reservation is told of all that is left of it.
  const isReserving =
    noted.call.verb === "reserve" || (noted.call.verb === "extend" && isReservedBefore(noted));
  if (!isReserving) return Number.POSITIVE_INFINITY;
  const resumed = keeping.filter((one) => isResuming(one) && one.ended > noted.began);
  return Math.min(...resumed.map(({ began }) => Math.max(began, noted.began)));
}

const isResuming = ({ call }: NodeNoted): boolean =>
  call.verb === "renew" || call.verb === "claim" || (call.verb === "status" && isPhase(call, "active"));

/** It was certainly live until then. */
export function liveUntil(hold: Hold, history: History): number {
  const { quiet = [] } = history;
  const from = knownBy(hold);
  const ends = hold.ends.map(({ began }) => began);
  const restores = quiet.filter(({ to }) => to >= from).map((window) => window.from);
  const until = Math.min(promisedUntil(hold, history), ...ends, ...restores);
  // Whoever was told that it goes on had it when it asked, or later.
  return Math.max(until, ...livesOf(hold).map(({ began }) => began));
}

/** It was live at some instant of each of these. */
export const livesOf = (hold: Hold): NodeNoted[] => [
  ...toldOf(hold).map(({ noted }) => noted),
  ...hold.ends.filter(({ call, reply }) => call.token === hold.token && reply.kind !== "unknown"),
];
