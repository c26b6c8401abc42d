/**
 * Grants that their callers did not hear of, because a connection was gone when the reply was to be written. Each is taken back:
 * at once, or where its request id may still come again, after a while. A later call that is told of the lease keeps it.
 */
import type { AcquireReply } from "../core/acquire.js";
import type { Decision } from "../core/decision.js";
import type { Heir } from "../core/heirs.js";
import type { Claim, Unheard } from "../core/lease.js";
import type { Holding, Refusal } from "../core/refusal.js";
import type { Stop, Timer } from "../store/clock.js";
import { ticketName } from "./queues.js";

interface Answered {
  readonly outcome: { readonly granted: Holding } | Refusal;
}

export class UnheardGrants {
  /** Grants that reached nobody, by ticket: taken back unless the request is repeated. */
  readonly #ghosts = new Map<string, { readonly stop: Stop; readonly claim: Claim }>();
  /** Calls that were told of a lease and did not hear, by lease. */
  readonly #unheard = new Map<string, { readonly calls: Set<string>; forget: Stop }>();
  /** Leases that reached their holder by another call: what the first one still says about them is out of date. */
  readonly #heard = new Map<string, Stop>();
  /** Leases that calls under way will tell of, though they were granted to earlier ones; known once it is decided. */
  readonly #telling = new Map<Claim, string>();
  /** Grants that would have been taken back but for such a call. */
  readonly #leftAlone = new Map<string, Claim>();
  /** Grants that reached nobody so far, by ticket, of which calls under way may tell. */
  readonly #putOffs = new Map<string, Claim>();
  /** Tickets with calls under way, and how many. */
  readonly #asking = new Map<string, number>();

  constructor(
    /** How long a request may come again, in ms. */
    readonly ticketMs: number,
    readonly stopping: AbortSignal,
    /** Releases a lease that its claimer never learnt of. */
    readonly giveBack: (claim: Claim, unheard: Unheard) => void,
    readonly after: Timer,
  ) {
    stopping.addEventListener("abort", () => {
      for (const stop of this.#heard.values()) stop();
      // The next process knows nothing of them.
      for (const { stop, claim } of this.#ghosts.values()) {
        stop();
        this.#takeBack(claim);
      }
      for (const { forget } of this.#unheard.values()) forget();
    });
  }

  /** Goes along with a call that may be told of a lease; `gone`: nobody listens to it any more. */
  async during<Reply extends Answered>(
    claim: Claim,
    gone: AbortSignal | undefined,
    call: () => Promise<Reply>,
  ): Promise<Reply> {
    const ticket = ticketName(claim);
    if (ticket === null) return this.#noting(claim, gone, call);
    const ghost = this.#ghosts.get(ticket)?.claim;
    if (ghost !== undefined) this.#putOff(ticket, ghost);
    this.#asking.set(ticket, (this.#asking.get(ticket) ?? 0) + 1);
    try {
      return await this.#noting(claim, gone, call);
    } finally {
      const left = (this.#asking.get(ticket) ?? 1) - 1;
      if (left > 0) this.#asking.set(ticket, left);
      else this.#asked(ticket);
    }
  }

  /** Calls with the ticket are under way: whether its grant is taken back is seen when they are over. */
  #putOff(ticket: string, claim: Claim): void {
    this.#unghost(claim);
    this.#putOffs.set(ticket, claim);
  }

  /** They are: one of them told of it, or it was refused or failed and the grant is as unheard of as before. */
  #asked(ticket: string): void {
    this.#asking.delete(ticket);
    const claim = this.#putOffs.get(ticket);
    this.#putOffs.delete(ticket);
    if (claim !== undefined && !this.#heard.has(claim.leaseId)) this.#haunt(ticket, claim);
  }

  /** Takes note if the caller is told of a lease that an earlier call was granted. */
  async #noting<Reply extends Answered>(
    claim: Claim,
    gone: AbortSignal | undefined,
    call: () => Promise<Reply>,
  ): Promise<Reply> {
    let heard: string | null = null;
    try {
      const answered = await call();
      const { outcome } = answered;
      const isEarlier = "granted" in outcome && outcome.granted.lock.lease.id !== claim.leaseId;
      if (isEarlier && !gone?.aborted) heard = outcome.granted.lock.lease.id;
      return answered;
    } finally {
      const telling = this.#telling.get(claim);
      this.#telling.delete(claim);
      if (heard !== null) this.#told(heard, true);
      else if (telling !== undefined) this.#told(telling, false);
    }
  }

  /** Takes note, at the moment of the decision, if the call will tell of a lease that was granted to an earlier one. */
  noted(claim: Claim, decision: Decision<AcquireReply>): Decision<AcquireReply> {
    this.#telling.delete(claim);
    if ("need" in decision || !("granted" in decision.reply.outcome)) return decision;
    const { id } = decision.reply.outcome.granted.lock.lease;
    if (id !== claim.leaseId) this.#telling.set(claim, id);
    return decision;
  }

  /** The call that this claim stands for tells of nothing. */
  forget(claim: Claim): void {
    this.#telling.delete(claim);
  }

  /** A grant whose waiter has left; `call`: the one that was told of it in vain, if it is not the one that was granted it. */
  ghost(heir: Heir, call = heir.claim.leaseId): void {
    if ("refused" in heir.outcome) return;
    const { claim } = heir;
    this.#inVain(claim.leaseId, call);
    const ticket = ticketName(claim);
    if (this.#heard.has(claim.leaseId)) return;
    // Whoever asks for it right now is told of it, or will be told of as unheard in its turn.
    if (ticket !== null && this.#asking.has(ticket)) this.#putOff(ticket, claim);
    else this.#haunt(ticket, claim);
  }

  /** Takes it back, with a ticket after a while. */
  #haunt(ticket: string | null, claim: Claim): void {
    // It may be told of twice, by the step and by the face; a timer that nobody can stop would end a live lease.
    this.#unghost(claim);
    if (ticket === null || this.stopping.aborted) {
      this.#takeBack(claim);
      return;
    }
    const stop = this.after(this.ticketMs, () => {
      this.#ghosts.delete(ticket);
      this.#takeBack(claim);
    });
    this.#ghosts.set(ticket, { stop, claim });
  }

  /** Kept for longer than the ticket: a repeat that comes meanwhile, and does not hear either, takes back for both. */
  #inVain(leaseId: string, call: string): void {
    const known = this.#unheard.get(leaseId) ?? { calls: new Set(), forget: (): void => undefined };
    known.calls.add(call);
    known.forget();
    known.forget = this.after(2 * this.ticketMs, () => this.#unheard.delete(leaseId));
    this.#unheard.set(leaseId, known);
  }

  /** Unless somebody is being told of it, in a step that was decided before this one: then it is that call's to decide. */
  #takeBack(claim: Claim): void {
    const { leaseId } = claim;
    const calls = [...(this.#unheard.get(leaseId)?.calls ?? [])];
    const isTold = (): boolean => {
      if (!this.#isBeingTold(leaseId)) return this.#heard.has(leaseId);
      this.#leftAlone.set(leaseId, claim);
      return true;
    };
    this.giveBack(claim, { calls, isTold });
  }

  #isBeingTold(leaseId: string): boolean {
    for (const told of this.#telling.values()) if (told === leaseId) return true;
    return false;
  }

  /** The call that tells of a lease is over: somebody heard of it, or it is taken back after all. */
  #told(leaseId: string, isHeard: boolean): void {
    if (isHeard) this.hear(leaseId);
    const claim = this.#leftAlone.get(leaseId);
    if (claim === undefined || this.#isBeingTold(leaseId)) return;
    this.#leftAlone.delete(leaseId);
    if (!isHeard) this.#takeBack(claim);
  }

  #unghost(claim: Claim): void {
    const ticket = ticketName(claim);
    if (ticket === null) return;
    this.#ghosts.get(ticket)?.stop();
    this.#ghosts.delete(ticket);
  }

  /** A later call got the lease: none before it may take it back, also one that ends only now. */
  hear(leaseId: string): void {
    for (const { claim } of this.#ghosts.values()) if (claim.leaseId === leaseId) this.#unghost(claim);
    this.#heard.get(leaseId)?.();
    const forget = (): unknown => this.#heard.delete(leaseId);
    this.#heard.set(leaseId, this.after(this.ticketMs, forget));
  }

  /** Whoever names the lease has heard of it. */
  named(leaseId: string): void {
    for (const { claim } of this.#ghosts.values()) if (claim.leaseId === leaseId) this.hear(leaseId);
    for (const claim of this.#putOffs.values()) if (claim.leaseId === leaseId) this.hear(leaseId);
  }

  /** The reply to a granted waiter could not be written. */
  unwritten(claim: Claim, granted: Holding): void {
    const { id } = granted.lock.lease;
    this.ghost({ claim: { ...claim, leaseId: id }, outcome: { granted } }, claim.leaseId);
  }
}
