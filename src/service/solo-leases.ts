/**
 * Leases without a server: a process asks the store for itself, beside others that know nothing of it. Nobody can hand a
 * name over to it, so whoever waits looks again, ever more slowly and never in step with the others; there is no line
 * to stand in. A step changes one name. No lease rule is here; they are in core/.
 */
import { decideAcquire } from "../core/acquire.js";
import type { Decision, Range, View } from "../core/decision.js";
import { acquireKeys } from "../core/heirs.js";
import { decideInspect, type InspectReply } from "../core/inspect.js";
import { afterPrefix, everySpace, floorKey, type Key, lockKey, sortable } from "../core/keys.js";
import { type Claim, endOf, holdingOf } from "../core/lease.js";
import { type Policy, rangeMax } from "../core/limits.js";
import type { Holding, Refusal } from "../core/refusal.js";
import { decideRelease, type Release, type ReleaseReply } from "../core/release.js";
import {
  decideExtend,
  decideRenew,
  type LeaseCall,
  leaseCallKeys,
  type Renewal,
  type RenewReply,
} from "../core/renew.js";
import { decideClean } from "../core/sweep.js";
import { SeveralNamesError, type Store, StoreError } from "../store/store.js";

/** Pauses between two looks of one who waits, in ms: soon at first, then at least this often. */
const pauseFirstMs = 100;
const pauseMaxMs = 2000;
/** Names that are over and in the way are settled this often before a step is given up as contended. */
const settleRoundsMax = 8;

export interface SoloWait {
  readonly ms: number;
  /** Aborted when nobody listens any more. */
  readonly gone: AbortSignal;
  /** Of a wait that takes several calls: its pauses go on growing from one to the next. */
  readonly pace?: Pace;
}

/** How one who waits looks: how often it has, and when it is to look again. */
export interface Pace {
  looks: number;
  nextAt: number;
}

export type SoloAcquired = { readonly granted: Holding } | Refusal;

/** Calls of this process under way for one lease: a request, and repeats of it. */
interface Asking {
  calls: number;
  /** One of them was granted it; else it is older than they are. */
  isNew: boolean;
  /** One of them was told so. */
  isTold: boolean;
}

export class SoloLeases {
  /** By lease. */
  readonly #asking = new Map<string, Asking>();

  constructor(
    readonly store: Store,
    readonly policy: Policy,
    /** From 0 to 1; spreads those who look at the same name. */
    readonly chance: () => number = Math.random,
  ) {}

  /**
   * Acquires, looking again for as long as asked to. A grant that nobody listens to any more is given back, unless it is
   * one that a repeat of the request was told of, or may yet be.
   */
  async acquire(claim: Claim, wait: SoloWait | null): Promise<SoloAcquired> {
    const asking = this.#asking.get(claim.leaseId) ?? { calls: 0, isNew: false, isTold: false };
    this.#asking.set(claim.leaseId, asking);
    asking.calls++;
    try {
      const outcome = await this.#acquireWithin(claim, wait, asking);
      if (wait?.gone.aborted !== true) {
        asking.isTold ||= "granted" in outcome;
        return outcome;
      }
    } finally {
      if (--asking.calls === 0) this.#asking.delete(claim.leaseId);
    }
    if (asking.calls === 0 && asking.isNew && !asking.isTold) await this.#giveBack(claim);
    throw new StoreError("unavailable", "the caller left");
  }

  async #acquireWithin(claim: Claim, wait: SoloWait | null, asking: Asking): Promise<SoloAcquired> {
    const until = this.store.now() + (wait?.ms ?? 0);
    const pace = wait?.pace ?? { looks: 0, nextAt: 0 };
    for (;;) {
      if (wait !== null) await pause(Math.min(until, pace.nextAt) - this.store.now(), wait.gone);
      const outcome = await this.#acquireNow(claim, asking);
      if (wait?.gone.aborted === true) return outcome;
      pace.nextAt = this.store.now() + this.#pauseMs(pace.looks++, outcome);
      if (wait === null || until <= this.store.now() || !isWaitable(outcome)) return outcome;
    }
  }

  async renew(call: Renewal): Promise<RenewReply["outcome"]> {
    const { outcome } = await this.#step(call.name, leaseCallKeys(call), (view) =>
      decideRenew(view, call, this.policy),
    );
    return outcome;
  }

  async extend(call: LeaseCall & { readonly ttlMs: number }): Promise<RenewReply["outcome"]> {
    const { outcome } = await this.#step(call.name, leaseCallKeys(call), (view) =>
      decideExtend(view, call, this.policy),
    );
    return outcome;
  }

  async release(call: Release): Promise<ReleaseReply["outcome"]> {
    const { outcome } = await this.#step(call.name, leaseCallKeys(call), (view) =>
      decideRelease(view, call, this.policy),
    );
    return outcome;
  }

  /** One name; a lease that is over is settled by looking at it. */
  inspect(space: string, name: string): Promise<InspectReply> {
    return this.store.transact([lockKey(space, name), floorKey(space), floorKey(everySpace)], (view) =>
      decideInspect(view, space, name, this.policy),
    );
  }

  /** Held names in order. One that is over is left out though nobody has settled it: looking writes nothing. */
  async list(space: string, prefix: string): Promise<Holding[]> {
    const from = `${space}/${sortable(prefix)}`;
    const holdings: Holding[] = [];
    for await (const { record } of this.#rows({
      index: "held",
      from,
      to: afterPrefix(from),
      limit: rangeMax,
    })) {
      const now = this.store.now();
      if (record.kind === "lock" && record.lease !== null && endOf(record.lease, null) >= now)
        holdings.push(holdingOf(record, null, now));
    }
    return holdings;
  }

  /** Settles what is over and removes what was free for long enough; tokens go on rising. */
  async clean(space: string): Promise<{ readonly settled: number; readonly removed: number }> {
    let settled = 0;
    const from = `${space}/`;
    for await (const { record } of this.#rows({
      index: "held",
      from,
      to: afterPrefix(from),
      limit: rangeMax,
    })) {
      if (record.kind !== "lock" || record.lease === null) continue;
      if (endOf(record.lease, null) >= this.store.now()) continue;
      const { holding } = await this.inspect(space, record.name);
      if (holding === null) settled++;
    }
    let removed = 0;
    for (let more = true; more; ) {
      const reply = await this.store.transact([], (view) => decideClean(view, this.policy, "", 1));
      removed += reply.removed;
      more = reply.more;
    }
    return { settled, removed };
  }

  /**
   * A repeat is answered with a renewed lease: how much is left of what another process was granted, perhaps before the
   * machine was started anew, is known to nobody.
   */
  async #acquireNow(claim: Claim, asking: Asking): Promise<SoloAcquired> {
    for (let round = 0; round < settleRoundsMax; round++) {
      const { outcome } = await this.#step(claim.name, acquireKeys(claim), (view) =>
        decideAcquire(view, claim, this.policy),
      );
      if ("refused" in outcome) return outcome;
      if (outcome.how === "new") asking.isNew = true;
      if (outcome.how !== "repeat") return outcome;
      const { space, name, principal } = claim;
      const leaseId = outcome.granted.lock.lease.id;
      const again = await this.renew({ space, name, principal, leaseId, ttlMs: null });
      if ("renewed" in again) return { granted: again.renewed };
    }
    throw new StoreError("contended", `${claim.name} kept changing; try again`);
  }

  /** Other names that are over and would be settled in the same step are settled first, each in its own. */
  async #step<Reply>(
    name: string,
    keys: readonly Key[],
    decide: (view: View) => Decision<Reply>,
  ): Promise<Reply> {
    for (let round = 0; round < settleRoundsMax; round++) {
      try {
        return await this.store.transact(keys, decide);
      } catch (error) {
        if (!(error instanceof SeveralNamesError)) throw error;
        for (const other of error.locks) if (other.name !== name) await this.inspect(other.space, other.name);
      }
    }
    throw new StoreError("contended", `names that overlap ${name} kept changing; try again`);
  }

  /** Not before it can be over, where that is soon. */
  #pauseMs(look: number, outcome: SoloAcquired): number {
    const jitter = 0.5 + this.chance() / 2;
    const pauseMs = Math.min(pauseMaxMs, pauseFirstMs * 2 ** Math.min(look, 10)) * jitter;
    const endsAt =
      "refused" in outcome && outcome.refused === "held"
        ? outcome.holding.expiresAt
        : "refused" in outcome && outcome.refused === "delayed"
          ? outcome.availableAt
          : null;
    const leftMs = endsAt === null ? pauseMs : endsAt - this.store.now() + 1;
    return Math.max(1, Math.min(pauseMs, leftMs));
  }

  async #giveBack({ space, name, principal, leaseId }: Claim): Promise<void> {
    await this.release({ space, name, principal, leaseId, outcome: null, note: null, repeatable: true });
  }

  async *#rows(range: Range): AsyncGenerator<Awaited<ReturnType<Store["list"]>>[number]> {
    let { from } = range;
    for (;;) {
      const rows = await this.store.list({ ...range, from });
      yield* rows;
      const last = rows.at(-1);
      if (last === undefined || rows.length < range.limit) return;
      from = `${last.sort}\u0000`;
    }
  }
}

const isWaitable = (outcome: SoloAcquired): boolean =>
  "refused" in outcome && (outcome.refused === "held" || outcome.refused === "delayed");

/** Ends early when the signal aborts. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (ms <= 0) return resolve();
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done, { once: true });
    if (signal.aborted) done();
  });
}
