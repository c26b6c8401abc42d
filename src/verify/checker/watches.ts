/**
 * I29: what a watch tells is in order, without gaps and without repeats, and is true. A stream is held against itself
 * (each lease is acquired, renewed and ended, in this order, and tokens rise) and against the operations: it leaves
 * out nothing that a caller was told, and tells nothing that no call explains. With `reset` and a new snapshot it
 * begins anew. How soon an event comes is judged by connections.ts, here only what had come before another that was told.
 *
 * A snapshot is read after its place in the feed was taken: events up to what it shows may follow it. Where the
 * connection is marked, the snapshot was read after it was asked for, and is held against what was held then.
 */
import type { Violation } from "../check.js";
import type { History, Seen } from "../history.js";
import { expiredBy, graceMs, heldUntil, mayEndFrom } from "./holds.js";
import {
  grantedBy,
  grantedFrom,
  isForgotten,
  type LeaseFacts,
  type Ledger,
  type NameFacts,
} from "./ledger.js";
import { at } from "./wording.js";

/** One event, and where it stands in the history. */
interface Heard extends Seen {
  readonly index: number;
}

/** What a stream last said about a name. */
interface Word {
  readonly heard: Heard;
  readonly isOver: boolean;
  /** Renewals since the lease began; null: its beginning was not heard. */
  readonly renewals: number | null;
}

const isShown = ({ heard }: Word): boolean => heard.event === "snapshot";

export function checkWatches(ledger: Ledger): Violation[] {
  const violations: Violation[] = [];
  const streams = new Map<string, Stream>();
  ledger.history.seen.forEach((seen, index) => {
    const stream = streams.get(seen.stream) ?? new Stream(ledger, violations);
    streams.set(seen.stream, stream);
    stream.hear({ ...seen, index });
  });
  for (const stream of streams.values()) stream.end();
  return violations;
}

class Stream {
  readonly #words = new Map<string, Word>();
  readonly #ids = new Map<string, Heard>();
  /** Of all changes told so far the one that happened last, and not before `from`. */
  #latest: { readonly heard: Heard; readonly from: number } | null = null;
  /** Leases that it spoke of. */
  readonly #told = new Set<string>();
  /** What was asked for after this instant, it tells; null: its snapshot is not complete. */
  #since: number | null = null;
  #isShowing = false;
  /** It heard of a place to resume from: a connection that breaks while it shows a snapshot is told `reset` anew. */
  #canResume = false;
  /** Names that it follows. */
  readonly #names = new Set<string>();
  /** All that it will tell comes after what was done before this. */
  #past = Number.NEGATIVE_INFINITY;
  /** The connection that it comes over, where that is marked. */
  #opened: Heard | null = null;

  constructor(
    readonly ledger: Ledger,
    readonly violations: Violation[],
  ) {}

  hear(heard: Heard): void {
    if (heard.event === "opened") this.#open(heard);
    else if (heard.event === "closed") return;
    else if (heard.event === "reset") this.#reset();
    else if (heard.event === "snapshot" || heard.event === "synced") this.#show(heard);
    else this.#event(heard);
  }

  /** Nothing more comes that follows from what came. */
  end(): void {
    const latest = this.#latest;
    const since = this.#since;
    if (latest === null || since === null) return;
    for (const [name, { heard, isOver }] of this.#words) {
      const facts = this.ledger.names.get(name);
      const missed = facts?.leases.find(
        (lease) =>
          grantedFrom(lease) > since &&
          grantedBy(lease) < latest.from &&
          !this.#told.has(`${lease.token} ${name}`),
      );
      const last = facts?.byToken.get(heard.token);
      if (missed !== undefined)
        this.#accuse([latest.heard], `the grant of token ${missed.token} of ${name} was left out`);
      else if (!isOver && last !== undefined && releasedBy(last) < latest.from)
        this.#accuse([heard, latest.heard], `the end of token ${heard.token} of ${name} was left out`);
    }
  }

  /** Without a place to go on from it begins anew. */
  #open(opened: Heard): void {
    this.#opened = opened;
    if (opened.id === null) this.#reset();
  }

  #reset(): void {
    this.end();
    this.#past = Math.max(this.#past, this.#latest?.from ?? this.#past);
    this.#words.clear();
    this.#ids.clear();
    this.#told.clear();
    this.#latest = null;
    this.#since = null;
    this.#isShowing = false;
  }

  #show(heard: Heard): void {
    if (!this.#isShowing) {
      this.end();
      this.#words.clear();
      this.#told.clear();
    }
    this.#isShowing = heard.event === "snapshot";
    this.#since = this.#isShowing ? null : heard.at;
    if (!this.#isShowing) {
      // What was shown may be of an earlier connection, and over.
      if (!this.#canResume && this.#opened === null) this.#words.clear();
      this.#canResume = true;
      this.#isWhole(heard);
      return;
    }
    const name = this.ledger.names.get(heard.name);
    if (name !== undefined) {
      this.#wasAsked(heard, name);
      this.#mayBeHeld(heard, name.byToken.get(heard.token));
    }
    this.#words.set(heard.name, { heard, isOver: false, renewals: null });
    this.#told.add(`${heard.token} ${heard.name}`);
  }

  /** A snapshot is not read before this. */
  get #readFrom(): number {
    return Math.max(this.#past, this.#opened?.at ?? this.#past);
  }

  /** A snapshot shows nothing that was over before it was read. */
  #mayBeHeld(shown: Heard, lease: LeaseFacts | undefined): void {
    if (lease === undefined) return;
    const { history } = this.ledger;
    const from = this.#readFrom;
    const over = Math.min(expiredBy(lease, history) + graceMs, ...lease.overs.map(({ ended }) => ended));
    if (over < from && !isForgotten(history, over, shown.at))
      this.#accuse([shown], `token ${shown.token} was over by ${at(over)}, and the snapshot shows it`);
  }

  /** Names that it follows: all below its prefix, or else those that it spoke of. */
  get #followed(): Iterable<string> {
    const opened = this.#opened;
    if (opened === null) return this.#names;
    return [...this.ledger.names.keys()].filter((name) => name.startsWith(opened.name));
  }

  /** A snapshot shows whatever was held all the time in which it can have been read. */
  #isWhole(synced: Heard): void {
    for (const name of this.#followed) {
      const missed = this.ledger.names
        .get(name)
        ?.leases.find(
          (lease) =>
            grantedBy(lease) < this.#readFrom &&
            heldUntil(lease, this.ledger.history) > synced.at &&
            !this.#told.has(`${lease.token} ${name}`),
        );
      if (missed !== undefined)
        this.#accuse([synced], `token ${missed.token} of ${name} is held, and the snapshot leaves it out`);
    }
  }

  #event(heard: Heard): void {
    this.#isShowing = false;
    this.#names.add(heard.name);
    this.#canResume = true;
    const twin = heard.id === null ? undefined : this.#ids.get(heard.id);
    if (heard.id !== null) this.#ids.set(heard.id, heard);
    if (twin !== undefined) {
      this.#accuse([twin, heard], `event ${heard.id} came twice`);
      return;
    }
    const name = this.ledger.names.get(heard.name);
    const before = this.#words.get(heard.name);
    const isNew = !this.#told.has(`${heard.token} ${heard.name}`);
    if (isNew) this.#told.add(`${heard.token} ${heard.name}`);
    const isOld = before !== undefined && isShown(before) && heard.token <= before.heard.token;
    if (before !== undefined && !isOld) this.#inOrder(before, heard, name);
    if (name !== undefined) this.#isTrue(heard, name, before, isNew);
    const word = wordAfter(before, heard);
    const lease = name?.byToken.get(heard.token);
    if (lease !== undefined) this.#follows(heard, lease, isOld ? null : word.renewals);
    if (isOld && heard.token < before.heard.token) return;
    this.#words.set(heard.name, isOld ? { ...word, renewals: null } : word);
  }

  /** What is told of any name comes in the order in which it happened. `nth`: which of its renewals it is; null: unknown. */
  #follows(heard: Heard, lease: LeaseFacts, nth: number | null): void {
    const latest = this.#latest;
    const { from, by } = happened(heard, lease, nth, this.ledger.history);
    if (latest !== null && by < latest.from) {
      const { name, event, token } = latest.heard;
      this.#accuse(
        [latest.heard, heard],
        `token ${heard.token} of ${heard.name} was ${heard.event} by ${at(by)}, and it is told after token ${token} of ${name}, which was ${event} at ${at(latest.from)} or later`,
      );
    }
    if (latest === null || from > latest.from) this.#latest = { heard, from };
  }

  /** Each event follows from the one before it about the same name. */
  #inOrder(before: Word, heard: Heard, name: NameFacts | undefined): void {
    const { token, event } = heard;
    const last = before.heard;
    const isNew = token > last.token;
    const isMissed = ({ token: between }: LeaseFacts): boolean => between > last.token && between < token;
    const missed = token > last.token + 1 ? name?.leases.find(isMissed) : undefined;
    if (token < last.token) this.#accuse([last, heard], `token ${token} comes after token ${last.token}`);
    else if (!isNew && (before.isOver || event === "acquired"))
      this.#accuse([last, heard], `token ${token}: ${event} comes after ${last.event}`);
    else if (isNew && !before.isOver)
      this.#accuse([last, heard], `token ${token}: ${event} comes without the end of token ${last.token}`);
    else if (isNew && (event !== "acquired" || missed !== undefined))
      this.#accuse([last, heard], `the grant of token ${missed?.token ?? token} was left out`);
  }

  /** The operations bear out what it says. */
  #isTrue(heard: Heard, name: NameFacts, before: Word | undefined, isNew: boolean): void {
    const lease = name.byToken.get(heard.token);
    if (heard.event === "acquired") this.#wasAsked(heard, name);
    if (lease === undefined || heard.event === "acquired" || heard.event === "renewed") return;
    if (heard.event === "released") this.#isDue(heard, lease, isNew);
    const until = heldUntil(lease, this.ledger.history);
    if (heard.at < until)
      this.#accuse(
        [heard],
        `token ${heard.token} was ${heard.event} at ${at(heard.at)}, and held until ${at(until)} at least`,
      );
    const isReleased = lease.releases.some(({ reply }) => reply.kind === "done");
    const mayBeReleased = mayEndFrom(lease, this.ledger.history) <= heard.at;
    if (heard.event === "expired" ? isReleased : !mayBeReleased)
      this.#accuse(
        [heard],
        `token ${heard.token} is told to be ${heard.event}, and ${isReleased ? "its holder released it" : "nobody released it"}`,
      );
    if (before?.heard.token === heard.token && before.renewals !== null)
      this.#isComplete(heard, lease, before.renewals);
  }

  /** A release is not told without the lease that it ends. */
  #isDue(heard: Heard, lease: LeaseFacts, isNew: boolean): void {
    const since = this.#since;
    const isPlain = lease.session === null && lease.mayGrant.length === 0 && lease.name.forces.length === 0;
    if (isNew && since !== null && isPlain && lease.releases.every(({ began }) => began > since))
      this.#accuse([heard], `token ${heard.token} is told to be released, and its grant was left out`);
  }

  /** Nobody is told of a grant before it was asked for. */
  #wasAsked(heard: Heard, name: NameFacts): void {
    const lease = name.byToken.get(heard.token);
    // Operations are in the order in which they began.
    const asked = name.lostAcquires[0]?.began ?? Number.POSITIVE_INFINITY;
    const from = lease === undefined ? asked : grantedFrom(lease);
    if (heard.at < from)
      this.#accuse([heard], `token ${heard.token} was told at ${at(heard.at)}, and nobody had asked for it`);
  }

  /** Every renewal is told once. */
  #isComplete(heard: Heard, lease: LeaseFacts, told: number): void {
    const least = lease.renewals.length;
    // One of the acquires is the grant itself.
    const again = lease.grants.length - (lease.mayGrant.length === 0 ? 1 : 0);
    const most = least + again + lease.mayProlong.length;
    if (told < least || told > most)
      this.#accuse([heard], `token ${heard.token} was renewed ${least} times, and ${told} were told`);
  }

  #accuse(shown: readonly Heard[], says: string): void {
    const [{ stream, name }] = shown.slice(-1) as [Heard];
    this.violations.push({
      invariant: "I29",
      name,
      says: `watch ${stream}: ${says}`,
      operations: shown.map(({ index }) => index),
    });
  }
}

/** Between which instants a change that is told happened. */
function happened(
  { event }: Heard,
  lease: LeaseFacts,
  nth: number | null,
  history: History,
): { readonly from: number; readonly by: number } {
  const granted = grantedFrom(lease);
  if (event === "acquired") return { from: granted, by: grantedBy(lease) };
  if (event === "expired") return { from: heldUntil(lease, history), by: Number.POSITIVE_INFINITY };
  if (event === "released")
    return { from: Math.max(granted, mayEndFrom(lease, history)), by: releasedBy(lease) };
  const { renewals, grants, mayGrant, mayProlong } = lease;
  // Who asked again, or got no reply, may have been the one to renew.
  const isPlain = grants.length === 1 && mayGrant.length === 0 && mayProlong.length === 0;
  if (nth === null || nth < 1 || nth > renewals.length || !isPlain)
    return { from: granted, by: Number.POSITIVE_INFINITY };
  // Whichever of them it was: by then so many were done, and before not so many had been asked for.
  const nthOf = (instants: readonly number[]): number =>
    [...instants].sort((one, other) => one - other)[nth - 1] ?? granted;
  return { from: nthOf(renewals.map(({ began }) => began)), by: nthOf(renewals.map(({ ended }) => ended)) };
}

/** By then its holder had released it. */
const releasedBy = ({ releases }: LeaseFacts): number =>
  Math.min(...releases.filter(({ reply }) => reply.kind === "done").map(({ ended }) => ended));

function wordAfter(before: Word | undefined, heard: Heard): Word {
  if (heard.event === "acquired") return { heard, isOver: false, renewals: 0 };
  const known = before !== undefined && before.heard.token === heard.token ? before.renewals : null;
  const isRenewal = heard.event === "renewed";
  return { heard, isOver: !isRenewal, renewals: known === null ? null : known + Number(isRenewal) };
}
