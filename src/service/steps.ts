/**
 * The one way to change anything: a step is a transact whose decision may serve waiters. Waiters that a step
 * grants are reserved while it is on its way, told when it is durable, and put back if it certainly failed.
 */
import type { Decision, View } from "../core/decision.js";
import type { Heir, Successors } from "../core/heirs.js";
import { type Key, sortableInstant } from "../core/keys.js";
import type { Claim } from "../core/lease.js";
import { type Store, StoreError } from "../store/store.js";
import type { Queues, Waiter } from "./queues.js";

export interface StepEvents {
  /** Something becomes due, or can be cleaned up, at this instant. */
  readonly due: (index: "due" | "gc", at: number) => void;
  /** A grant went to a waiter that is no longer there. */
  readonly ghost: (heir: Heir) => void;
  /** A node can be taken from now on: its place in the index. */
  readonly ready: (sort: string) => void;
  /** What was decided may not have been written: nothing that was concluded from it holds. */
  readonly failed: () => void;
  /** A waiter that was to be served was not, because the step was decided anew. */
  readonly unserved: (claim: Claim) => void;
}

export const heirsOf = (reply: { readonly heirs: readonly Heir[] }): readonly Heir[] => reply.heirs;

export class Steps {
  constructor(
    readonly store: Store,
    readonly queues: Queues,
    readonly tell: StepEvents,
  ) {}

  /** Runs a decision, then tells the waiters whose wait it ended. */
  run<Reply>(
    keys: readonly Key[],
    decide: (view: View, successors: Successors) => Decision<Reply>,
    heirsOf: (reply: Reply) => readonly Heir[],
  ): Promise<Reply> {
    const offered: Waiter[] = [];
    const passed = new Set<Waiter>();
    const deciding = (view: View): Decision<Reply> => {
      for (const waiter of offered) passed.add(waiter);
      this.#withdraw(offered);
      offered.length = 0;
      const decision = decide(view, this.queues.successors);
      if ("need" in decision) return decision;
      for (const heir of heirsOf(decision.reply)) this.#offer(heir, offered);
      this.#notice(decision.writes);
      return decision;
    };
    // Chained, not awaited: this runs on every request, and each await would cost it another turn.
    return this.store.transact(this.#withLines(keys), deciding).then(
      (reply) => {
        if (offered.length > 0) for (const heir of heirsOf(reply)) this.#settle(heir, offered);
        for (const { claim } of passed) if (this.queues.of(claim) !== undefined) this.tell.unserved(claim);
        return reply;
      },
      (error: unknown) => {
        this.#failed(offered, error);
        throw error;
      },
    );
  }

  /** On a cluster whoever looks at a name looks at its line. */
  #withLines(keys: readonly Key[]): readonly Key[] {
    if (this.queues.peerId === null) return keys;
    return keys.flatMap((key) =>
      key.startsWith("lock/") ? [key, `line/${key.slice("lock/".length)}`] : [key],
    );
  }

  #offer(heir: Heir, offered: Waiter[]): void {
    const waiter = this.queues.of(heir.claim);
    // One that another step offers to already is that one's to serve, and to put back.
    if (waiter === undefined || waiter.presence === "offered") return;
    waiter.presence = "offered";
    offered.push(waiter);
  }

  #notice(
    writes: readonly { readonly add: readonly { readonly index: string; readonly sort: string }[] }[],
  ): void {
    for (const { add } of writes)
      for (const { index, sort } of add)
        if (index === "due" || index === "gc") this.tell.due(index, Number(sort.slice(0, instantWidth)));
        else if (index === "ready") this.tell.ready(sort);
  }

  /** One that another step has served meanwhile was told of the same lease. One that has left was told of none. */
  #settle(heir: Heir, offered: readonly Waiter[]): void {
    const waiter = offered.find(({ claim }) => claim === heir.claim);
    if (waiter === undefined || waiter.isServed) return;
    const hasLeft = this.queues.of(heir.claim) === undefined;
    this.queues.leave(waiter, true);
    if (waiter.gone || hasLeft) this.tell.ghost(heir);
    else waiter.settle(heir.outcome);
  }

  /** Certainly not done: they wait on. Maybe done: they must ask again with their request id. */
  #failed(offered: readonly Waiter[], error: unknown): void {
    this.tell.failed();
    this.#withdraw(offered);
    if (!(error instanceof StoreError) || error.kind !== "unknown") return;
    for (const waiter of offered) {
      // The request id keeps the place: if it turns out not to be done, whoever was first is still first.
      this.queues.abandon(waiter);
      waiter.settle(error);
    }
  }

  /** They are in line again; those who have left meanwhile, as if they had left just now. */
  #withdraw(offered: readonly Waiter[]): void {
    for (const waiter of offered) {
      if (waiter.presence !== "offered") continue;
      waiter.presence = "present";
      if (waiter.gone) this.queues.abandon(waiter);
    }
  }
}

const instantWidth = sortableInstant(0).length;
