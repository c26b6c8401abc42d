/**
 * How long a lease was held, as far as replies alone prove it: the longest time for which it certainly was, and the
 * instant by which it certainly no longer was.
 */
import type { History } from "../history.js";
import { grantedFrom, type LeaseFacts } from "./ledger.js";
import { lateBy, tickMs } from "./sessions.js";

/** How late a dead holder's name may become free, beyond its TTL: I3. */
export const graceMs = 1000;

/** Until when the service had promised it by `before`, if nothing ended it. */
export function promisedUntil({ grants, renewals }: LeaseFacts, history: History, before: number): number {
  let until = Number.NEGATIVE_INFINITY;
  for (const { began, reply } of [...grants, ...renewals])
    if (began <= before) until = Math.max(until, began + reply.leftMs - history.clockBoundMs);
  return until;
}

/** The earliest instant at which something that was asked for may have ended or shortened it. */
export function mayEndFrom(lease: LeaseFacts, { clockBoundMs, quiet = [] }: History): number {
  const { name, releases, session, renewals, mayProlong } = lease;
  const from = grantedFrom(lease);
  let earliest = session?.overFrom ?? Number.POSITIVE_INFINITY;
  for (const { began } of releases) earliest = Math.min(earliest, began);
  for (const { began, ended, reply } of name.forces)
    if (ended >= from || reply.kind === "unknown") earliest = Math.min(earliest, began);
  // Only a renewal that names a TTL may shorten.
  for (const { began, call } of [...renewals, ...mayProlong])
    if (call.op === "renew" && call.ttlMs !== null)
      earliest = Math.min(earliest, began + call.ttlMs - clockBoundMs);
  for (const window of quiet) if (window.to >= from) earliest = Math.min(earliest, window.from);
  return earliest;
}

/** Whether a lease may be taken for held for a while after it has run out by its holder's own time. */
export const isSeenLate = ({ terms }: History): boolean =>
  terms?.margin !== undefined || terms?.lateMs !== undefined;

/** It had not run out before then. */
export const ranUntil = (lease: LeaseFacts, history: History): number =>
  isSeenLate(history)
    ? Math.min(promisedUntil(lease, history, Number.POSITIVE_INFINITY), mayEndFrom(lease, history))
    : heldUntil(lease, history);

/** Worked out once for each lease. */
const known = new WeakMap<LeaseFacts, number>();

/** It was certainly held until then. */
export function heldUntil(lease: LeaseFacts, history: History): number {
  let until = known.get(lease);
  if (until !== undefined) return until;
  const promised = promisedUntil(lease, history, Number.POSITIVE_INFINITY);
  until = Math.min(promised, mayEndFrom(lease, history));
  for (const { began } of lease.lives) until = Math.max(until, began);
  known.set(lease, until);
  return until;
}

/** By then its time was over, whatever happened. */
export function expiredBy(lease: LeaseFacts, history: History): number {
  const { grants, renewals, mayProlong, session } = lease;
  const slackMs = lateBy(history);
  const told = [...grants, ...renewals];
  if (session === null)
    return mayProlong.length > 0
      ? Number.POSITIVE_INFINITY
      : Math.max(...told.map(({ ended, reply }) => ended + reply.leftMs)) + slackMs;
  // What the session left of a lease says nothing about the lease's own time.
  if (mayProlong.length > 0 || grants.some(({ call }) => call.ttlMs === null)) return session.overBy;
  const longestMs = Math.max(...told.map(({ call }) => call.ttlMs ?? 0));
  return Math.min(session.overBy, Math.max(...told.map(({ ended }) => ended)) + longestMs + slackMs);
}

/**
 * By then the place that this recorder asks must have seen that its time was over. Where places count for themselves, that
 * is from their first look at the lease as it was last renewed; of one that has not looked, nothing is known.
 */
export function seenOverBy(lease: LeaseFacts, history: History, recorder: string | undefined): number {
  const over = expiredBy(lease, history);
  const margin = history.terms?.margin;
  if (margin === undefined) return over;
  const told = [...lease.grants, ...lease.renewals];
  const lastAt = Math.max(...told.map(({ ended }) => ended));
  const looks = lease.lives.filter(
    ({ began, reply, recorder: who }) =>
      who === recorder && began >= lastAt && (reply.kind === "held" || reply.kind === "state"),
  );
  const seenAt = Math.min(Number.POSITIVE_INFINITY, ...looks.map(({ ended }) => ended));
  const leftMs = Math.max(...told.map(({ reply }) => reply.leftMs));
  const marginMs = Math.max(margin.minMs, margin.share * leftMs);
  return Math.max(over, seenAt + leftMs + marginMs + history.clockBoundMs + tickMs);
}

/** By then it was over for who asks there: its time was, or somebody was told so. */
export const overBy = (lease: LeaseFacts, history: History, recorder: string | undefined): number =>
  Math.min(seenOverBy(lease, history, recorder), ...lease.overs.map(({ ended }) => ended));
