/**
 * What a history says, gathered once for both passes: each name's operations and leases, each request id and each
 * session. Nothing is judged here. Evidence is kept as operations: something was so at one instant between the
 * operation's beginning and its end.
 */
import type { Call, History, LeaseRef, Operation, Reply, Terms } from "../history.js";
import { Pulses } from "./pulse.js";
import { type SessionFacts, sessionsIn, tickMs } from "./sessions.js";

/** An operation and where it stands in the history. */
export interface Noted<C extends Call = Call, R extends Reply = Reply> extends Operation {
  readonly index: number;
  readonly call: C;
  readonly reply: R;
}

export type CallOf<Op extends Call["op"]> = Extract<Call, { op: Op }>;
export type ReplyOf<Kind extends Reply["kind"]> = Extract<Reply, { kind: Kind }>;
export type Acquire<R extends Reply = Reply> = Noted<CallOf<"acquire">, R>;
export type Renew<R extends Reply = Reply> = Noted<CallOf<"renew">, R>;
export type Grant = Acquire<ReplyOf<"granted">>;
export type Renewal = Renew<ReplyOf<"granted">>;

export const isOp = <Op extends Call["op"]>(noted: Noted, op: Op): noted is Noted<CallOf<Op>> =>
  noted.call.op === op;
export const isAnswered = <C extends Call, Kind extends Reply["kind"]>(
  noted: Noted<C>,
  kind: Kind,
): noted is Noted<C, ReplyOf<Kind>> => noted.reply.kind === kind;

/** A lease that somebody was told of. */
export interface LeaseFacts {
  readonly lease: LeaseRef;
  readonly name: NameFacts;
  readonly token: number;
  readonly principal: string;
  readonly session: SessionFacts | null;
  /** Acquires that were answered with it, the first to return first: the grant, repeats, re-entries. */
  readonly grants: Grant[];
  /** Acquires without a reply that may have been its grant. */
  readonly mayGrant: Acquire[];
  readonly renewals: Renewal[];
  /** Renewals and re-entries without a reply. */
  readonly mayProlong: (Acquire | Renew)[];
  /** Its holder's releases that were done, or may have been. */
  readonly releases: Noted[];
  /** It was current at some instant of each of these. */
  readonly lives: Noted[];
  /** It was over at some instant of each of these. */
  readonly overs: Noted[];
}

export interface NameFacts {
  readonly name: string;
  /** By the instant at which they began. */
  readonly operations: Noted[];
  /** By token. */
  readonly leases: LeaseFacts[];
  readonly byRef: Map<LeaseRef, LeaseFacts>;
  readonly byToken: Map<number, LeaseFacts>;
  readonly bySession: Map<string, LeaseFacts[]>;
  /** Acquires without a reply. */
  readonly lostAcquires: Acquire[];
  /** Forced releases that were done, or may have been. */
  readonly forces: Noted[];
  /** Tokens that were held according to somebody, in order, and the first reply that said so. */
  readonly heldTokens: number[];
  readonly heldFirst: Map<number, Noted>;
}

/** All acquires of a principal under one request id. */
export interface RequestFacts {
  readonly id: string;
  readonly acquires: Acquire[];
  /** What it was answered with, if anybody was told. */
  readonly leases: LeaseFacts[];
  /** Those of them that were not given back to a holder who proved to be it, so that it was granted them. */
  readonly settled: LeaseFacts[];
}

/**
 * Whether the acquire may have got the lease again because its caller proved to hold it, by the lease or the session:
 * then the lease was not granted to its request id, which is free to be granted another.
 */
export const mayBeReentry = ({ lease, grants, mayGrant }: LeaseFacts, grant: Grant): boolean =>
  grant.call.lease === lease ||
  (grant.call.session !== null &&
    // Another request was granted it, before.
    [...grants, ...mayGrant].some(
      ({ call, began }) => call.requestId !== grant.call.requestId && began <= grant.ended,
    ));

export interface Ledger {
  readonly history: History;
  readonly names: ReadonlyMap<string, NameFacts>;
  readonly requests: ReadonlyMap<string, RequestFacts>;
  readonly sessions: ReadonlyMap<string, SessionFacts>;
  /** The first lease, on any name, that has the id. */
  readonly byRef: ReadonlyMap<LeaseRef, LeaseFacts>;
  /** When the service answered. */
  readonly pulses: Pulses;
}

/**
 * Not before this it was decided. Who waited in vain until its time was up was refused by a last look; answered early,
 * for whatever reason, nothing is known.
 */
export function decidedFrom({ began, ended, call, reply }: Noted, { clockBoundMs, terms }: History): number {
  // Who looks by itself may have begun its last look before its time was up.
  if (terms?.lookEveryMs !== undefined) return began;
  if (call.op !== "acquire" || (reply.kind !== "held" && reply.kind !== "delayed")) return began;
  const isWaitedOut = call.waitMs > 0 && ended - began >= call.waitMs;
  return isWaitedOut ? Math.max(began, began + call.waitMs - clockBoundMs - 2 * tickMs) : began;
}

/** Between which instants the grant was made. */
export const grantedBy = (lease: LeaseFacts): number => firstGrant(lease).ended;
export const grantedFrom = ({ grants, mayGrant }: LeaseFacts): number =>
  Math.min(...grants.map(({ began }) => began), ...mayGrant.map(({ began }) => began));

/** The earliest reply that told of the lease. */
export function firstGrant({ grants, lease }: LeaseFacts): Grant {
  const [first] = grants;
  if (first === undefined) throw new Error(`a lease that nobody was granted: ${lease}`);
  return first;
}

/** Whether the lease lives no longer than the session: its grant named it, and no proof. */
export const isOfSession = (lease: LeaseFacts, session: string): boolean =>
  lease.session?.id === session && firstGrant(lease).call.lease === null;

/** Whether a restore may have come between two instants, so that what was known at the first is forgotten. */
export const isForgotten = ({ quiet = [] }: History, from: number, to: number): boolean =>
  quiet.some((window) => window.from <= to && window.to >= from);

/**
 * The lease that the acquire was granted if it was granted any: one of the same request, without other proof, was
 * told. Across a restore a request id may have been granted two.
 */
export const settledBy = ({ requests, history }: Ledger, acquire: Acquire): LeaseFacts | undefined =>
  requests
    .get(requestKey(acquire) ?? "")
    ?.settled.find(
      (lease) => !isForgotten(history, Math.min(acquire.began, grantedFrom(lease)), acquire.ended),
    );

export const requestKey = ({ principal, call }: Acquire): string | null =>
  call.requestId === null ? null : `${principal} ${call.requestId}`;

export function ledgerOf(history: History): Ledger {
  const names = new Map<string, NameFacts>();
  const requests = new Map<string, RequestFacts>();
  const byRef = new Map<LeaseRef, LeaseFacts>();
  const all: Noted[] = history.operations.map((operation, index) => ({ ...operation, index }));
  all.sort((one, other) => one.began - other.began);
  const sessions = sessionsIn(all, history);
  for (const noted of all) if ("name" in noted.call) nameIn(names, noted.call.name).operations.push(noted);
  for (const name of names.values()) {
    for (const noted of name.operations) if (isOp(noted, "acquire")) noteRequest(requests, noted);
    noteLeases(name, requests, sessions);
    for (const noted of name.operations) noteEvidence(name, requests, noted, history.terms);
    noteTokens(name);
    for (const lease of name.leases) if (!byRef.has(lease.lease)) byRef.set(lease.lease, lease);
  }
  for (const { leases, acquires, settled } of requests.values())
    for (const lease of leases)
      if (lease.grants.some((grant) => acquires.includes(grant) && !mayBeReentry(lease, grant)))
        settled.push(lease);
  return { history, names, requests, sessions, byRef, pulses: new Pulses(history) };
}

function nameIn(names: Map<string, NameFacts>, name: string): NameFacts {
  const known = names.get(name);
  if (known !== undefined) return known;
  const facts: NameFacts = {
    name,
    operations: [],
    leases: [],
    byRef: new Map(),
    byToken: new Map(),
    bySession: new Map(),
    lostAcquires: [],
    forces: [],
    heldTokens: [],
    heldFirst: new Map(),
  };
  names.set(name, facts);
  return facts;
}

function noteRequest(requests: Map<string, RequestFacts>, acquire: Acquire): void {
  const key = requestKey(acquire);
  if (key === null) return;
  const request = requests.get(key) ?? {
    id: acquire.call.requestId ?? "",
    acquires: [],
    leases: [],
    settled: [],
  };
  request.acquires.push(acquire);
  requests.set(key, request);
}

function noteLeases(
  name: NameFacts,
  requests: Map<string, RequestFacts>,
  sessions: ReadonlyMap<string, SessionFacts>,
): void {
  const grants = name.operations.filter(
    (noted): noted is Grant => isOp(noted, "acquire") && isAnswered(noted, "granted"),
  );
  for (const grant of grants.sort((one, other) => one.ended - other.ended)) {
    const { lease, token } = grant.reply;
    const known = name.byRef.get(lease);
    if (known !== undefined) {
      known.grants.push(grant);
      continue;
    }
    const { session } = grant.call;
    const facts: LeaseFacts = {
      lease,
      name,
      token,
      principal: grant.principal,
      session: session === null ? null : (sessions.get(session) ?? null),
      grants: [grant],
      mayGrant: [],
      renewals: [],
      mayProlong: [],
      releases: [],
      lives: [],
      overs: [],
    };
    name.leases.push(facts);
    name.byRef.set(lease, facts);
    name.byToken.set(token, facts);
    if (session !== null) name.bySession.set(session, [...(name.bySession.get(session) ?? []), facts]);
  }
  name.leases.sort((one, other) => one.token - other.token);
  for (const lease of name.leases)
    for (const grant of lease.grants) {
      const request = requests.get(requestKey(grant) ?? "");
      if (request === undefined) continue;
      if (!request.leases.includes(lease)) request.leases.push(lease);
    }
}

function noteEvidence(
  name: NameFacts,
  requests: Map<string, RequestFacts>,
  noted: Noted,
  terms: Terms = {},
): void {
  const isUnknown = noted.reply.kind === "unknown";
  if (isOp(noted, "acquire")) noteAcquire(name, requests, noted, terms);
  else if (isOp(noted, "force") && (noted.reply.kind === "done" || isUnknown)) {
    name.forces.push(noted);
    for (const lease of name.leases)
      if (!isUnknown && noted.began > grantedBy(lease)) lease.overs.push(noted);
  } else if (isOp(noted, "renew") || isOp(noted, "release")) {
    const lease = name.byRef.get(noted.call.lease);
    if (lease === undefined || lease.principal !== noted.principal) return;
    if (isOp(noted, "renew") && isAnswered(noted, "granted")) {
      lease.renewals.push(noted);
      lease.lives.push(noted);
    } else if (isOp(noted, "renew") && isUnknown) lease.mayProlong.push(noted);
    else if (isOp(noted, "release") && isUnknown) lease.releases.push(noted);
    else if (noted.reply.kind === "lost") lease.overs.push(noted);
    else if (noted.reply.kind === "done") {
      lease.releases.push(noted);
      lease.lives.push(noted);
      lease.overs.push(noted);
    }
  }
}

function noteAcquire(
  name: NameFacts,
  requests: Map<string, RequestFacts>,
  acquire: Acquire,
  { repeatRenews = false }: Terms,
): void {
  const request = requests.get(requestKey(acquire) ?? "");
  const { call, reply } = acquire;
  if (reply.kind === "granted") name.byRef.get(reply.lease)?.lives.push(acquire);
  if (reply.kind === "lost")
    for (const lease of request?.leases ?? [])
      if (grantedBy(lease) < acquire.began) lease.overs.push(acquire);
  if (reply.kind !== "unknown") return;
  name.lostAcquires.push(acquire);
  const isOwn = (lease: LeaseFacts): boolean => lease.principal === acquire.principal;
  const ofSession = call.session === null ? [] : (name.bySession.get(call.session) ?? []).filter(isOwn);
  const named = call.lease === null ? undefined : name.byRef.get(call.lease);
  const repeated = (request?.leases ?? []).filter((lease) => lease.name === name);
  for (const lease of new Set([...repeated, ...ofSession])) lease.mayGrant.push(acquire);
  const renewed = repeatRenews ? repeated : [];
  for (const lease of new Set([...ofSession, ...renewed, ...(named && isOwn(named) ? [named] : [])]))
    lease.mayProlong.push(acquire);
}

/** Who saw which token, and that a higher token tells of the end of every lease below it. */
function noteTokens(name: NameFacts): void {
  const seen = name.operations
    .flatMap((noted) => {
      const { reply } = noted;
      const isHeld =
        reply.kind === "held" || reply.kind === "granted" || (reply.kind === "state" && reply.held);
      return "token" in reply && reply.token !== null ? [{ noted, token: reply.token, isHeld }] : [];
    })
    .sort((one, other) => other.token - one.token || Number(one.isHeld) - Number(other.isHeld));
  for (const { noted, token, isHeld } of seen) {
    const first = name.heldFirst.get(token);
    if (isHeld && (first === undefined || noted.ended < first.ended)) name.heldFirst.set(token, noted);
  }
  name.heldTokens.push(...[...name.heldFirst.keys()].sort((one, other) => one - other));
  let next = 0;
  let earliest: Noted | undefined;
  let latest: Noted | undefined;
  for (const lease of [...name.leases].reverse()) {
    for (let one = seen[next]; one !== undefined; one = seen[++next]) {
      if (one.token < lease.token || (one.token === lease.token && one.isHeld)) break;
      if (earliest === undefined || one.noted.ended < earliest.ended) earliest = one.noted;
      if (latest === undefined || one.noted.began > latest.began) latest = one.noted;
    }
    if (earliest !== undefined && latest !== undefined) lease.overs.push(earliest, latest);
  }
  for (const { noted, token, isHeld } of seen) {
    const isTold = noted.reply.kind === "held" || noted.reply.kind === "state";
    if (isHeld && isTold) name.byToken.get(token)?.lives.push(noted);
  }
}
