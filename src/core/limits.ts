/**
 * Every bound of the lease rules, with its unit and its reason. Bounds that an operator may want to move are
 * part of `Policy` and get their defaults here; the others are facts of the design.
 */
import { type NodePolicy, nodePolicyDefault } from "./nodes/policy.js";

/** Longest name, in UTF-8 bytes: fits a path of any repository worth locking, and an index key of every engine. */
export const nameBytesMax = 256;
/** Longest metadata, in code points (an object counts as its JSON): room for a URL and a sentence, not a payload. */
export const metadataCharsMax = 1024;
/** Largest fencing token: the largest integer that JSON carries exactly through every client. */
export const tokenMax = Number.MAX_SAFE_INTEGER;
/** Rounds in which a decision may ask for more before it counts as a bug. */
export const roundsMax = 8;
/** Most rows one range may bring into a decision: bounds what a single step reads, guards and writes. */
export const rangeMax = 128;
/** Of the records that an engine lets a step rely on, what stays for those beside the ones that it is about. */
export const reliesBeside = 16;
/** What one neighbour of a node may change: its record, its places among the ready ones, per type and in all, and its carrier's. */
export const changesPerNeighbour = 7;
/** Records that settling one row may have to look at, about: its own, its session or node, its heir's request and session. */
export const reliesPerRow = 4;
/** Waiters looked at together once the first turned out to wait in vain: bounds the rounds that a queue of them costs. */
export const waitersAhead = 32;
/** Waiters of all servers in the line for one name: it is one record, written anew whenever somebody joins or leaves. */
export const turnsMax = 5000;
/** How long a server of a cluster counts as running after it last said so, in ms: how long its waiters hold up others. */
export const peerTtlMs = 3000;
/** Most records one sweep (expiry, clean-up) changes in one step, so that a mass expiry never blocks a claim for long. */
export const sweepWritesMax = 256;
/** Longest lock delay, in ms: long enough for a stalled request to die, short enough to wait out. */
export const lockDelayMaxMs = 60_000;
/** Grants of one name per ms that no engine reaches: ten times what was measured of all names on the fastest database. */
export const grantsPerMsMax = 100;
/** The year 2109. A wall clock that is further on is wrong, and must not use up all numbers; places in the feed have fifteen digits. */
export const wallMsMax = 2 ** 42;
/** How far tokens, and what else a database numbers, are lifted at least: above days of commits at full speed. */
export const copyJump = 2 ** 34;
/** Age up to which a copy is told from a younger one by it, in ms: a year. */
export const copyAgeMsMax = 2 ** 35;

/** Longest node id, in characters: as a lease it is a name with `node:` before it. */
export const nodeIdMax = 128;
/** Edges of one node to others: bounds what a change of its status touches in one step. `assigned` is one more. */
export const edgesMax = 100;
/** Blockers of one node: as edges, seen from the other side. */
export const blockersMax = 100;
/** Nodes behind a new `blocks` edge that are searched for a circle before it is refused as too deep to tell. */
export const cycleSearchMax = 1000;
/** Lost carriers that a node remembers: enough to see a pattern, and its history has them all. */
export const carriersMax = 20;

/** What an operator decides about leases. All durations in ms. */
export interface Policy {
  /** Longest TTL of a lease. One day: a crashed worker must not look busy for longer. */
  readonly ttlMaxMs: number;
  /** How long a free name's record (previous holder, attempts) is kept before clean-up folds it into the floor. */
  readonly recordRetentionMs: number;
  /** How long after its lease a request id is remembered: a retry later than a day is a new request. */
  readonly requestRetentionMs: number;
  /** How long an ended session answers `session_expired` before it is unknown. */
  readonly sessionRetentionMs: number;
  /** How long audit records are kept. */
  readonly auditRetentionMs: number;
  /** The work graph's rules in spaces that have set none of their own. */
  readonly nodes: NodePolicy;
}

const hourMs = 3_600_000;

export const policyDefault: Policy = {
  ttlMaxMs: 24 * hourMs,
  recordRetentionMs: 24 * hourMs,
  requestRetentionMs: 24 * hourMs,
  sessionRetentionMs: hourMs,
  auditRetentionMs: 365 * 24 * hourMs,
  nodes: nodePolicyDefault,
};
