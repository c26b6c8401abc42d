/** Calls on locks, one reply each. `hold` is what most want instead: it renews by itself. */
import { type Duration, elapsedMs, thisMoment, toMs, toTtlSeconds } from "./durations.js";
import { HoldfastError } from "./errors.js";
import { segment } from "./path.js";
import type { Acquired, Delayed, Extended, Held, Lock, LockPage, Renewed } from "./replies.js";
import type { Reply, Transport } from "./transport.js";
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

/** A grant may be as old as the wait, or the repeats, for it: beyond this share of its time it is renewed at once. */
const freshShare = 0.1;

export class Locks {
  constructor(readonly transport: Transport) {}

  /** Takes it, or answers who has it; waits in line if asked to. */
  async acquire(name: string, options: AcquireOptions = {}): Promise<Acquired | Held | Delayed> {
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
      signal,
      ...retries,
    });
    const reply = answer.body as Acquired | Held | Delayed;
    if (answer.status === 409 && reply.status !== "delayed") throw conflictOf(answer);
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

  async renew(
    name: string,
    leaseId: string,
    options: CallSignal & { readonly ttl?: Duration | undefined } = {},
  ): Promise<Renewed> {
    return (await this.#post(name, "renew", { lease_id: leaseId, ...ttlOf(options) }, options)) as Renewed;
  }

  /** Only ever lengthens. */
  async extend(name: string, leaseId: string, ttl: Duration, options: CallSignal = {}): Promise<Extended> {
    return (await this.#post(name, "extend", { lease_id: leaseId, ...ttlOf({ ttl }) }, options)) as Extended;
  }

  /** Ends the lease. A repeat after a lost reply succeeds, too. */
  async release(name: string, leaseId: string, options: CallSignal = {}): Promise<void> {
    let maybeDone = false;
    const path = `/locks/${segment(name)}/release`;
    const onUncertain = (): void => {
      maybeDone = true;
    };
    try {
      await this.transport.call({
        method: "POST",
        path,
        body: { lease_id: leaseId },
        onUncertain,
        ...options,
      });
    } catch (error) {
      if (!maybeDone || !(error instanceof HoldfastError) || error.code !== "lease_not_current") throw error;
    }
  }

  /** Who has it. A free name is an answer, too. */
  async get(name: string, options: CallSignal = {}): Promise<Lock> {
    const path = `/locks/${segment(name)}`;
    return (await this.transport.call({ method: "GET", path, ...options })).body as Lock;
  }

  /** Whether a fencing token is that of the live lease, for a resource that wants to ask. */
  async check(name: string, fencingToken: number, options: CallSignal = {}): Promise<boolean> {
    const reply = await this.#post(name, "check", { fencing_token: fencingToken }, options);
    return (reply as { current: boolean }).current;
  }

  /** Takes it away from whoever has it (admin). The holder is told who did it and why. */
  async forceRelease(name: string, reason: string, options: CallSignal = {}): Promise<boolean> {
    const path = `/locks/${segment(name)}`;
    const reply = await this.transport.call({ method: "DELETE", path, body: { reason }, ...options });
    return (reply.body as { released: boolean }).released;
  }

  /** Held names in order, one page. */
  async list(query: ListQuery = {}): Promise<LockPage> {
    const { signal, ...rest } = query;
    return (await this.transport.call({ method: "GET", path: "/locks", query: rest, signal }))
      .body as LockPage;
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

  async #post(
    name: string,
    verb: string,
    body: Record<string, unknown>,
    { signal }: CallSignal,
  ): Promise<unknown> {
    const path = `/locks/${segment(name)}/${verb}`;
    return (await this.transport.call({ method: "POST", path, body, signal })).body;
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

/** A 409 that is no answer to an acquire. */
export function conflictOf({ status, body }: Reply): HoldfastError {
  const fields = Object(body) as Record<string, unknown>;
  return new HoldfastError(String(fields["details"] ?? "The server refused this."), {
    code: (fields["code"] as HoldfastError["code"] | undefined) ?? "conflict",
    status,
    requestId: typeof fields["requestId"] === "string" ? fields["requestId"] : null,
    fields,
  });
}
