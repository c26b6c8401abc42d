/** The client: `createClient({ url, token })`. No dependencies; runs wherever there is `fetch`. */
import type { Duration } from "./durations.js";
import { toMs } from "./durations.js";
import { type HeldBy, HeldError } from "./errors.js";
import { type ClaimOptions, Jobs, type ListJobsQuery } from "./jobs.js";
import { Lease } from "./lease.js";
import { LeaseState } from "./lease-state.js";
import { type AcquireOptions, type CallSignal, Locks } from "./locks.js";
import { Nodes } from "./nodes.js";
import { refuseUnknown } from "./options.js";
import { type Granted, Renewal } from "./renewal.js";
import type { Acquired, Delayed, Held, WatchEvent, WhoAmI } from "./replies.js";
import { Sessions } from "./sessions.js";
import { Transport, type TransportOptions } from "./transport.js";
import { type WatchOptions, watch } from "./watch.js";

export interface ClientOptions {
  /** As `http://127.0.0.1:4280`. */
  readonly url: string;
  /** The bearer token. */
  readonly token?: string | undefined;
  /** Only for an operator's token: the space to act in. */
  readonly space?: string | undefined;
  /** How long a single attempt may take, beyond a wait. 10 s if left out. */
  readonly timeout?: Duration | undefined;
  /** How often a call that failed in passing is repeated. 4 times if left out. */
  readonly retries?: number | undefined;
  /** Instead of the global one. */
  readonly fetch?: typeof globalThis.fetch | undefined;
}

export interface HoldOptions extends Omit<AcquireOptions, "leaseId"> {
  /** `"worker"` (Node): a thread of its own renews, so that a blocked event loop does not lose the lease. */
  readonly renewIn?: "event-loop" | "worker" | undefined;
}

export class Client {
  readonly locks: Locks;
  readonly jobs: Jobs;
  readonly sessions: Sessions;
  readonly nodes: Nodes;
  readonly #transport: Transport;
  readonly #ownFetch: boolean;

  constructor(options: ClientOptions) {
    refuseUnknown("createClient", options);
    const { url, token, space, retries = 4 } = options;
    const given: TransportOptions = {
      url,
      token,
      space,
      retries,
      timeoutMs: toMs(options.timeout ?? "10s", "timeout"),
      fetch: options.fetch ?? ((input, init) => globalThis.fetch(input, init)),
    };
    this.#transport = new Transport(given);
    this.#ownFetch = options.fetch !== undefined;
    this.locks = new Locks(this.#transport);
    this.jobs = new Jobs(this.#transport);
    this.sessions = new Sessions(this.#transport);
    this.nodes = new Nodes(this.#transport);
  }

  /**
   * Works under a lease: takes it, renews it while `work` runs, releases it at the end, also on a throw. Throws HeldError
   * if another has it (after `wait`), and LeaseLostError if it was lost before `work` had ended.
   */
  hold<Result>(
    name: string,
    options: HoldOptions,
    work: (lease: Lease) => Promise<Result> | Result,
  ): Promise<Result>;
  /** A lease to be released by `release()`, or by `await using`. */
  hold(name: string, options?: HoldOptions): Promise<Lease>;
  async hold<Result>(
    name: string,
    options: HoldOptions = {},
    work?: (lease: Lease) => Promise<Result> | Result,
  ): Promise<Result | Lease> {
    if (typeof options === "function")
      throw new TypeError("hold: the work comes after the options: hold(name, {}, work)");
    refuseUnknown("hold", options);
    const lease = await this.#take(name, options);
    return work === undefined ? lease : workUnder(lease, work);
  }

  async #take(name: string, options: HoldOptions): Promise<Lease> {
    const { renewIn = "event-loop" } = options;
    if (renewIn !== "worker" && renewIn !== "event-loop")
      throw new TypeError(`renewIn must be "worker" or "event-loop": got ${String(renewIn)}`);
    const renewals = renewIn === "worker" ? await this.#renewalsInWorker() : null;
    const begunAt = Date.now();
    const { reply, sentAt } = await this.locks.acquireFrom(name, options);
    if (reply.status !== "acquired")
      throw new HeldError(heldBy(name, reply), options.wait === undefined ? 0 : Date.now() - begunAt);
    const { leaseId, renewAfterMs } = reply;
    const granted: Granted = { name, leaseId, renewAfterMs, sentAt };
    const state = new LeaseState();
    state.renewed(sentAt, reply.expiresInMs);
    let taken: Promise<void> | null = null;
    const lease = new Lease(reply, state, this.locks, (lost) => {
      if (renewals === null) {
        const renewal = new Renewal(this.#transport.options, granted, state, lost);
        return () => renewal.stop();
      }
      const keeping = renewals.keep(this.#transport.options, granted, state, lost);
      taken = keeping.taken;
      return keeping.stop;
    });
    await taken;
    return lease;
  }

  /** Loaded only where it is asked for: a page could not, and a bundler need not look at it. */
  async #renewalsInWorker(): Promise<Renewals> {
    if (this.#ownFetch)
      throw new TypeError('renewIn: "worker" needs the global fetch: another thread cannot use yours');
    const url = new URL("./node/renewals.js", import.meta.url).href;
    try {
      const { renewals } = (await import(url)) as { renewals: () => Promise<Renewals> };
      return await renewals();
    } catch (error) {
      const text = 'renewIn: "worker" needs Node, and this package as it was installed (not bundled)';
      throw new TypeError(`${text}: ${error instanceof Error ? error.message : error}`, { cause: error });
    }
  }

  /** Changes as they happen, over breaks of the connection. Begins with a snapshot, then `synced`. */
  watch(options: WatchOptions = {}): AsyncGenerator<WatchEvent, void, undefined> {
    refuseUnknown("watch", options);
    return watch(this.#transport, options);
  }

  claimJob(jobId: string, options?: ClaimOptions): ReturnType<Jobs["claim"]> {
    return this.jobs.claim(jobId, options);
  }

  heartbeatJob(...args: Parameters<Jobs["heartbeat"]>): ReturnType<Jobs["heartbeat"]> {
    return this.jobs.heartbeat(...args);
  }

  releaseJob(...args: Parameters<Jobs["release"]>): ReturnType<Jobs["release"]> {
    return this.jobs.release(...args);
  }

  getJobOwner(...args: Parameters<Jobs["owner"]>): ReturnType<Jobs["owner"]> {
    return this.jobs.owner(...args);
  }

  listClaimedJobs(query?: ListJobsQuery): ReturnType<Jobs["list"]> {
    return this.jobs.list(query);
  }

  /** Who this token is, and what it may do. */
  async whoami(options: CallSignal = {}): Promise<WhoAmI> {
    refuseUnknown("whoami", options);
    return this.#transport.ask<WhoAmI>({
      method: "GET",
      path: "/whoami",
      signal: options.signal,
      expects: ["principal", "space", "role", "scopes"],
    });
  }
}

export const createClient = (options: ClientOptions): Client => new Client(options);

async function workUnder<Result>(
  lease: Lease,
  work: (lease: Lease) => Promise<Result> | Result,
): Promise<Result> {
  try {
    lease.assertHeld();
    const result = await work(lease);
    if (!lease.released) lease.assertHeld();
    return result;
  } finally {
    // What cannot be released now ends by itself; the work's own outcome matters more.
    await lease.release().catch(() => undefined);
  }
}

export function heldBy(name: string, reply: Exclude<Held | Delayed | Acquired, Acquired>): HeldBy {
  if (reply.status === "delayed")
    return {
      resource: name,
      principal: null,
      owner: null,
      since: null,
      expiresAt: reply.availableAt,
      metadata: null,
      position: null,
      waiters: 0,
    };
  const { holder, expiresAt, metadata, position, waiters } = reply;
  return {
    resource: name,
    principal: holder.principal,
    owner: holder.owner ?? null,
    since: holder.since,
    expiresAt,
    metadata,
    position: position ?? null,
    waiters,
  };
}

/** Keeps leases alive elsewhere than on this event loop. */
interface Renewals {
  keep(
    options: TransportOptions,
    granted: Granted,
    state: LeaseState,
    lost: (why: string) => void,
  ): { readonly taken: Promise<void>; readonly stop: () => void };
}
