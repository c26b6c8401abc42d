/** Records as strangers see them: never a lease id or session id of another. */
import type { InspectReply } from "../../core/inspect.js";
import type {
  Ended,
  LeaseEvent,
  LockRecord,
  Metadata,
  SessionRecord,
  TokenRecord,
} from "../../core/records.js";
import type { Holding } from "../../core/refusal.js";
import type { Instants } from "./instants.js";

/** Longest pause that a refused caller is advised to make, in ms: a release may come at any time. */
const retryMaxMs = 5000;

export const remaining = (at: number, now: number): number => Math.max(0, at - now);
export const retryAfter = (at: number, now: number): number => Math.min(remaining(at, now) + 1, retryMaxMs);
export const ownerOf = (who: { owner: string | null; principal: string }): string =>
  who.owner ?? who.principal;

/** A third of the TTL: two renewals may be lost before the lease is. */
export function renewAfter({ lock, expiresAt, now }: Holding): number {
  return Math.floor(Math.min(lock.lease.ttlMs ?? Number.POSITIVE_INFINITY, remaining(expiresAt, now)) / 3);
}

/** Metadata is text on the lock face; a job's object is its JSON there. */
const asText = (metadata: Metadata): string | null =>
  metadata === null || typeof metadata === "string" ? metadata : JSON.stringify(metadata);

export class Presenter {
  constructor(readonly instants: Instants) {}

  expiry(holding: Holding): { expires_at: string; expires_in_ms: number } {
    return {
      expires_at: this.instants.text(holding.expiresAt),
      expires_in_ms: remaining(holding.expiresAt, holding.now),
    };
  }

  holder({ lock: { lease } }: Holding): object {
    const holder = {
      principal: lease.principal,
      session: lease.sessionHash,
      since: this.instants.text(lease.since),
    };
    return lease.owner === null ? holder : { ...holder, owner: lease.owner };
  }

  acquired(holding: Holding): object {
    const { lock } = holding;
    return {
      status: "acquired",
      name: lock.name,
      lease_id: lock.lease.id,
      fencing_token: lock.token,
      ...this.expiry(holding),
      renew_after_ms: renewAfter(holding),
      metadata: asText(lock.lease.metadata),
    };
  }

  renewed(holding: Holding): object {
    return {
      lease_id: holding.lock.lease.id,
      fencing_token: holding.lock.token,
      ...this.expiry(holding),
      renew_after_ms: renewAfter(holding),
    };
  }

  held(name: string, holding: Holding, waiters: number, position: number | undefined): object {
    const { lock } = holding;
    return {
      status: "held",
      name,
      holder: this.holder(holding),
      holder_id: lock.lease.principal,
      fencing_token: lock.token,
      ...this.expiry(holding),
      retry_after_ms: retryAfter(holding.expiresAt, holding.now),
      metadata: asText(lock.lease.metadata),
      waiters,
      ...(position === undefined ? {} : { position }),
      ...(lock.name === name ? {} : { conflicts_with: lock.name }),
    };
  }

  heldLock(holding: Holding, waiters: number): object {
    const { lock } = holding;
    return {
      name: lock.name,
      status: "held",
      holder: this.holder(holding),
      holder_id: lock.lease.principal,
      fencing_token: lock.token,
      ...this.expiry(holding),
      metadata: asText(lock.lease.metadata),
      waiters,
    };
  }

  lock(name: string, { lock, holding, token, availableAt }: InspectReply, waiters: number): object {
    const previous = lock?.previous ? { previous: this.previous(lock.previous) } : {};
    if (holding !== null) return { ...this.heldLock(holding, waiters), ...previous };
    return {
      name,
      status: "free",
      holder: null,
      holder_id: null,
      fencing_token: token,
      expires_at: null,
      expires_in_ms: null,
      metadata: null,
      waiters,
      ...(availableAt === 0 ? {} : { available_at: this.instants.text(availableAt) }),
      ...previous,
    };
  }

  previous(ended: Ended): object {
    return {
      principal: ended.principal,
      owner: ended.owner,
      token: ended.token,
      ended_at: this.instants.text(ended.endedAt),
      how: ended.how,
      ...(ended.by === null ? {} : { by: ended.by, reason: ended.reason }),
    };
  }

  claimed(holding: Holding): object {
    const { lock } = holding;
    return {
      job_id: lock.name,
      claimed: true,
      lease_id: lock.lease.id,
      token: lock.token,
      owner: ownerOf(lock.lease),
      metadata: lock.lease.metadata,
      ...this.expiry(holding),
      heartbeat_after_ms: renewAfter(holding),
      attempts: lock.attempts,
    };
  }

  beaten(holding: Holding): object {
    return {
      job_id: holding.lock.name,
      lease_id: holding.lock.lease.id,
      token: holding.lock.token,
      ...this.expiry(holding),
      heartbeat_after_ms: renewAfter(holding),
    };
  }

  /** Who stands in the way of a claim; all null where nobody does. */
  inTheWay(jobId: string, holding: Holding | null): object {
    if (holding === null)
      return {
        job_id: jobId,
        owner: null,
        metadata: null,
        since: null,
        expires_at: null,
        expires_in_ms: null,
      };
    const { lease } = holding.lock;
    return {
      job_id: jobId,
      owner: ownerOf(lease),
      metadata: lease.metadata,
      since: this.instants.text(lease.since),
      ...this.expiry(holding),
      ...(holding.lock.name === jobId ? {} : { conflicts_with: holding.lock.name }),
    };
  }

  job(jobId: string, lock: LockRecord | null, holding: Holding | null, token: number): object {
    const lease = holding?.lock.lease ?? null;
    const outcome = lock?.outcome ?? null;
    return {
      job_id: jobId,
      claimed: lease !== null,
      owner: lease === null ? null : ownerOf(lease),
      principal: lease?.principal ?? null,
      metadata: lease?.metadata ?? null,
      progress: lease?.progress ?? null,
      since: lease === null ? null : this.instants.text(lease.since),
      last_heartbeat_at: lease === null ? null : this.instants.text(lease.renewedAt),
      ...(holding === null ? { expires_at: null, expires_in_ms: null } : this.expiry(holding)),
      token,
      attempts: lock?.attempts ?? 0,
      ...(outcome === null
        ? {}
        : {
            last_outcome: {
              outcome: outcome.outcome,
              note: outcome.note,
              at: this.instants.text(outcome.at),
            },
          }),
      ...(lock?.previous ? { previous: this.previous(lock.previous) } : {}),
    };
  }

  session({ session, now }: { session: SessionRecord; now: number }): {
    session_id: string;
    expires_at: string;
    expires_in_ms: number;
  } {
    const end = session.ended?.at ?? session.expiresAt;
    return {
      session_id: session.id,
      expires_at: this.instants.text(end),
      expires_in_ms: remaining(end, now),
    };
  }

  token(record: TokenRecord): object {
    return {
      id: record.id,
      name: record.name,
      role: record.role,
      scopes: record.scopes,
      space: record.space,
      reentrant: record.reentrant,
      created_at: this.instants.text(record.createdAt),
      created_by: record.createdBy,
      expires_at: record.expiresAt === null ? null : this.instants.text(record.expiresAt),
    };
  }

  event(event: LeaseEvent): object {
    return {
      event: event.type,
      name: event.name,
      lock_name: event.name,
      fencing_token: event.token,
      holder: {
        principal: event.principal,
        session: event.sessionHash,
        since: this.instants.text(event.since),
        ...(event.owner === null ? {} : { owner: event.owner }),
      },
      metadata: asText(event.metadata),
      expires_at: event.expiresAt === null ? null : this.instants.text(event.expiresAt),
      observed_at: this.instants.text(event.at),
    };
  }
}
