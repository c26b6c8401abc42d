/** Calls on locks, one reply each. `hold` is what most want instead: it renews by itself. */
import { type Duration, elapsedMs, thisMoment, toMs, toTtlSeconds } from "./durations.js";
import { HoldfastError, refusalOf } from "./errors.js";
import { refuseUnknown } from "./options.js";
import { segment } from "./path.js";
import type { Acquired, Delayed, Extended, Held, Lock, LockPage, Renewed } from "./replies.js";
import type { CallOptions, Reply, Transport } from "./transport.js";
import { type Answered, type Step, standInLine } from "./waiting.js";

export interface AcquireOptions {
  /** 60 s if left out, without a session. */
  readonly ttl?: Duration | undefined;
  /** How long to stand in line if it is held; longer than any proxy's patience is fine. Not at all if left out. */
  readonly wait?: Duration | undefined;
  /** Shown to everybody who finds it held. */
  readonly metadata?: string | undefined;
  readonly sessionId?: string | undefined;
  /** Proof of being the holder already: the same lease is answered. */
  readonly leaseId?: string | undefined;
  /** If the lease ends other than by its release, nobody is granted the name for this long. */
  readonly lockDelay?: Duration | undefined;
  /** The same id gives the same lease again. Made up if left out. */
  readonly requestId?: string | undefined;
  /** Told who is in the way, again and again while waiting. */
  readonly onWaiting?: ((waiting: Waiting) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** What is known while waiting: who holds it, or why the server cannot be asked. */
export type Waiting = Held | Delayed | { readonly status: "trouble"; readonly error: HoldfastError };

export interface CallSignal {
  readonly signal?: AbortSignal | undefined;
}

export interface RenewOptions extends CallSignal {
  /** As it was granted, if left out. */
  readonly ttl?: Duration | undefined;
}

/** A grant may be as old as the wait, or the repeats, for it: beyond this share of its time it is renewed at once. */
const freshShare = 0.1;

export class Locks {
  constructor(readonly transport: Transport) {}

  /** Takes it, or answers who has it; waits in line if asked to. */
  async acquire(name: string, options: AcquireOptions = {}): Promise<Acquired | Held | Delayed> {
    refuseUnknown("acquire", options);
    return (await this.acquireFrom(name, options)).reply;
  }

  /** The same, with the moment before the deciding call was sent: what a lease's time is counted from. */
  async acquireFrom(name: string, options: AcquireOptions): Promise<Answered<Acquired | Held | Delayed>> {
    const { requestId, signal, onWaiting } = options;
    const body = bodyOf(options);
    return standInLine<Acquired | Held | Delayed>({
      waitMs: toMs(options.wait ?? 0, "wait"),
      requestId,
      signal,
      ask: (step) => this.#ask(name, body, step, signal),
      isGranted: (reply) => reply.status === "acquired",
      retryAfterMs: (reply) => (reply.status === "acquired" ? 0 : reply.retryAfterMs),
      onWaiting: (reply) => reply.status !== "acquired" && onWaiting?.(reply),
      onTrouble: (error) => onWaiting?.({ status: "trouble", error }),
    });
  }

  async #ask(
    name: string,
    body: Readonly<Record<string, unknown>>,
    { requestId, waitSeconds, ...retries }: Step,
    signal: AbortSignal | undefined,
  ): Promise<Answered<Acquired | Held | Delayed>> {
    const sentAt = thisMoment();
    const answer = await this.transport.call({
      method: "POST",
      path: `/locks/${segment(name)}/acquire`,
      body: { ...body, request_id: requestId, ...(waitSeconds === 0 ? {} : { wait_seconds: waitSeconds }) },
      waitMs: waitSeconds * 1000,
      answers: [409],
      expects: ["status", "fencingToken", "expiresInMs"],
      signal,
      ...retries,
    });
    const reply = answer.body as Acquired | Held | Delayed;
    if (answer.status === 409 && reply.status !== "delayed") throw conflictOf(answer, name);
    const isOld = reply.status === "acquired" && elapsedMs(sentAt) > reply.expiresInMs * freshShare;
    return isOld ? this.#freshen(reply, signal) : { reply, sentAt };
  }

  /** Nobody can tell how much of a wait came after the grant, so the lease's time is counted from a renewal instead. */
  async #freshen(acquired: Acquired, signal: AbortSignal | undefined): Promise<Answered<Acquired>> {
    const sentAt = thisMoment();
    const { expiresAt, expiresInMs, renewAfterMs } = await this.renew(
      acquired.name,
      acquired.leaseId,
      signal === undefined ? {} : { signal },
    );
    return { reply: { ...acquired, expiresAt, expiresInMs, renewAfterMs }, sentAt };
  }

  /** Throws LeaseLostError when it is over. */
  async renew(name: string, leaseId: string, options: RenewOptions = {}): Promise<Renewed> {
    refuseUnknown("renew", options);
    return this.transport.ask<Renewed>({
      ...this.#post(name, "renew", { lease_id: leaseId, ...ttlOf(options) }, options),
      expects: ["leaseId", "expiresInMs"],
    });
  }

  /** Only ever lengthens. Throws LeaseLostError when it is over. */
  async extend(name: string, leaseId: string, ttl: Duration, options: CallSignal = {}): Promise<Extended> {
    refuseUnknown("extend", options);
    return this.transport.ask<Extended>({
      ...this.#post(name, "extend", { lease_id: leaseId, ...ttlOf({ ttl }) }, options),
      expects: ["leaseId", "expiresInMs"],
    });
  }

  /** Ends the lease. A repeat after a lost reply succeeds, too. Throws LeaseLostError when it was over before. */
  async release(name: string, leaseId: string, options: CallSignal = {}): Promise<void> {
    refuseUnknown("release", options);
    let maybeDone = false;
    const onUncertain = (): void => {
      maybeDone = true;
    };
    const call = this.#post(name, "release", { lease_id: leaseId }, options);
    try {
      await this.transport.call({ ...call, onUncertain, expects: [] });
    } catch (error) {
      if (!maybeDone || !(error instanceof HoldfastError) || error.code !== "lease_not_current") throw error;
    }
  }

  /** Who has it. A free name is an answer, too. */
  async get(name: string, options: CallSignal = {}): Promise<Lock> {
    refuseUnknown("get", options);
    const { signal } = options;
    return this.transport.ask<Lock>({
      method: "GET",
      path: `/locks/${segment(name)}`,
      signal,
      expects: ["name", "status", "holder"],
    });
  }

  /** Whether a fencing token is that of the live lease, for a resource that wants to ask. */
  async check(name: string, fencingToken: number, options: CallSignal = {}): Promise<boolean> {
    refuseUnknown("check", options);
    const call = this.#post(name, "check", { fencing_token: fencingToken }, options);
    return (await this.transport.ask<{ current: boolean }>({ ...call, expects: ["current"] })).current;
  }

  /** Takes it away from whoever has it (admin). The holder is told who did it and why. */
  async forceRelease(name: string, reason: string, options: CallSignal = {}): Promise<boolean> {
    refuseUnknown("forceRelease", options);
    const { signal } = options;
    const reply = await this.transport.ask<{ released: boolean }>({
      method: "DELETE",
      path: `/locks/${segment(name)}`,
      body: { reason },
      signal,
      expects: ["released"],
    });
    return reply.released;
  }

  /** Held names in order, one page. */
  async list(query: ListQuery = {}): Promise<LockPage> {
    refuseUnknown("list", query);
    const { signal, ...rest } = query;
    return this.transport.ask<LockPage>({
      method: "GET",
      path: "/locks",
      query: rest,
      signal,
      expects: ["locks", "nextCursor"],
    });
  }

  /** Held names in order, all of them. */
  async *each(query: ListQuery = {}): AsyncGenerator<Lock, void, undefined> {
    let cursor = query.cursor;
    do {
      const page = await this.list({ ...query, ...(cursor === undefined ? {} : { cursor }) });
      yield* page.locks;
      cursor = page.nextCursor ?? undefined;
    } while (cursor !== undefined);
  }

  #post(name: string, verb: string, body: Record<string, unknown>, { signal }: CallSignal): CallOptions {
    return { method: "POST", path: `/locks/${segment(name)}/${verb}`, body, signal, resource: name };
  }
}

export interface ListQuery extends CallSignal {
  readonly prefix?: string | undefined;
  /** Only those of the bearer token's principal. */
  readonly mine?: boolean | undefined;
  readonly limit?: number | undefined;
  readonly cursor?: string | undefined;
}

function bodyOf(options: AcquireOptions): Record<string, unknown> {
  const { metadata, sessionId, leaseId, lockDelay } = options;
  return {
    ...ttlOf(options),
    ...(metadata === undefined ? {} : { metadata }),
    ...(sessionId === undefined ? {} : { session_id: sessionId }),
    ...(leaseId === undefined ? {} : { lease_id: leaseId }),
    ...(lockDelay === undefined ? {} : { lock_delay_seconds: toMs(lockDelay, "lockDelay") / 1000 }),
  };
}

export const ttlOf = ({ ttl }: { readonly ttl?: Duration | undefined }): { ttl_seconds?: number } =>
  ttl === undefined ? {} : { ttl_seconds: toTtlSeconds(ttl, "ttl") };

/** A 409 that is no answer to an acquire of `resource`. */
export function conflictOf({ status, body }: Reply, resource: string): HoldfastError {
  const fields = body as Readonly<Record<string, unknown>>;
  const { code, details, requestId } = fields;
  const problem = {
    code: code as HoldfastError["code"],
    status,
    requestId: typeof requestId === "string" ? requestId : null,
    fields,
  };
  return refusalOf(String(details), problem, resource);
}
