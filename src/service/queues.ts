/**
 * Who waits for what on this node, in the order of arrival. A queue never polls: a waiter is granted inside the
 * step that finds its name free. A waiter with a request id keeps its place for a while after its connection
 * closed: the request id is its ticket.
 */
import type { Successors } from "../core/heirs.js";
import type { Claim } from "../core/lease.js";
import type { Peer, Place } from "../core/line.js";
import { excludes } from "../core/names.js";
import type { Holding, Refusal } from "../core/refusal.js";
import type { Stop, Timer } from "../store/clock.js";

export type WaitOutcome = { readonly granted: Holding } | Refusal;

/** present: somebody listens · offered: a step that grants it is on its way · absent: only its place is kept. */
type Presence = "present" | "offered" | "absent";

const whoIs = { present: "here", offered: "served", absent: "away" } as const satisfies Record<
  Presence,
  Place["who"]
>;

export class Waiter {
  presence: Presence = "present";
  /** Called once, when the wait is over. */
  settle: (outcome: WaitOutcome | Error) => void = () => undefined;
  /** Calls off that its place is given up. */
  keepPlace: Stop | undefined;
  /** The connection closed while a grant was on its way. */
  gone = false;
  /** It left because it was served. */
  isServed = false;

  constructor(
    readonly claim: Claim,
    readonly queueName: string,
    /** Of a cluster: its turn in the line of all servers. */
    readonly turn: string,
  ) {}
}

export interface QueueLimits {
  readonly waitersMax: number;
  readonly waitersPerNameMax: number;
  /** Share of all waiters that one principal may have. */
  readonly waitersPerPrincipalMax: number;
  /** How long a ticket keeps its place without a connection, in ms. */
  readonly ticketMs: number;
}

/** One text for a name of a space. */
export const queueName = (space: string, name: string): string => `${space}/${name}`;
/** What makes calls one request; null: the call stands for itself. */
export const ticketName = (claim: Claim): string | null =>
  claim.request === null ? null : `${claim.space}/${claim.principal}/${claim.request.id}`;

export class Queues {
  /** Told when somebody leaves who was not served. */
  whenLeft: (waiter: Waiter) => void = () => undefined;
  /** The n-th waiter that can be granted now. */
  readonly successors: Successors;
  readonly #queues = new Map<string, Set<Waiter>>();
  readonly #byClaim = new Map<Claim, Waiter>();
  readonly #tickets = new Map<string, Waiter>();
  readonly #perPrincipal = new Map<string, number>();
  #turns = 0;

  constructor(
    readonly limits: QueueLimits,
    readonly after: Timer,
    /** Of a cluster: which of its servers this is. */
    readonly peerId: string | null = null,
  ) {
    const nth = this.#nth.bind(this);
    this.successors = peerId === null ? nth : Object.assign(nth, { peer: this.#peer(peerId) });
  }

  get size(): number {
    return this.#byClaim.size;
  }

  #nth(space: string, name: string, nth: number): Claim | undefined {
    const queue = this.#queues.get(queueName(space, name));
    if (queue === undefined) return undefined;
    let seen = 0;
    for (const waiter of queue) if (waiter.presence === "present" && seen++ === nth) return waiter.claim;
    return undefined;
  }

  #peer(id: string): Peer {
    return {
      id,
      places: (space, name) =>
        Array.from(this.#queues.get(queueName(space, name)) ?? [], ({ turn, presence }) => ({
          turn,
          who: whoIs[presence],
        })),
      turnOf: (claim) => this.#byClaim.get(claim)?.turn,
    };
  }

  /** Why nobody more may wait for this, or null. */
  full(claim: Claim): string | null {
    const { waitersMax, waitersPerNameMax, waitersPerPrincipalMax } = this.limits;
    if (this.size >= waitersMax) return `${waitersMax} requests wait already`;
    if ((this.#queues.get(queueName(claim.space, claim.name))?.size ?? 0) >= waitersPerNameMax)
      return `${waitersPerNameMax} requests wait for this name already`;
    if ((this.#perPrincipal.get(principalName(claim)) ?? 0) >= waitersPerPrincipalMax)
      return `${waitersPerPrincipalMax} requests of this principal wait already`;
    return null;
  }

  join(claim: Claim): Waiter {
    const name = queueName(claim.space, claim.name);
    const waiter = new Waiter(claim, name, `${this.peerId ?? ""}.${++this.#turns}`);
    const queue = this.#queues.get(name) ?? new Set();
    this.#queues.set(name, queue.add(waiter));
    this.#byClaim.set(claim, waiter);
    const ticket = ticketName(claim);
    if (ticket !== null) this.#tickets.set(ticket, waiter);
    this.#perPrincipal.set(principalName(claim), (this.#perPrincipal.get(principalName(claim)) ?? 0) + 1);
    return waiter;
  }

  leave(waiter: Waiter, isServed = false): void {
    waiter.keepPlace?.();
    waiter.isServed ||= isServed;
    if (!this.#byClaim.delete(waiter.claim)) return;
    const queue = this.#queues.get(waiter.queueName);
    queue?.delete(waiter);
    if (queue?.size === 0) this.#queues.delete(waiter.queueName);
    const ticket = ticketName(waiter.claim);
    if (ticket !== null && this.#tickets.get(ticket) === waiter) this.#tickets.delete(ticket);
    const left = (this.#perPrincipal.get(principalName(waiter.claim)) ?? 1) - 1;
    if (left === 0) this.#perPrincipal.delete(principalName(waiter.claim));
    else this.#perPrincipal.set(principalName(waiter.claim), left);
    if (!isServed) this.whenLeft(waiter);
  }

  /** Nobody listens any more: a ticket keeps the place for a while, anything else is gone. */
  abandon(waiter: Waiter): void {
    waiter.gone = true;
    if (waiter.presence === "offered") return;
    if (ticketName(waiter.claim) === null) {
      this.leave(waiter);
      return;
    }
    waiter.presence = "absent";
    waiter.keepPlace?.();
    waiter.keepPlace = this.after(this.limits.ticketMs, () => this.leave(waiter));
  }

  of(claim: Claim): Waiter | undefined {
    return this.#byClaim.get(claim);
  }

  /** The place that the same request id took earlier, if it still stands. */
  withTicketOf(claim: Claim): Waiter | undefined {
    const ticket = ticketName(claim);
    return ticket === null ? undefined : this.#tickets.get(ticket);
  }

  count(space: string, name: string): number {
    let waiting = 0;
    for (const waiter of this.#queues.get(queueName(space, name)) ?? [])
      if (waiter.presence !== "absent") waiting++;
    return waiting;
  }

  /** Whether anybody has a place in line here, be it one who is away. */
  hasPlaces(space: string, name: string): boolean {
    return this.#queues.has(queueName(space, name));
  }

  /** Place in line, from 1. */
  position(waiter: Waiter): number {
    let place = 1;
    for (const other of this.#queues.get(waiter.queueName) ?? []) {
      if (other === waiter) break;
      if (other.presence !== "absent") place++;
    }
    return place;
  }

  /** Queued names that may have become free because `freed` did. */
  *overlapping(space: string, freed: string): Generator<string> {
    // Asked after every release while many wait.
    const isExcluded = excludes(freed);
    for (const name of [...this.#queues.keys()]) {
      if (!name.startsWith(`${space}/`)) continue;
      const queued = name.slice(space.length + 1);
      if (queued !== freed && isExcluded(queued)) yield queued;
    }
  }

  *all(): Generator<Waiter> {
    yield* [...this.#byClaim.values()];
  }
}

const principalName = (claim: Claim): string => `${claim.space}/${claim.principal}`;
