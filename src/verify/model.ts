/**
 * The rules of one name, stated a second time and in other words: nothing here is shared with what the service is
 * made of, so a rule that is wrong there is not right here by definition.
 *
 * When an operation took effect is known only to lie between two instants, and so is what follows from it. A lease
 * whose end may have come is both held and over, until an operation tells. A call without a reply took effect at
 * some time after it began, or never. A release or a renewal can only have moved the end of its own lease, so it
 * widens what is known of that end. An acquire can have been granted a token that some saw and nobody got. A forced
 * release can have hit any lease: where it did is left to the search.
 */
import {
  type Acquire,
  grantedFrom,
  isForgotten,
  isOp,
  type LeaseFacts,
  type Ledger,
  type NameFacts,
  type Noted,
  type Renew,
  requestKey,
  settledBy,
} from "./ledger.js";
import { tickMs } from "./sessions.js";

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
  /** Its lock delay in ms. */
  readonly delay: Span;
  /** What a renewal gives; infinite where only the session counts. */
  readonly ttl: Span;
  /** When it is over, by its own time or with its session. */
  readonly expiry: Span;
  /** It was held at this instant or later. */
  readonly seenAt: number;
}

export interface State {
  /** What comes next does not come before this. */
  readonly from: number;
  /** The last token granted. */
  readonly token: number;
  readonly held: Held | null;
  /** While it is free: when its lock delay ends. */
  readonly delay: Span;
  /** A restore brought back an older state: a free name may show an older token. */
  readonly restored: boolean;
}

const never = Number.POSITIVE_INFINITY;
const none: Span = { lo: 0, hi: 0 };
export const initial: State = { from: -never, token: 0, held: null, delay: none, restored: false };

/** Changes nothing: where it fits it can be placed at once. */
export const isObservation = ({ call, reply }: Noted): boolean =>
  call.op === "read" || reply.kind === "held" || reply.kind === "delayed" || reply.kind === "lost";

const isUnanswered = ({ reply }: Noted): boolean => reply.kind === "unknown";

export class Model {
  readonly #bound: number;
  /** Acquires without a reply that may have been granted anything. */
  readonly #unsettled: readonly Acquire[];

  constructor(
    readonly name: NameFacts,
    readonly ledger: Ledger,
  ) {
    this.#bound = ledger.history.clockBoundMs;
    this.#unsettled = name.lostAcquires.filter((acquire) => settledBy(ledger, acquire) === undefined);
  }

  /** Every state that the operation, which takes effect within `when`, may leave behind; none: it cannot be here. */
  after(state: State, noted: Noted, when: Span): State[] {
    return this.#variants(state, when).flatMap((now) => {
      const next = this.#apply(now, noted, { lo: Math.max(when.lo, now.from), hi: when.hi });
      return next === null ? [] : [next];
    });
  }

  /** The state after an observation that fits what is known already; null: it does not. */
  observe(state: State, noted: Noted, when: Span): State | null {
    // One that tells of something else proves nothing about the lease that is held.
    const now = "token" in noted.reply ? this.#going(state, when) : state;
    return now !== null && this.#apply(now, noted, when) === now ? now : null;
  }

  /** Every state after a grant within `when` that no reply told of. */
  afterLostGrant(state: State, when: Span): State[] {
    const token = this.#next(state);
    if (token === undefined) return [];
    const all = this.name.byToken.get(token)?.mayGrant ?? this.#unsettled;
    const by = all.filter(({ began }) => began <= when.hi);
    if (by.length === 0) return [];
    return this.#variants(state, when).flatMap((now) => {
      const next = now.held === null ? this.#grant(now, by, token, { lo: now.from, hi: when.hi }) : null;
      return next === null ? [] : [next];
    });
  }

  /** What the name may be by then: as it was, with its lease over, or brought back from a backup. */
  #variants(state: State, when: Span): State[] {
    const variants = [this.#going(state, when), this.#over(state, when), this.#restored(state, when)];
    return variants.filter((now) => now !== null && now.from <= when.hi) as State[];
  }

  #going(state: State, { lo }: Span): State | null {
    const { held } = state;
    if (held === null || lo <= held.seenAt) return state;
    return lo <= this.endOf(held).hi ? { ...state, held: { ...held, seenAt: lo } } : null;
  }

  #over(state: State, { hi }: Span): State | null {
    const { held } = state;
    if (held === null) return null;
    const end = this.endOf(held);
    if (hi <= end.lo) return null;
    const delay = this.#delayAfter(held, { lo: end.lo, hi: Math.min(end.hi, hi) });
    // A release starts no lock delay, and neither does taking back what nobody heard of.
    const isReleased = held.isUnheard || this.#leaseOf(held)?.releases.some(isUnanswered);
    return ended(state, end.lo, isReleased ? { lo: 0, hi: delay.hi } : delay);
  }

  /** What was held is void, but nobody else gets it before its time; a lock delay may be forgotten. */
  #restored(state: State, { hi }: Span): State | null {
    const { quiet = [] } = this.ledger.history;
    const window = quiet.find(({ from, to }) => from <= hi && to >= state.from);
    if (window === undefined || state.restored) return null;
    const end = state.held === null ? { lo: 0, hi: state.delay.hi } : this.endOf(state.held);
    return { ...state, held: null, delay: { lo: end.lo, hi: Math.max(end.hi, window.to) }, restored: true };
  }

  /** When the lease is over, whatever became of calls without a reply. */
  endOf(held: Held): Span {
    const { lo: expiry, hi } = this.#expiryOf(held);
    let lo = expiry;
    for (const release of this.#leaseOf(held)?.releases ?? [])
      if (isUnanswered(release)) lo = Math.min(lo, release.began);
    if (held.isUnheard) lo = held.seenAt;
    return { lo: Math.max(lo, held.seenAt), hi };
  }

  /** Its expiry, as renewals without a reply may have moved it. */
  #expiryOf(held: Held): Span {
    let { lo, hi } = held.expiry;
    const lease = this.#leaseOf(held);
    for (const { began, call } of lease?.mayProlong ?? []) {
      if (began > hi) continue;
      if (call.op === "renew" && call.ttlMs !== null) lo = Math.min(lo, began + call.ttlMs - this.#bound);
      hi += (call.ttlMs ?? this.#ttlOf(held).hi) + this.#bound + tickMs;
    }
    return { lo, hi: Math.min(hi, lease?.session?.overBy ?? never) };
  }

  /** What a renewal gives that names no TTL: the last that was named, also by calls without a reply. */
  #ttlOf(held: Held): Span {
    const named = (this.#leaseOf(held)?.mayProlong ?? []).flatMap(({ call }) => call.ttlMs ?? []);
    return { lo: Math.min(held.ttl.lo, ...named), hi: Math.max(held.ttl.hi, ...named) };
  }

  #leaseOf({ token }: Held): LeaseFacts | undefined {
    return this.name.byToken.get(token);
  }

  #delayAfter({ delay }: Held, { lo, hi }: Span): Span {
    return {
      lo: delay.lo === 0 ? 0 : lo + delay.lo - this.#bound,
      hi: delay.hi === 0 ? 0 : hi + delay.hi + this.#bound + tickMs,
    };
  }

  #apply(state: State, noted: Noted, when: Span): State | null {
    const { held } = state;
    if (isOp(noted, "acquire")) return this.#acquire(state, noted, when);
    if (isOp(noted, "read")) return this.#read(state, noted, when);
    if (isOp(noted, "force")) {
      if (held === null) return isUnanswered(noted) ? null : state;
      return ended(state, when.lo, this.#delayAfter(held, when));
    }
    if (!isOp(noted, "renew") && !isOp(noted, "release")) return null;
    const lease = this.name.byRef.get(noted.call.lease);
    const isCurrent = held?.token === lease?.token && noted.principal === lease?.principal;
    if (noted.reply.kind === "lost") return isCurrent ? null : state;
    if (held === null || !isCurrent) return null;
    return isOp(noted, "renew") ? this.#prolong(state, held, noted, when) : ended(state, when.lo, none);
  }

  #acquire(state: State, acquire: Acquire, when: Span): State | null {
    const { held } = state;
    const { reply } = acquire;
    if (reply.kind === "lost") return this.#isSpent(state, acquire, when) ? state : null;
    if (reply.kind === "granted" && held !== null)
      return this.#again(state, held, acquire, reply.token, when);
    // Once its request id was granted something, it gets that, or hears that it is over.
    if (this.#isGranted(state, acquire)) return null;
    if (reply.kind === "held") return (held?.token ?? null) === reply.token ? state : null;
    if (reply.kind === "delayed") return held === null && this.#isDelayed(state, when) ? state : null;
    if (reply.kind !== "granted" || reply.token !== this.#next(state)) return null;
    return this.#grant(state, [acquire], reply.token, when);
  }

  /** The lease that is held, to who repeats its request or proves to be its holder. */
  #again(state: State, held: Held, acquire: Acquire, token: number, when: Span): State | null {
    if (token !== held.token) return null;
    const request = requestKey(acquire);
    const isRepeat = request !== null && held.by.some((by) => requestKey(by) === request);
    if (isRepeat) return this.#told(state, held, acquire);
    return this.#isHolder(held, acquire) ? this.#prolong(state, held, acquire, when) : null;
  }

  #isGranted({ token }: State, acquire: Acquire): boolean {
    const lease = settledBy(this.ledger, acquire);
    if (lease === undefined || lease.name !== this.name || lease.token > token) return false;
    return !isForgotten(this.ledger.history, grantedFrom(lease), acquire.ended);
  }

  /** The next token that anybody saw held: tokens rise, so none of them can be left out. */
  #next({ token }: State): number | undefined {
    const { heldTokens } = this.name;
    let [low, high] = [0, heldTokens.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((heldTokens[middle] ?? 0) > token) high = middle;
      else low = middle + 1;
    }
    return heldTokens[low];
  }

  #grant(state: State, by: readonly Acquire[], token: number, when: Span): State | null {
    const from = Math.max(when.lo, state.delay.lo);
    const [first] = by;
    if (first === undefined || from > when.hi) return null;
    const isTold = this.name.byToken.has(token);
    const held: Held = {
      token,
      // Of what nobody was told nobody can speak: any of them may stand for all.
      by: isTold ? by : [first],
      isUnheard: !isTold && by.some(({ call }) => call.waitMs > 0),
      delay: spanOf(by, ({ call }) => ({ lo: call.delayMs, hi: call.delayMs })),
      ttl: spanOf(by, ttlOf),
      expiry: spanOf(by, (acquire) => {
        const end = this.#later({ lo: Math.max(from, acquire.began), hi: when.hi }, ttlOf(acquire));
        // Others of the session, without a reply too, may have prolonged what nobody was told of.
        const isOpen = !isTold && acquire.call.session !== null;
        return this.#within(acquire, isOpen ? { lo: end.lo, hi: never } : end);
      }),
      seenAt: from,
    };
    return this.#told({ from, token, held, delay: none, restored: false }, held, first);
  }

  /** The later of its end and now + TTL; only who names a TTL may shorten. */
  #prolong(state: State, held: Held, noted: Acquire | Renew, when: Span): State | null {
    const { ttlMs } = noted.call;
    const ttl = ttlMs === null ? this.#ttlOf(held) : { lo: ttlMs, hi: ttlMs };
    const wanted = this.#later(when, ttl);
    const isExact = isOp(noted, "renew") && ttlMs !== null;
    const expiry = this.#expiryOf(held);
    // What lives as long as its session goes on to, whatever it is asked for again with.
    const least = held.ttl.hi === never ? expiry.lo : Math.max(expiry.lo, wanted.lo);
    const lo = isExact ? wanted.lo : least;
    const hi = isExact ? wanted.hi : Math.max(expiry.hi, wanted.hi);
    const [by] = held.by;
    const later = { ...held, ttl, expiry: by === undefined ? { lo, hi } : this.#within(by, { lo, hi }) };
    return this.#told({ ...state, from: when.lo }, later, noted);
  }

  #later({ lo, hi }: Span, ttl: Span): Span {
    return { lo: lo + ttl.lo - this.#bound, hi: hi + ttl.hi + this.#bound + tickMs };
  }

  /** No longer than its session. */
  #within({ call }: Acquire, { lo, hi }: Span): Span {
    if (call.session === null) return { lo, hi };
    const { overFrom = -never, overBy = never } = this.ledger.sessions.get(call.session) ?? {};
    return { lo: Math.min(lo, overFrom), hi: Math.min(hi, overBy) };
  }

  /** The reply, if there is one, says when the lease expires; of a session it says too little. */
  #told(state: State, held: Held, { began, ended, reply }: Acquire | Renew): State | null {
    if (reply.kind !== "granted" || held.by.some(({ call }) => call.session !== null))
      return { ...state, held };
    const told = this.#later({ lo: began, hi: ended }, { lo: reply.leftMs, hi: reply.leftMs });
    const { lo, hi } = this.#expiryOf(held);
    const expiry = { lo: Math.max(told.lo, lo), hi: Math.min(told.hi, hi) };
    return expiry.lo > expiry.hi ? null : { ...state, held: { ...held, expiry } };
  }

  /** Proof of being the holder: the lease itself, or else the session. */
  #isHolder(held: Held, { call, principal }: Acquire): boolean {
    if (call.lease !== null)
      return call.lease === this.#leaseOf(held)?.lease && principal === held.by[0]?.principal;
    return held.by.some(
      (by) => call.session !== null && call.session === by.call.session && principal === by.principal,
    );
  }

  /** A lock delay may run, or the quiet time after a restore; or one that an acquire brought with it unheard of. */
  #isDelayed({ delay }: State, { lo, hi }: Span): boolean {
    const { quiet = [] } = this.ledger.history;
    return (
      lo <= delay.hi ||
      quiet.some(({ from, to }) => from <= hi && to >= lo) ||
      this.name.lostAcquires.some(({ call, began }) => call.delayMs > 0 && began <= hi)
    );
  }

  /** Whether the request id may have been granted a lease that is over. */
  #isSpent({ token, held, restored }: State, acquire: Acquire, when: Span): boolean {
    const request = this.ledger.requests.get(requestKey(acquire) ?? "");
    if (request === undefined) return false;
    const isOver = (lease: LeaseFacts): boolean => lease.token <= token && held?.token !== lease.token;
    if (request.leases.length > 0) return restored || request.leases.some(isOver);
    return request.acquires.some((other) => isUnanswered(other) && other.began <= when.hi);
  }

  #read(state: State, { reply }: Noted, when: Span): State | null {
    if (reply.kind !== "state") return null;
    if (reply.held) return state.held?.token === reply.token ? state : null;
    if (state.held !== null) return null;
    // Clean-up forgets a free name: it looks as if it had never been held.
    if (reply.token === state.token || reply.token === 0 || state.restored) return state;
    const isNew = reply.token > state.token && reply.token < (this.#next(state) ?? never);
    return isNew && this.#mayHaveBeen(when) ? { ...state, token: reply.token } : null;
  }

  /** Whether a lease may have come and gone that nobody was told of. */
  #mayHaveBeen({ hi }: Span): boolean {
    return this.#unsettled.some(({ began }) => began <= hi);
  }
}

const ttlOf = ({ call }: Acquire): Span => ({ lo: call.ttlMs ?? never, hi: call.ttlMs ?? never });

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

const ended = (state: State, at: number, delay: Span): State => ({
  ...state,
  from: Math.max(state.from, at),
  held: null,
  delay,
});
