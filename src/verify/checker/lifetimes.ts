/**
 * When a lease of the model is over. Everything is known only to lie between two instants: an operation took effect
 * somewhere between its beginning and its end, the service's clock may stray from the recorder's, a session ends
 * within a span of its own, and a call without a reply may have moved the end of its own lease, and of no other.
 */
import { isSeenLate } from "./holds.js";
import type { Acquire, LeaseFacts, Ledger, NameFacts, Noted, Renew } from "./ledger.js";
import { lateBy } from "./sessions.js";

/** Something lies between these. */
export interface Span {
  readonly lo: number;
  readonly hi: number;
}

export interface Held {
  readonly token: number;
  /** The acquire that was granted; several: one of these, none of which got a reply. */
  readonly by: readonly Acquire[];
  /** Nobody was told of it, and its waiter may have left: the service may take it back at any time. */
  readonly isUnheard: boolean;
  /** What a renewal gives, in ms; infinite where only the session counts. */
  readonly ttl: Span;
  /** Its lock delay, in ms. */
  readonly delay: Span;
  /** When it runs out, or its session does. */
  readonly expiry: Span;
  /** It was held at this instant or later. */
  readonly seenAt: number;
}

export const never = Number.POSITIVE_INFINITY;
/** No lock delay. */
export const none: Span = { lo: 0, hi: 0 };

export const isUnanswered = ({ reply }: Noted): boolean => reply.kind === "unknown";

export class Lifetimes {
  readonly #bound: number;
  readonly #lateBy: number;

  constructor(
    readonly name: NameFacts,
    readonly ledger: Ledger,
  ) {
    this.#bound = ledger.history.clockBoundMs;
    this.#lateBy = lateBy(ledger.history);
  }

  leaseOf({ token }: Held): LeaseFacts | undefined {
    return this.name.byToken.get(token);
  }

  /** When the lease is over, whatever became of calls without a reply. */
  endOf(held: Held): Span {
    const { lo, hi } = this.#expiryOf(held);
    const releases = this.leaseOf(held)?.releases.filter(isUnanswered) ?? [];
    const earliest = held.isUnheard ? held.seenAt : Math.min(lo, ...releases.map(({ began }) => began));
    return { lo: Math.max(earliest, held.seenAt), hi: this.#seenBy(hi) };
  }

  /** When its lock delay is over, if the lease ends within the span, and not by a release. */
  delayAfter(held: Held, { lo, hi }: Span): Span {
    const { delay } = held;
    // It runs from the end by the holder's own time, though the lease may still be taken for held.
    const from = isSeenLate(this.ledger.history) ? Math.min(lo, this.#expiryOf(held).lo) : lo;
    return {
      lo: delay.lo === 0 ? 0 : from + delay.lo - this.#bound,
      hi: delay.hi === 0 ? 0 : this.#seenBy(hi + delay.hi + this.#lateBy),
    };
  }

  /**
   * When everybody sees that something is over. Where places count for themselves, each sees it at another time: it is
   * over for all as soon as one of them says so, and until then for none. How long that may take, the first pass judges.
   */
  #seenBy(over: number): number {
    return this.ledger.history.terms?.margin === undefined ? over : never;
  }

  /** A lease that is granted within the span to one of `by`; null: the reply says another end than it has. */
  begin(token: number, by: readonly Acquire[], { lo, hi }: Span): Held | null {
    const [first] = by;
    if (first === undefined) return null;
    const isTold = this.name.byToken.has(token);
    const expiry = spanOf(by, (acquire) => {
      const end = this.#later({ lo: Math.max(lo, acquire.began), hi }, ttlOf(acquire));
      // Others of the session, without a reply too, may have prolonged what nobody was told of.
      const isOpen = !isTold && acquire.call.session !== null;
      return this.#within(acquire, isOpen ? { lo: end.lo, hi: never } : end);
    });
    const held: Held = {
      token,
      // Nobody can speak of what nobody was told of: any of them may stand for all.
      by: isTold ? by : [first],
      isUnheard: !isTold && by.some(({ call }) => call.waitMs > 0),
      ttl: spanOf(by, ttlOf),
      delay: spanOf(by, ({ call }) => exactly(call.delayMs)),
      expiry,
      seenAt: lo,
    };
    return this.told(held, first);
  }

  /** The later of its end and now + TTL; only a renewal that names a TTL may shorten. */
  prolong(held: Held, noted: Acquire | Renew, when: Span): Held | null {
    const { op, ttlMs } = noted.call;
    const ttl = ttlMs === null ? this.#ttlOf(held) : exactly(ttlMs);
    const wanted = this.#later(when, ttl);
    const expiry = this.#expiryOf(held);
    const later = {
      // What lives as long as its session goes on to, whatever it is asked for again with.
      lo: held.ttl.hi === never ? expiry.lo : Math.max(expiry.lo, wanted.lo),
      hi: Math.max(expiry.hi, wanted.hi),
    };
    const [by] = held.by;
    const end = op === "renew" && ttlMs !== null ? wanted : later;
    return this.told({ ...held, ttl, expiry: by === undefined ? end : this.#within(by, end) }, noted);
  }

  /** By a repeat of the request that it was granted to, where that renews. */
  repeated(held: Held, acquire: Acquire, when: Span): Held | null {
    const wanted = this.#later(when, this.#ttlOf(held));
    const { lo, hi } = this.#expiryOf(held);
    return this.told(
      { ...held, expiry: { lo: Math.max(lo, wanted.lo), hi: Math.max(hi, wanted.hi) } },
      acquire,
    );
  }

  /** The lease, as far as the reply tells when it ends; null: it cannot end then. Of a session it tells too little. */
  told(held: Held, { began, ended, reply }: Acquire | Renew): Held | null {
    if (reply.kind !== "granted" || held.by.some(({ call }) => call.session !== null)) return held;
    const said = this.#later({ lo: began, hi: ended }, exactly(reply.leftMs));
    const expiry = this.#expiryOf(held);
    const lo = Math.max(said.lo, expiry.lo);
    const hi = Math.min(said.hi, expiry.hi);
    return lo > hi ? null : { ...held, expiry: { lo, hi } };
  }

  /** Its expiry, as renewals without a reply may have moved it. */
  #expiryOf(held: Held): Span {
    let { lo, hi } = held.expiry;
    const lease = this.leaseOf(held);
    for (const { began, call } of lease?.mayProlong ?? []) {
      if (began > hi) continue;
      if (call.op === "renew" && call.ttlMs !== null) lo = Math.min(lo, began + call.ttlMs - this.#bound);
      hi += (call.ttlMs ?? this.#ttlOf(held).hi) + this.#lateBy;
    }
    return { lo, hi: Math.min(hi, lease?.session?.overBy ?? never) };
  }

  /** What a renewal gives that names no TTL: the last that was named, perhaps by a call without a reply. */
  #ttlOf(held: Held): Span {
    const named = (this.leaseOf(held)?.mayProlong ?? []).flatMap(({ call }) => call.ttlMs ?? []);
    return { lo: Math.min(held.ttl.lo, ...named), hi: Math.max(held.ttl.hi, ...named) };
  }

  #later({ lo, hi }: Span, ms: Span): Span {
    return { lo: lo + ms.lo - this.#bound, hi: hi + ms.hi + this.#lateBy };
  }

  /** No longer than the session. */
  #within({ call }: Acquire, { lo, hi }: Span): Span {
    const session = call.session === null ? undefined : this.ledger.sessions.get(call.session);
    if (session === undefined) return { lo, hi };
    return { lo: Math.min(lo, session.overFrom), hi: Math.min(hi, session.overBy) };
  }
}

const exactly = (ms: number): Span => ({ lo: ms, hi: ms });
const ttlOf = ({ call }: Acquire): Span => exactly(call.ttlMs ?? never);

/** From the least to the most that it can be for any of them. */
function spanOf<Item>(items: readonly Item[], span: (item: Item) => Span): Span {
  let [lo, hi] = [never, -never];
  for (const item of items) {
    const one = span(item);
    lo = Math.min(lo, one.lo);
    hi = Math.max(hi, one.hi);
  }
  return { lo, hi };
}
