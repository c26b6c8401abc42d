/**
 * Handing out work: the best free node, at once or as soon as there is one. Nobody polls.
 *
 * - A worker is a call that waits. It looks when it comes, when it is woken, and once more when its time is up: `empty` is
 *   what that last look found. It is among those who wait before it looks, so that nothing slips through in between.
 * - A node that becomes free wakes one worker that may take it, the first that is not looking; if all of them look, one of
 *   those looks again. That worker owes the node a look which began after it became free. The debt is settled if such a
 *   look finds nothing, for then the node is free no more, or takes the node. In every other case (the worker took another
 *   node, was answered with a claim it had, was refused, failed, left, or its time was up) the node is the next one's.
 *   So while somebody waits for a free node, somebody looks for it: a wake-up cannot be lost.
 * - After a restore nothing is granted for a while: who waits, waits that out, and all are woken at its end.
 * - A ticket is a request id of a principal. Calls with the same one are one request: once one of them is granted work, all
 *   of them look again and are answered with that claim, never with another.
 * - A claim that its worker did not hear of is given back (see unheard-claims.ts), which wakes the next one as any node does
 *   that becomes free.
 *
 * A call that does not wait may pass those who do: they wait for any work, not for this one.
 */

import { rangeMax } from "../core/limits.js";
import type { Claimed } from "../core/nodes/claim.js";
import type { GiveBack } from "../core/nodes/give-back.js";
import { decideNext, type NextCall, nextKeys } from "../core/nodes/next.js";
import { readyPrefix } from "../core/nodes/rank.js";
import type { NodeEvent } from "../core/nodes/records.js";
import type { NodeRefusal } from "../core/nodes/refusal.js";
import type { Stop, Timer } from "../store/clock.js";
import { StoreError } from "../store/store.js";
import type { Leases } from "./leases.js";
import type { NodeScope, Place } from "./ready-places.js";
import { stoppedError } from "./stopped.js";
import { ticketOf, UnheardClaims } from "./unheard-claims.js";
import type { Wait } from "./waiting.js";

export interface NextAsk extends Omit<NextCall, "from" | "rows" | "accepts"> {
  /** Which nodes the caller may touch; null: all. */
  readonly scope: NodeScope | null;
}
export type NextOutcome = Claimed | NodeRefusal | { readonly empty: true };

/** Places that are looked at first where some may be passed over; then as many at a time as a step may read. */
const firstRows = 8;
/** Debts of one worker that are told apart. With more of them everybody looks. */
const owedMax = 128;

interface Worker {
  readonly ask: NextAsk;
  /** What became free since its last look began, and is its to look for. */
  owed: NodeEvent[];
  /** It looks again, for a reason that is its alone. */
  again: boolean;
  looking: boolean;
  /** It does not wait any longer: the look that began after its time was up is its last. */
  ending: "time" | "stop" | null;
  readonly settle: (outcome: NextOutcome | Error) => void;
}

export class NextWork {
  /** In the order of arrival. */
  readonly #workers = new Set<Worker>();
  readonly #byTicket = new Map<string, Set<Worker>>();
  /** How many of them are one caller's. */
  readonly #perPrincipal = new Map<string, number>();
  readonly #unheard: UnheardClaims;
  #endOfQuiet: { readonly at: number; readonly stop: Stop } | null = null;

  constructor(
    readonly leases: Leases,
    giveBack: (call: GiveBack) => Promise<unknown>,
    readonly after: Timer,
  ) {
    const { queues, stopping, report } = leases;
    this.#unheard = new UnheardClaims(giveBack, queues.limits.ticketMs, stopping, report, after);
    leases.whenReady = (event) => (event === null ? this.#wakeAll() : this.#offer(event));
    stopping.addEventListener("abort", () => this.#endOfQuiet?.stop());
  }

  /** How many wait for work. */
  get waiting(): number {
    return this.#workers.size;
  }

  next(ask: NextAsk, wait: Wait | null): Promise<NextOutcome> {
    const ticket = ticketOf(ask);
    const run = (): Promise<NextOutcome> => this.#answer(ask, wait);
    return ticket === null ? run() : this.#unheard.asking(ticket, run);
  }

  async #answer(ask: NextAsk, wait: Wait | null): Promise<NextOutcome> {
    const outcome = await (wait === null || wait.ms <= 0 ? this.#look(ask) : this.#lookOrWait(ask, wait));
    if ("refused" in outcome) this.leases.counters.refused++;
    else if ("edge" in outcome) this.#unheard.told(ask, outcome);
    return outcome;
  }

  /** The reply could not be written. */
  unheard(ask: NextAsk, claimed: Claimed): void {
    this.#unheard.lost(ask, claimed);
  }

  #lookOrWait(ask: NextAsk, wait: Wait): Promise<NextOutcome> {
    const { waitersMax, waitersPerPrincipalMax } = this.leases.queues.limits;
    if (this.#workers.size >= waitersMax)
      throw new StoreError("unavailable", `${waitersMax} workers wait already: try again later`);
    if ((this.#perPrincipal.get(callerOf(ask)) ?? 0) >= waitersPerPrincipalMax)
      throw new StoreError("unavailable", `${waitersPerPrincipalMax} of your calls wait for work already`);
    return new Promise((resolve, reject) => {
      const { stopping } = this.leases;
      const settle = (outcome: NextOutcome | Error): void => {
        if (!this.#leave(worker)) return;
        stopTimer();
        wait.gone.removeEventListener("abort", gone);
        stopping.removeEventListener("abort", stopped);
        if (outcome instanceof Error) reject(outcome);
        else resolve(outcome);
      };
      const worker: Worker = { ask, owed: [], again: false, looking: false, ending: null, settle };
      const gone = (): void => settle(new StoreError("unavailable", "the caller left"));
      const stopped = (): void => this.#stop(worker);
      const stopTimer = this.after(wait.ms, () => {
        worker.ending ??= "time";
        this.#again(worker);
      });
      wait.gone.addEventListener("abort", gone, { once: true });
      stopping.addEventListener("abort", stopped, { once: true });
      this.#join(worker);
      if (stopping.aborted) stopped();
      else if (wait.gone.aborted) gone();
      else void this.#serve(worker);
    });
  }

  #join(worker: Worker): void {
    const ticket = ticketOf(worker.ask);
    this.#workers.add(worker);
    this.#countWaiting(callerOf(worker.ask), 1);
    if (ticket === null) return;
    const mates = this.#byTicket.get(ticket);
    if (mates === undefined) this.#byTicket.set(ticket, new Set([worker]));
    else mates.add(worker);
  }

  /** False: it had left already. */
  #leave(worker: Worker): boolean {
    if (!this.#workers.delete(worker)) return false;
    this.#countWaiting(callerOf(worker.ask), -1);
    const ticket = ticketOf(worker.ask) ?? "";
    const mates = this.#byTicket.get(ticket);
    mates?.delete(worker);
    if (mates?.size === 0) this.#byTicket.delete(ticket);
    return true;
  }

  #countWaiting(who: string, by: 1 | -1): void {
    const count = (this.#perPrincipal.get(who) ?? 0) + by;
    if (count === 0) this.#perPrincipal.delete(who);
    else this.#perPrincipal.set(who, count);
  }

  /** A look that is on its way may be granted something: only its end tells what came of it. */
  #stop(worker: Worker): void {
    worker.ending = "stop";
    if (!worker.looking) worker.settle(stoppedError(this.leases.stopping));
  }

  #again(worker: Worker): void {
    worker.again = true;
    if (!worker.looking) void this.#serve(worker);
  }

  #wakeAll(): void {
    for (const worker of [...this.#workers]) this.#again(worker);
  }

  /** Makes one worker look for what became free. Nobody that waits may take it: then nobody need. */
  #offer(event: NodeEvent): void {
    let busy: Worker | null = null;
    for (const worker of this.#workers) {
      if (worker.ending !== null || !isFor(worker.ask, event)) continue;
      if (!worker.looking) {
        worker.owed.push(event);
        void this.#serve(worker);
        return;
      }
      busy ??= worker;
    }
    if (busy !== null) busy.owed.push(event);
  }

  /** What a worker owed and did not settle is the next one's. */
  #passOn(owed: readonly NodeEvent[]): void {
    if (owed.length > owedMax) this.#wakeAll();
    else for (const event of owed) this.#offer(event);
  }

  async #serve(worker: Worker): Promise<void> {
    worker.looking = true;
    for (;;) {
      const { owed } = worker;
      const isLast = worker.ending !== null;
      worker.owed = [];
      worker.again = false;
      const outcome = await this.#lookFor(worker);
      const isWaiting = this.#workers.has(worker);
      if (isWaiting && isInVain(outcome)) {
        if (worker.ending === null) {
          if (worker.owed.length > 0 || worker.again) continue;
          worker.looking = false;
          return;
        }
        // Its time was up while it looked.
        if (!isLast && worker.ending === "time") continue;
        worker.settle(worker.ending === "stop" ? stoppedError(this.leases.stopping) : outcome);
        this.#passOn(worker.owed);
        return;
      }
      worker.settle(outcome);
      const claimed = "edge" in outcome ? outcome : null;
      if (!isWaiting && claimed !== null) this.unheard(worker.ask, claimed);
      this.#passOn([...owed, ...worker.owed].filter(({ id }) => id !== claimed?.node.id));
      return;
    }
  }

  /** A failure is an outcome like any other: what comes after it is the same. */
  async #lookFor(worker: Worker): Promise<NextOutcome | Error> {
    try {
      return await this.#look(worker.ask, () => this.#workers.has(worker));
    } catch (error) {
      // It may have been granted all the same.
      this.#wakeMates(worker.ask);
      return error instanceof Error ? error : new Error(String(error));
    }
  }

  /** Goes through the queue until there is something for this caller, or nothing more; or until nobody wants it any more. */
  async #look(ask: NextAsk, isWanted = (): boolean => true): Promise<NextOutcome> {
    const { readyPlaces } = this.leases;
    const { scope } = ask;
    const prefix = readyPrefix(ask.space, ask.type);
    const accepts = scope?.covers ?? null;
    const place = readyPlaces.enter(prefix, scope);
    try {
      return await this.#lookFrom(place, { ...ask, accepts }, isWanted);
    } finally {
      readyPlaces.leave(place);
    }
  }

  async #lookFrom(
    shared: Place,
    ask: NextAsk & Pick<NextCall, "accepts">,
    isWanted: () => boolean,
  ): Promise<NextOutcome> {
    const { policy, store, stopping } = this.leases;
    // Where other nodes put work, too, what this one has seen says nothing about what is there.
    const isKnown = store.facts.order === "node";
    const place = isKnown ? shared : { at: shared.prefix };
    for (let rows = firstRows; isWanted(); rows = rangeMax) {
      const reply = await this.leases.run(nextKeys({ ...ask, from: place.at, rows }), (view) => {
        const decision = decideNext(view, { ...ask, from: place.at, rows }, policy);
        // At once: what is put before it later moves it back, and this look goes back there, too.
        if (isKnown && !("need" in decision)) place.at = decision.reply.next;
        return decision;
      });
      const { outcome } = reply;
      if ("edge" in outcome && outcome.holding.lock.lease.id === ask.leaseId) this.#wakeMates(ask);
      if ("refused" in outcome && outcome.refused === "delayed") this.#waitOutQuiet(outcome.availableAt);
      if (!("empty" in outcome) || !reply.more) return outcome;
      if (stopping.aborted) throw stoppedError(stopping);
      if (!isKnown) place.at = reply.next;
    }
    return { empty: true };
  }

  /** The same request got its answer: all who made it are told. */
  #wakeMates(ask: NextAsk): void {
    for (const mate of this.#byTicket.get(ticketOf(ask) ?? "") ?? []) this.#again(mate);
  }

  /** No record becomes due when a restored server may grant again. */
  #waitOutQuiet(at: number): void {
    // The earliest counts: whoever must wait longer finds that out when it looks again.
    if (this.#endOfQuiet !== null && this.#endOfQuiet.at <= at) return;
    this.#endOfQuiet?.stop();
    const stop = this.after(at - this.leases.store.now() + 1, () => {
      this.#endOfQuiet = null;
      this.#wakeAll();
    });
    this.#endOfQuiet = { at, stop };
  }
}

const callerOf = ({ space, principal }: NextAsk): string => `${space}/${principal}`;

/** Nothing can be taken now: whoever may wait, waits. */
const isInVain = (outcome: NextOutcome | Error): boolean =>
  "empty" in outcome || ("refused" in outcome && outcome.refused === "delayed");

const isFor = (ask: NextAsk, event: NodeEvent): boolean =>
  ask.space === event.space &&
  (ask.type === null || ask.type === event.nodeType) &&
  (ask.scope === null || ask.scope.covers(event.id));
