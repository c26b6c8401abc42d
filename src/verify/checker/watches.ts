/**
 * I29: what a watch tells is in order, without gaps and without repeats, and is true. A stream is held against itself
 * (each lease is acquired, renewed and ended, in this order, and tokens rise) and against the operations: it leaves
 * out nothing that a caller was told, and tells nothing that no call explains. With `reset` and a new snapshot it
 * begins anew. How soon an event comes is not judged.
 */
import type { Violation } from "../check.js";
import type { Seen } from "../history.js";
import { heldUntil, mayEndFrom } from "./holds.js";
import { grantedBy, grantedFrom, type LeaseFacts, type Ledger, type NameFacts } from "./ledger.js";
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

export function checkWatches(ledger: Ledger): Violation[] {
  const violations: Violation[] = [];
  const streams = new Map<string, Stream>();
  ledger.history.seen.forEach((seen, index) => {
    const stream = streams.get(seen.stream) ?? new Stream(ledger, violations);
    streams.set(seen.stream, stream);
    stream.hear({ ...seen, index });
  });
  return violations;
}

class Stream {
  readonly #words = new Map<string, Word>();
  readonly #ids = new Map<string, Heard>();
  /** Of all grants told so far the one that was asked for last. */
  #latest: { readonly heard: Heard; readonly from: number } | null = null;

  constructor(
    readonly ledger: Ledger,
    readonly violations: Violation[],
  ) {}

  hear(heard: Heard): void {
    if (heard.event === "reset" || heard.event === "snapshot" || heard.event === "synced") {
      this.#words.clear();
      this.#ids.clear();
      this.#latest = null;
      return;
    }
    const twin = heard.id === null ? undefined : this.#ids.get(heard.id);
    if (heard.id !== null) this.#ids.set(heard.id, heard);
    if (twin !== undefined) {
      this.#accuse([twin, heard], `event ${heard.id} came twice`);
      return;
    }
    const name = this.ledger.names.get(heard.name);
    const before = this.#words.get(heard.name);
    if (before !== undefined) this.#inOrder(before, heard, name);
    if (name !== undefined) this.#isTrue(heard, name, before);
    this.#words.set(heard.name, wordAfter(before, heard));
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
  #isTrue(heard: Heard, name: NameFacts, before: Word | undefined): void {
    const lease = name.byToken.get(heard.token);
    if (heard.event === "acquired") this.#isGrant(heard, name, lease);
    if (lease === undefined || heard.event === "acquired" || heard.event === "renewed") return;
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

  #isGrant(heard: Heard, name: NameFacts, lease: LeaseFacts | undefined): void {
    // Operations are in the order in which they began.
    const asked = name.lostAcquires[0]?.began ?? Number.POSITIVE_INFINITY;
    const from = lease === undefined ? asked : grantedFrom(lease);
    if (heard.at < from)
      this.#accuse([heard], `token ${heard.token} was told at ${at(heard.at)}, and nobody had asked for it`);
    if (lease === undefined) return;
    if (this.#latest !== null && grantedBy(lease) < this.#latest.from)
      this.#accuse(
        [this.#latest.heard, heard],
        `token ${heard.token} of ${heard.name} was granted before token ${this.#latest.heard.token} of ${this.#latest.heard.name} was asked for, and told after it`,
      );
    if (this.#latest === null || from > this.#latest.from) this.#latest = { heard, from };
  }

  /** Every renewal is told once. */
  #isComplete(heard: Heard, lease: LeaseFacts, told: number): void {
    const least = lease.renewals.length;
    const most = least + lease.grants.length + lease.mayProlong.length;
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

function wordAfter(before: Word | undefined, heard: Heard): Word {
  if (heard.event === "acquired") return { heard, isOver: false, renewals: 0 };
  const known = before !== undefined && before.heard.token === heard.token ? before.renewals : null;
  const isRenewal = heard.event === "renewed";
  return { heard, isOver: !isRenewal, renewals: known === null ? null : known + Number(isRenewal) };
}
