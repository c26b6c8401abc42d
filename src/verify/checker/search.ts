/**
 * The second pass: is there an order of a name's operations, each at one instant between its beginning and its end,
 * in which every reply is the one that the model gives? The search is Wing and Gong's, with Lowe's memory of what was
 * tried: next in order comes one that began before the first of those that remain has ended.
 *
 * What got no reply may have happened at any time after it began, or never; it is tried only where nothing that was
 * answered leads on. An observation that fits is placed at once, without a choice: it changes nothing, and every order
 * that explains the rest explains it with the observation in front.
 */
import { decidedFrom, type Ledger, type NameFacts, type Noted } from "./ledger.js";
import type { Span } from "./lifetimes.js";
import { initial, isObservation, Model, type State } from "./model.js";
import { Pending } from "./pending.js";

/** Steps of the model after which a name is given up as undecided: a second or two. */
const stepsMax = 1_000_000;

export type Finding =
  | { readonly kind: "explained" }
  | { readonly kind: "undecided" }
  /** The longest explanation leads to `state`, where `noted`, the next to end, has no place. */
  | { readonly kind: "stuck"; readonly noted: Noted; readonly state: State };

export const search = (name: NameFacts, ledger: Ledger, bound = stepsMax): Finding =>
  new Search(name, ledger, bound).run();

/** A point to come back to: what was placed until then, and what can be placed next. */
interface Fork {
  readonly state: State;
  readonly placed: number;
  readonly choices: Iterator<Choice>;
}

interface Choice {
  /** What is placed; null: nothing, for it is an operation's grant that no reply told of. */
  readonly number: number | null;
  readonly state: State;
}

class Search {
  readonly #model: Model;
  /** Those with a reply, in the order in which they began, then those without; an operation's number is its place. */
  readonly #operations: readonly Noted[];
  readonly #answered: number;
  readonly #pending: Pending;
  /** By number: it took effect neither before nor after. */
  readonly #windows: readonly Pick<Noted, "began" | "ended">[];
  /** By number: the token that an operation needs to be held; undefined: none. */
  readonly #needs: readonly (number | undefined)[];
  /** By token: how many that need it are still to be placed. */
  readonly #needed = new Map<number, number>();
  /** The numbers of placed operations, in order, and the same as a set of bits. */
  readonly #placed: number[] = [];
  readonly #bits: Uint16Array;
  readonly #deadEnds = new Set<string>();
  #steps = 0;
  #longest = -1;
  #stuck: { readonly noted: Noted; readonly state: State } | null = null;

  constructor(
    name: NameFacts,
    ledger: Ledger,
    readonly bound: number,
  ) {
    this.#model = new Model(name, ledger);
    const answered = name.operations.filter((noted) => isTelling(name, noted));
    const unanswered = name.forces.filter(({ reply }) => reply.kind === "unknown");
    this.#operations = [...answered, ...unanswered];
    this.#answered = answered.length;
    this.#windows = this.#operations.map((noted) => ({
      began: decidedFrom(noted, ledger.history),
      ended: noted.ended,
    }));
    this.#pending = new Pending(this.#windows.slice(0, this.#answered));
    this.#needs = this.#operations.map((noted) => neededBy(name, noted));
    for (const token of this.#needs) this.#need(token, 1);
    this.#bits = new Uint16Array(Math.ceil(this.#operations.length / 16));
  }

  run(): Finding {
    const forks: Fork[] = [];
    for (let state: State | null = initial; this.#steps < this.bound; ) {
      if (state !== null) {
        const settled: State = this.#settle(state);
        if (this.#pending.isEmpty) return { kind: "explained" };
        this.#note(settled);
        if (!this.#isDead(settled))
          forks.push({ state: settled, placed: this.#placed.length, choices: this.#choices(settled) });
      }
      const fork = forks.at(-1);
      if (fork === undefined)
        return this.#stuck === null ? { kind: "explained" } : { kind: "stuck", ...this.#stuck };
      while (this.#placed.length > fork.placed) this.#takeBack();
      const { value, done } = fork.choices.next();
      state = done === true ? null : value.state;
      if (done === true) {
        this.#deadEnds.add(this.#keyOf(fork.state));
        forks.pop();
      } else if (value.number !== null) this.#place(value.number);
    }
    return { kind: "undecided" };
  }

  /** Places every observation that fits, until none is left. */
  #settle(from: State): State {
    let state = from;
    for (let isMore = true; isMore; ) {
      isMore = false;
      for (const number of this.#pending.next()) {
        const noted = this.#at(number);
        if (!isObservation(noted)) continue;
        this.#steps++;
        const seen = this.#model.observe(state, noted, this.#when(state, number));
        if (seen === null) continue;
        this.#place(number);
        state = seen;
        isMore = true;
      }
    }
    return state;
  }

  /** Whatever may come next: first what was answered, then what was not. */
  *#choices(state: State): Generator<Choice> {
    for (const number of [...this.#pending.next()]) yield* this.#outcomes(state, number);
    const when = { lo: state.from, hi: this.#pending.firstEnd };
    this.#steps++;
    for (const next of this.#model.afterLostGrant(state, when))
      if (!this.#isTooEarly(state, next, null)) yield { number: null, state: next };
    for (let number = this.#answered; number < this.#operations.length; number++) {
      if (this.#isPlaced(number)) continue;
      yield* this.#outcomes(state, number);
      // They are in the order in which they began: this one can come now, and the others could do no more.
      if (this.#at(number).began <= state.from) return;
    }
  }

  *#outcomes(state: State, number: number): Generator<Choice> {
    const noted = this.#at(number);
    const when = this.#when(state, number);
    if (when.lo > when.hi) return;
    this.#steps++;
    for (const next of this.#model.after(state, noted, when))
      if (!this.#isTooEarly(state, next, number)) yield { number, state: next };
  }

  /** Whether a lease ends before everything that needs it has come. */
  #isTooEarly({ held }: State, next: State, number: number | null): boolean {
    if (held === null || next.held?.token === held.token) return false;
    const isNeeded = number !== null && this.#needs[number] === held.token ? 1 : 0;
    return (this.#needed.get(held.token) ?? 0) > isNeeded;
  }

  /** No later than any that is still to come has ended. */
  #when(state: State, number: number): Span {
    const began = this.#windows[number]?.began ?? state.from;
    return { lo: Math.max(state.from, began), hi: this.#pending.firstEnd };
  }

  #at(number: number): Noted {
    const noted = this.#operations[number];
    if (noted === undefined) throw new RangeError(`no operation ${number}`);
    return noted;
  }

  #place(number: number): void {
    this.#placed.push(number);
    this.#flip(number);
    this.#need(this.#needs[number], -1);
    if (number < this.#answered) this.#pending.remove(number);
  }

  #takeBack(): void {
    const number = this.#placed.pop();
    if (number === undefined) return;
    this.#flip(number);
    this.#need(this.#needs[number], 1);
    if (number < this.#answered) this.#pending.putBack(number);
  }

  #need(token: number | undefined, change: number): void {
    if (token !== undefined) this.#needed.set(token, (this.#needed.get(token) ?? 0) + change);
  }

  #flip(number: number): void {
    const word = number >> 4;
    this.#bits[word] = (this.#bits[word] ?? 0) ^ (1 << (number & 15));
  }

  #isPlaced(number: number): boolean {
    return (((this.#bits[number >> 4] ?? 0) >> (number & 15)) & 1) === 1;
  }

  /** Whether the same operations, placed in another order, led to the same state and from there nowhere. */
  #isDead(state: State): boolean {
    return this.#deadEnds.size > 0 && this.#deadEnds.has(this.#keyOf(state));
  }

  #keyOf({ from, token, held, delay, restored }: State): string {
    const lease = held && [held.by[0]?.index, held.by.length, ...spans(held.expiry, held.ttl), held.seenAt];
    // Everything before the first gap is placed, so where that is says it all.
    let gap = 0;
    while (this.#bits[gap] === 0xffff) gap++;
    const placed = String.fromCharCode(...this.#bits.subarray(gap));
    return `${[from, token, lease, ...spans(delay), restored, gap]} ${placed}`;
  }

  #note(state: State): void {
    if (this.#placed.length <= this.#longest) return;
    this.#longest = this.#placed.length;
    this.#stuck = { noted: this.#at(this.#pending.firstToEnd), state };
  }
}

/** The token that is held before or after the operation, whatever the order. */
function neededBy(name: NameFacts, { call, reply }: Noted): number | undefined {
  if (reply.kind === "granted" || (reply.kind === "state" && reply.held)) return reply.token;
  if (reply.kind === "held") return reply.token ?? undefined;
  return call.op === "release" && reply.kind === "done" ? name.byRef.get(call.lease)?.token : undefined;
}

const spans = (...all: readonly Span[]): number[] => all.flatMap(({ lo, hi }) => [lo, hi]);

/** Refusals had no effect, and what they say is judged elsewhere; a stranger's call is lost at any time. */
function isTelling(name: NameFacts, { call, reply, principal }: Noted): boolean {
  if (["unknown", "refused", "gone", "reused"].includes(reply.kind)) return false;
  if (reply.kind !== "lost" || call.op === "acquire") return true;
  return "lease" in call && call.lease !== null && name.byRef.get(call.lease)?.principal === principal;
}
