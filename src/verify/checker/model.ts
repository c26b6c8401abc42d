/**
 * The rules of one name, stated a second time and in other words: nothing here is shared with what the service is
 * made of, so a rule that is wrong there is not right here by definition.
 *
 * A lease whose end may have come is both held and over, until an operation tells. An acquire without a reply can
 * have been granted a token that some saw and nobody got. What else got no reply moves the end of its own lease, which
 * lifetimes.ts knows, but for a forced release: it can have hit any lease, and which one is left to the search.
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
  requestKey,
  settledBy,
} from "./ledger.js";
import { type Held, isUnanswered, Lifetimes, never, none, type Span } from "./lifetimes.js";

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

export const initial: State = { from: -never, token: 0, held: null, delay: none, restored: false };

/** Changes nothing: where it fits it can be placed at once. */
export const isObservation = ({ call, reply }: Noted): boolean =>
  call.op === "read" || reply.kind === "held" || reply.kind === "delayed" || reply.kind === "lost";

/** How long the turn of one who no longer waits may be kept, in ms: where its place is gone, others must notice. */
const passedOverMs = 5000;

export class Model {
  readonly lifetimes: Lifetimes;
  /** Acquires without a reply that may have been granted any token. */
  readonly #unsettled: readonly Acquire[];

  constructor(
    readonly name: NameFacts,
    readonly ledger: Ledger,
  ) {
    this.lifetimes = new Lifetimes(name, ledger);
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

  /** Every state after a grant within `when` that no reply told of: of the next token that somebody saw. */
  afterLostGrant(state: State, when: Span): State[] {
    const token = this.#next(state);
    if (token === undefined) return [];
    const all = this.name.byToken.get(token)?.mayGrant ?? this.#unsettled;
    const by = all.filter(({ began }) => began <= when.hi);
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
    return lo <= this.lifetimes.endOf(held).hi ? { ...state, held: { ...held, seenAt: lo } } : null;
  }

  #over(state: State, { hi }: Span): State | null {
    const { held } = state;
    if (held === null) return null;
    const end = this.lifetimes.endOf(held);
    if (hi <= end.lo) return null;
    const delay = this.lifetimes.delayAfter(held, { lo: end.lo, hi: Math.min(end.hi, hi) });
    // A release starts no lock delay, and neither does taking back what nobody heard of.
    const mayRelease = (noted: Noted): boolean => isUnanswered(noted) && noted.began <= end.hi;
    const mayBeReleased = held.isUnheard || this.lifetimes.leaseOf(held)?.releases.some(mayRelease);
    return freed(state, end.lo, mayBeReleased ? { lo: 0, hi: delay.hi } : delay);
  }

  /** What was held is void, but nobody else gets it before its time; a lock delay may be forgotten. */
  #restored(state: State, { hi }: Span): State | null {
    const { quiet = [] } = this.ledger.history;
    const window = quiet.find(({ from, to }) => from <= hi && to >= state.from);
    if (window === undefined || state.restored) return null;
    const end = state.held === null ? { lo: 0, hi: state.delay.hi } : this.lifetimes.endOf(state.held);
    return { ...state, held: null, delay: { lo: end.lo, hi: Math.max(end.hi, window.to) }, restored: true };
  }

  #apply(state: State, noted: Noted, when: Span): State | null {
    const { held } = state;
    if (isOp(noted, "acquire")) return this.#acquire(state, noted, when);
    if (isOp(noted, "read")) return this.#read(state, noted, when);
    if (isOp(noted, "force")) {
      if (held === null) return isUnanswered(noted) ? null : state;
      return freed(state, when.lo, this.lifetimes.delayAfter(held, when));
    }
    if (!isOp(noted, "renew") && !isOp(noted, "release")) return null;
    const lease = this.name.byRef.get(noted.call.lease);
    const isCurrent = held?.token === lease?.token && noted.principal === lease?.principal;
    if (noted.reply.kind === "lost") return isCurrent ? null : state;
    if (held === null || !isCurrent) return null;
    if (isOp(noted, "release")) return freed(state, when.lo, none);
    return holding({ ...state, from: when.lo }, this.lifetimes.prolong(held, noted, when));
  }

  #acquire(state: State, acquire: Acquire, when: Span): State | null {
    const { held } = state;
    const { reply } = acquire;
    if (reply.kind === "lost") return this.#isSpent(state, acquire, when) ? state : null;
    if (reply.kind === "granted" && held !== null)
      return reply.token === held.token ? this.#again(state, held, acquire, when) : null;
    // Once its request id was granted something, it gets that, or hears that it is over.
    if (this.#isGranted(state, acquire)) return null;
    if (reply.kind === "held") return (held?.token ?? null) === reply.token ? state : null;
    if (reply.kind === "delayed")
      return held === null && (this.#isDelayed(state, when) || this.#isKept(acquire)) ? state : null;
    if (reply.kind !== "granted" || reply.token !== this.#next(state)) return null;
    return this.#grant(state, [acquire], reply.token, when);
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
    if (from > when.hi) return null;
    const next = { from, token, held: null, delay: none, restored: false };
    return holding(next, this.lifetimes.begin(token, by, { lo: from, hi: when.hi }));
  }

  /** Its own lease, to who repeats the request that it was granted to, or proves to be its holder. */
  #again(state: State, held: Held, acquire: Acquire, when: Span): State | null {
    const request = requestKey(acquire);
    if (request !== null && held.by.some((by) => requestKey(by) === request))
      return this.ledger.history.terms?.repeatRenews === true
        ? holding({ ...state, from: when.lo }, this.lifetimes.repeated(held, acquire, when))
        : holding(state, this.lifetimes.told(held, acquire));
    if (!this.#isHolder(held, acquire)) return null;
    return holding({ ...state, from: when.lo }, this.lifetimes.prolong(held, acquire, when));
  }

  /** The proof is the lease itself, or else the session; and it counts only from the principal that it belongs to. */
  #isHolder(held: Held, { call, principal }: Acquire): boolean {
    const mine = held.by.filter((by) => by.principal === principal);
    if (call.lease !== null) return mine.length > 0 && call.lease === this.lifetimes.leaseOf(held)?.lease;
    return call.session !== null && mine.some((by) => by.call.session === call.session);
  }

  /** Whether its request id was granted a lease before. */
  #isGranted({ token }: State, acquire: Acquire): boolean {
    const lease = settledBy(this.ledger, acquire);
    if (lease === undefined || lease.name !== this.name || lease.token > token) return false;
    return !isForgotten(this.ledger.history, grantedFrom(lease), acquire.ended);
  }

  /** Whether its request id may have been granted a lease that is over. */
  #isSpent({ token, held, restored }: State, acquire: Acquire, when: Span): boolean {
    const request = this.ledger.requests.get(requestKey(acquire) ?? "");
    if (request === undefined) return false;
    const isOver = (lease: LeaseFacts): boolean => lease.token <= token && held?.token !== lease.token;
    if (request.leases.length > 0 && (restored || request.leases.some(isOver))) return true;
    return request.acquires.some((other) => isUnanswered(other) && other.began <= when.hi);
  }

  /** A lock delay may run, or the quiet time after a restore; or the delay of a lease that nobody was told of. */
  #isDelayed({ delay }: State, { lo, hi }: Span): boolean {
    const { quiet = [] } = this.ledger.history;
    return (
      lo <= delay.hi ||
      quiet.some(({ from, to }) => from <= hi && to >= lo) ||
      this.#unsettled.some(({ call, began }) => call.delayMs > 0 && began <= hi)
    );
  }

  /**
   * It may be another's turn, who waited, or did so shortly before: whether it still does only its own place knows. And so it may
   * be that of an earlier call of the same caller, if it never heard the end of it.
   */
  #isKept({ began, ended, process }: Acquire): boolean {
    const { terms } = this.ledger.history;
    if (terms?.keepsTurns !== true) return false;
    return this.name.operations.some(
      (other) =>
        isOp(other, "acquire") &&
        other.call.waitMs > 0 &&
        (other.process !== process || other.reply.kind === "unknown") &&
        other.began <= ended &&
        other.began + other.call.waitMs + passedOverMs + (terms.lateMs ?? 0) >= began,
    );
  }

  #read(state: State, { reply }: Noted, { hi }: Span): State | null {
    if (reply.kind !== "state") return null;
    if (reply.held) return state.held?.token === reply.token ? state : null;
    if (state.held !== null) return null;
    // Clean-up forgets a free name: it looks as if it had never been held.
    if (reply.token === state.token || reply.token === 0 || state.restored) return state;
    // A lease may have come and gone that nobody was told of.
    const isNext = reply.token > state.token && reply.token < (this.#next(state) ?? never);
    const isPossible = isNext && this.#unsettled.some(({ began }) => began <= hi);
    return isPossible ? { ...state, token: reply.token } : null;
  }
}

const holding = (state: State, held: Held | null): State | null =>
  held === null ? null : { ...state, held };

const freed = (state: State, at: number, delay: Span): State => ({
  ...state,
  from: Math.max(state.from, at),
  held: null,
  delay,
});
