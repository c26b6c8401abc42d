/**
 * Claims of work whose caller may not have heard of them. A call for the next work that was granted and whose reply could
 * not be written leaves a claim that nobody knows of. It is given back:
 *
 * - at once, if the call had no request id: nobody can ask for it again;
 * - else when the ticket has run out, unless a repeat of the request was told of it. A repeat whose reply was lost as well
 *   was not told. While a repeat is being answered nothing is given back, and a repeat that comes while it is being given
 *   back waits for the end of that: it is told of the claim or that it is over, never of one that is about to go;
 * - at once when the server stops, since the next process knows nothing of it.
 *
 * Whoever names the node in a call that succeeds has heard of it, too. That is for the rules to know (see `blind` in
 * core/nodes/): the step that gives back finds it, whatever else is on its way.
 */
import type { Claimed } from "../core/nodes/claim.js";
import type { GiveBack } from "../core/nodes/give-back.js";
import type { Stop, Timer } from "../store/clock.js";
import type { Report } from "../store/report.js";
import type { NextAsk } from "./next-work.js";

/** A claim that was granted to a request id, and who was told of it. */
interface Unheard {
  readonly call: Omit<GiveBack, "unheard">;
  readonly ticket: string;
  /** Calls whose replies are lost. */
  readonly lost: Set<string>;
  /** Repeats that were answered with it, and whose replies are not known to be lost. */
  told: number;
  stop: Stop;
}

export class UnheardClaims {
  /** By lease; each for as long as its ticket, counted from the last word about it. */
  readonly #claims = new Map<string, Unheard>();
  /** Calls that were answered with a claim that an earlier one was granted. */
  readonly #repeats = new WeakSet<NextAsk>();
  /** Tickets with calls under way, and how many. */
  readonly #asking = new Map<string, number>();
  /** What is being given back, by ticket. */
  readonly #leaving = new Map<string, Promise<unknown>>();

  constructor(
    readonly giveBack: (call: GiveBack) => Promise<unknown>,
    readonly ticketMs: number,
    readonly stopping: AbortSignal,
    readonly report: Report,
    readonly after: Timer,
  ) {
    stopping.addEventListener("abort", () => this.#endAll());
  }

  /** Runs a call for work that has this ticket. */
  async asking<Reply>(ticket: string, run: () => Promise<Reply>): Promise<Reply> {
    this.#asking.set(ticket, (this.#asking.get(ticket) ?? 0) + 1);
    try {
      await this.#leaving.get(ticket);
      return await run();
    } finally {
      const left = (this.#asking.get(ticket) ?? 1) - 1;
      if (left === 0) this.#asking.delete(ticket);
      else this.#asking.set(ticket, left);
      if (this.stopping.aborted) this.#endAll();
    }
  }

  /** The call is being answered with this claim. Of the one that was granted nothing need be known until that fails. */
  told(ask: NextAsk, claimed: Claimed): void {
    if (isGrantOf(ask, claimed)) return;
    this.#repeats.add(ask);
    this.#of(ask, claimed).told++;
  }

  /** The reply that told of the claim could not be written. */
  lost(ask: NextAsk, claimed: Claimed): void {
    if (ask.request === null) void this.#give({ ...callOf(ask, claimed), unheard: [ask.leaseId] });
    else {
      const unheard = this.#of(ask, claimed);
      if (this.#repeats.delete(ask)) unheard.told--;
      unheard.lost.add(ask.leaseId);
    }
    if (this.stopping.aborted) this.#endAll();
  }

  /** What is known of a claim. Its time begins again. */
  #of(ask: NextAsk, claimed: Claimed): Unheard {
    const { id } = claimed.holding.lock.lease;
    const ticket = ticketOf(ask) ?? "";
    const found = this.#claims.get(id);
    const unheard = found ?? { call: callOf(ask, claimed), ticket, lost: new Set(), told: 0, stop: noStop };
    this.#claims.set(id, unheard);
    this.#arm(id, unheard);
    return unheard;
  }

  #arm(lease: string, unheard: Unheard): void {
    unheard.stop();
    unheard.stop = this.after(this.ticketMs, () => {
      // Whoever asks right now will be told, or its reply will be lost in its turn.
      if (this.#asking.has(unheard.ticket)) this.#arm(lease, unheard);
      else this.#end(lease, unheard);
    });
  }

  /** There will be no later. */
  #endAll(): void {
    for (const [lease, unheard] of [...this.#claims])
      if (isDue(unheard) && !this.#asking.has(unheard.ticket)) this.#end(lease, unheard);
  }

  #end(lease: string, unheard: Unheard): void {
    const { call, ticket, lost, stop } = unheard;
    stop();
    this.#claims.delete(lease);
    if (!isDue(unheard)) return;
    const leaving = this.#give({ ...call, unheard: [...lost] }).finally(() => this.#leaving.delete(ticket));
    this.#leaving.set(ticket, leaving);
  }

  #give(call: GiveBack): Promise<unknown> {
    return this.giveBack(call).catch((error: unknown) => this.report("giving work back", error));
  }
}

/** Nobody was told of it. */
const isDue = ({ lost, told }: Unheard): boolean => lost.size > 0 && told <= 0;

const noStop = (): void => undefined;

const isGrantOf = ({ leaseId }: NextAsk, { holding }: Claimed): boolean => holding.lock.lease.id === leaseId;

const callOf = ({ space, principal }: NextAsk, { node }: Claimed): Unheard["call"] => ({
  space,
  principal,
  id: node.id,
  token: node.claim.token,
});

/** What makes calls one request: they get one claim between them. Null: the call stands for itself. */
export const ticketOf = ({ space, principal, request }: NextAsk): string | null =>
  request === null ? null : `${space}/${principal}/${request.id}`;
