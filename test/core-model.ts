/**
 * A second, short statement of the lease rules, told by events and replies alone, to hold histories against. It
 * shares no code with core/: what it knows of records are their types.
 */
import assert from "node:assert/strict";
import type { LeaseEvent } from "../src/core/records.js";

export interface KnownLease {
  readonly id: string;
  readonly name: string;
  readonly principal: string;
  readonly token: number;
  readonly sessionId: string | null;
  readonly metadata: unknown;
  readonly delayMs: number;
  readonly ttlMs: number | null;
  readonly expiresAt: number;
}

interface KnownSession {
  readonly principal: string;
  readonly expiresAt: number;
  readonly deletedAt: number | null;
}

/** What a request id was granted. */
export interface KnownRequest {
  readonly lease: KnownLease;
  readonly fingerprint: string;
}

/** What a caller did that may end a lease by its own will. */
export type Cause = { readonly released: string } | { readonly forced: string } | null;

const never = Number.POSITIVE_INFINITY;

export class Model {
  /** Leases that began and whose end was not told yet, by name. */
  readonly open = new Map<string, KnownLease>();
  /** How and when leases ended, by lease id. */
  readonly ended = new Map<string, { readonly at: number; readonly how: "own release" | "other" }>();
  readonly tokens = new Map<string, number>();
  readonly delays = new Map<string, number>();
  readonly sessions = new Map<string, KnownSession>();
  /** Which lease a request id was granted. */
  readonly requests = new Map<string, KnownRequest>();

  constructor(readonly requestRetentionMs: number) {}

  /** The last instant of a lease, by its own time and its session's. */
  endOf(lease: KnownLease): number {
    if (lease.sessionId === null) return lease.expiresAt;
    const session = this.sessions.get(lease.sessionId);
    assert.ok(session !== undefined, "a lease of a session that never was");
    return Math.min(lease.expiresAt, session.deletedAt ?? session.expiresAt);
  }

  isLive(lease: KnownLease, now: number): boolean {
    const session = lease.sessionId === null ? undefined : this.sessions.get(lease.sessionId);
    return now <= this.endOf(lease) && (session === undefined || session.deletedAt === null);
  }

  isSessionLive(id: string, now: number): boolean {
    const session = this.sessions.get(id);
    return session !== undefined && session.deletedAt === null && now <= session.expiresAt;
  }

  /** The lease that is live under this name now. */
  liveOn(name: string, now: number): KnownLease | undefined {
    const lease = this.open.get(name);
    return lease !== undefined && this.isLive(lease, now) ? lease : undefined;
  }

  /** A lease of another that excludes one on `name`, among those whose end was not told. */
  inTheWay(name: string, sessionId: string | null): KnownLease | undefined {
    for (const lease of this.open.values())
      if (
        lease.name !== name &&
        excludes(lease.name, name) &&
        (sessionId === null || lease.sessionId !== sessionId)
      )
        return lease;
    return undefined;
  }

  /** Whether this request id must be remembered now. */
  remembered(request: string, now: number): KnownRequest | undefined {
    const known = this.requests.get(request);
    if (known === undefined) return undefined;
    const ended = this.ended.get(known.lease.id);
    return ended === undefined || now <= ended.at + this.requestRetentionMs ? known : undefined;
  }

  /** Takes in one event; `lease` is what the store has under that name after the step. */
  hear(event: LeaseEvent, lease: Omit<KnownLease, "token" | "name"> | null, cause: Cause, now: number): void {
    assert.equal(event.at, now);
    if (event.type === "acquired") this.#began(event, lease, now);
    else if (event.type === "renewed") this.#wentOn(event, now);
    else this.#ended(event, cause, now);
  }

  #began(event: LeaseEvent, lease: Omit<KnownLease, "token" | "name"> | null, now: number): void {
    const { name, token } = event;
    assert.ok(!this.open.has(name), `${name}: granted while it is held`);
    assert.ok(token > (this.tokens.get(name) ?? 0), `${name}: token ${token} is not above the last`);
    assert.ok(now > (this.delays.get(name) ?? -1), `${name}: granted within its lock delay`);
    assert.ok(lease !== null, `${name}: granted and not stored`);
    assert.ok(!this.ended.has(lease.id), `${name}: a lease id was used twice`);
    const neighbour = this.inTheWay(name, lease.sessionId);
    assert.equal(neighbour, undefined, `${name}: granted while ${neighbour?.name} is held`);
    if (lease.sessionId !== null)
      assert.ok(this.isSessionLive(lease.sessionId, now), "granted to a dead session");
    this.tokens.set(name, token);
    // What is stored may have been prolonged in the same step: the event tells what was granted.
    this.open.set(name, { ...lease, name, token, expiresAt: event.expiresAt ?? never });
  }

  #wentOn(event: LeaseEvent, now: number): void {
    const lease = this.open.get(event.name);
    assert.ok(lease !== undefined && lease.token === event.token, `${event.name}: renewed what is not held`);
    assert.ok(this.isLive(lease, now), `${event.name}: renewed what is over`);
    this.open.set(event.name, { ...lease, expiresAt: event.expiresAt ?? never });
  }

  #ended(event: LeaseEvent, cause: Cause, now: number): void {
    const { name } = event;
    const lease = this.open.get(name);
    assert.ok(lease !== undefined && lease.token === event.token, `${name}: the end of what is not held`);
    const session = lease.sessionId === null ? undefined : this.sessions.get(lease.sessionId);
    const end = this.endOf(lease);
    const live = this.isLive(lease, now);
    if (event.type === "expired") assert.ok(now > end, `${name}: expired before its time`);
    else if (!live) {
      assert.ok(typeof session?.deletedAt === "number", `${name}: released by nobody`);
      assert.ok(session.deletedAt <= lease.expiresAt, `${name}: it had expired before its session ended`);
    } else
      assert.ok(
        cause !== null && ("forced" in cause ? cause.forced === name : cause.released === lease.id),
        `${name}: released by nobody`,
      );
    const at = live ? now : end;
    assert.equal(event.expiresAt, at, `${name}: told another end than it had`);
    const own = live && cause !== null && "released" in cause;
    this.ended.set(lease.id, { at, how: own ? "own release" : "other" });
    if (own || lease.delayMs === 0) this.delays.delete(name);
    else this.delays.set(name, at + lease.delayMs);
    this.open.delete(name);
  }
}

/** Rule 12, in other words. */
export function excludes(one: string, other: string): boolean {
  const isBelow = (low: string, high: string): boolean =>
    low.startsWith("path:") && high.startsWith("path:") && low.startsWith(`${high}/`);
  const isGlobal = (high: string, low: string): boolean =>
    high === "repo:global" && (low.startsWith("path:") || low.startsWith("repo:"));
  return (
    one === other ||
    isBelow(one, other) ||
    isBelow(other, one) ||
    isGlobal(one, other) ||
    isGlobal(other, one)
  );
}
