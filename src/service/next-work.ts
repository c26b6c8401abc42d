/**
 * Handing out work: the best free node, at once or as soon as there is one. Nobody polls: each node that becomes free
 * wakes one who waits for such a node. A claim that its worker can no longer hear of is given back.
 */

import type { Claimed, NodeCall } from "../core/nodes/claim.js";
import { decideNext, type NextCall, nextKeys } from "../core/nodes/next.js";
import { readyPrefix } from "../core/nodes/rank.js";
import type { NodeEvent } from "../core/nodes/records.js";
import type { NodeRefusal } from "../core/nodes/refusal.js";
import type { Stop, Timer } from "../store/clock.js";
import { StoreError } from "../store/store.js";
import type { Leases } from "./leases.js";
import type { Wait } from "./waiting.js";

export type NextAsk = Omit<NextCall, "from">;
export type NextOutcome = Claimed | NodeRefusal | { readonly empty: true };

/** Pages of the queue that one call looks through for something that its token may touch. */
const pagesMax = 64;

/** A claim that nobody has heard of yet. */
interface Ghost {
  readonly principal: string;
  /** Who may still ask for it, with the same request id. */
  readonly ticket: string;
  readonly stop: Stop;
  readonly giveBack: () => void;
}

interface Worker {
  readonly ask: NextAsk;
  /** Looks for work right now. */
  looking: boolean;
  /** Something became free meanwhile. */
  again: boolean;
  readonly settle: (outcome: NextOutcome | Error) => void;
}

export class NextWork {
  /** In the order of arrival. */
  readonly #workers = new Set<Worker>();
  /** How many of them are one caller's. */
  readonly #perPrincipal = new Map<string, number>();
  /** Claims that nobody has heard of yet, by node: given back unless they are asked for again. */
  readonly #ghosts = new Map<string, Ghost>();

  constructor(
    readonly leases: Leases,
    readonly giveBack: (call: NodeCall) => Promise<unknown>,
    readonly after: Timer,
  ) {
    leases.whenReady = (event) => this.#wake(event);
    leases.stopping.addEventListener("abort", () => {
      // The next process knows nothing of them.
      for (const ghost of [...this.#ghosts.values()]) {
        ghost.stop();
        ghost.giveBack();
      }
    });
  }

  /** How many wait for work. */
  get waiting(): number {
    return this.#workers.size;
  }

  async next(ask: NextAsk, wait: Wait | null): Promise<NextOutcome> {
    if (ask.request !== null) this.#askedAgain(ticketOf(ask.space, ask.principal, ask.request.id));
    const outcome = await (wait === null || wait.ms <= 0 ? this.#look(ask) : this.#lookOrWait(ask, wait));
    if ("refused" in outcome) this.leases.counters.refused++;
    else if ("edge" in outcome && outcome.status === "claimed") this.leases.counters.granted++;
    return outcome;
  }

  #lookOrWait(ask: NextAsk, wait: Wait): Promise<NextOutcome> {
    const { waitersMax, waitersPerPrincipalMax } = this.leases.queues.limits;
    const who = `${ask.space}/${ask.principal}`;
    if (this.#workers.size >= waitersMax)
      throw new StoreError("unavailable", `${waitersMax} workers wait already: try again later`);
    if ((this.#perPrincipal.get(who) ?? 0) >= waitersPerPrincipalMax)
      throw new StoreError("unavailable", `${waitersPerPrincipalMax} of your calls wait for work already`);
    return new Promise((resolve, reject) => {
      const { stopping } = this.leases;
      const settle = (outcome: NextOutcome | Error): void => {
        if (!this.#workers.delete(worker)) return;
        this.#countWaiting(who, -1);
        stopTimer();
        wait.gone.removeEventListener("abort", leave);
        stopping.removeEventListener("abort", stop);
        if (outcome instanceof Error) reject(outcome);
        else resolve(outcome);
      };
      const worker: Worker = { ask, looking: false, again: false, settle };
      const leave = (): void => settle(new StoreError("unavailable", "the caller left"));
      const stop = (): void => settle(new StoreError("unavailable", "the server is stopping"));
      const stopTimer = this.after(wait.ms, () => settle({ empty: true }));
      wait.gone.addEventListener("abort", leave, { once: true });
      stopping.addEventListener("abort", stop, { once: true });
      this.#workers.add(worker);
      this.#countWaiting(who, 1);
      if (stopping.aborted) stop();
      else if (wait.gone.aborted) leave();
      else void this.#serve(worker);
    });
  }

  #countWaiting(who: string, by: 1 | -1): void {
    const count = (this.#perPrincipal.get(who) ?? 0) + by;
    if (count === 0) this.#perPrincipal.delete(who);
    else this.#perPrincipal.set(who, count);
  }

  /** One that can take it, and does not look already, looks; those who do look again if they find nothing. */
  #wake(event: NodeEvent | null): void {
    for (const worker of [...this.#workers]) {
      if (event !== null && !isFor(worker.ask, event)) continue;
      if (worker.looking) worker.again = true;
      else {
        void this.#serve(worker);
        if (event !== null) return;
      }
    }
  }

  async #serve(worker: Worker): Promise<void> {
    worker.looking = true;
    try {
      do {
        worker.again = false;
        const outcome = await this.#look(worker.ask);
        if ("empty" in outcome) continue;
        if (this.#workers.has(worker)) worker.settle(outcome);
        else if ("edge" in outcome) this.unheard(worker.ask, outcome);
        return;
      } while (worker.again && this.#workers.has(worker));
    } catch (error) {
      worker.settle(error instanceof Error ? error : new Error(String(error)));
      // What woke this one may be there still.
      this.#wake(null);
    } finally {
      worker.looking = false;
    }
  }

  async #look(ask: NextAsk): Promise<NextOutcome> {
    const { readyPlaces, policy, store } = this.leases;
    const prefix = readyPrefix(ask.space, ask.type);
    let from = prefix;
    for (let page = 0; page < pagesMax; page++) {
      const reply = await this.leases.run(nextKeys({ ...ask, from }), (view) => {
        // Who may touch only some passes over the others: what it sees says nothing about those.
        const isShared = ask.accepts === null && store.facts.order === "node";
        const decision = decideNext(
          view,
          { ...ask, from: isShared ? readyPlaces.from(prefix) : from },
          policy,
        );
        if (isShared && !("need" in decision)) readyPlaces.passed(prefix, decision.reply.next);
        return decision;
      });
      if (!("empty" in reply.outcome) || !reply.more) return reply.outcome;
      from = reply.next;
    }
    return { empty: true };
  }

  /** The reply could not be written. Whoever may repeat its request has a while for it. */
  unheard({ space, principal, request, leaseId }: NextAsk, { node, holding }: Claimed): void {
    // A repeat found a claim that was told before: its holder may be at work.
    if (holding.lock.lease.id !== leaseId) return;
    const { id, claim } = node;
    const place = `${space}/${id}`;
    const giveBack = (): void => {
      this.#ghosts.delete(place);
      this.giveBack({ space, principal, id, session: null, token: claim.token }).catch((error: unknown) =>
        this.leases.report("giving work back failed; its claim will expire", error),
      );
    };
    if (request === null || this.leases.stopping.aborted) {
      giveBack();
      return;
    }
    this.#ghosts.get(place)?.stop();
    const stop = this.after(this.leases.queues.limits.ticketMs, giveBack);
    this.#ghosts.set(place, {
      principal,
      ticket: ticketOf(space, principal, request.id),
      stop,
      giveBack,
    });
  }

  /** Whoever speaks of its own node has heard of it. */
  heardOf(space: string, principal: string, id: string): void {
    const place = `${space}/${id}`;
    const ghost = this.#ghosts.get(place);
    if (ghost?.principal === principal) this.#keep(place, ghost);
  }

  #askedAgain(ticket: string): void {
    for (const [place, ghost] of this.#ghosts) if (ghost.ticket === ticket) this.#keep(place, ghost);
  }

  #keep(place: string, ghost: Ghost): void {
    ghost.stop();
    this.#ghosts.delete(place);
  }
}

export const ticketOf = (space: string, principal: string, requestId: string): string =>
  `${space}/${principal}/${requestId}`;

const isFor = (ask: NextAsk, event: NodeEvent): boolean =>
  ask.space === event.space &&
  (ask.type === null || ask.type === event.nodeType) &&
  (ask.accepts === null || ask.accepts(event.id));
