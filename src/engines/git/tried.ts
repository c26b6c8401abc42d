/**
 * What a step has tried so far, and what may therefore be said of it: a swap whose answer was lost may have been made, and
 * what it wrote may be gone again by the next look.
 */
import type { Decided } from "../../core/decision.js";
import type { Key } from "../../core/keys.js";
import type { LockRecord } from "../../core/records.js";
import { StoreError } from "../../store/store.js";
import type { Authority, Swap, SwapEnd } from "./authority.js";
import type { Guard } from "./guard-blob.js";
import { changesIn } from "./lock-change.js";

/** A step as it was sent. */
export interface Written<Reply> {
  readonly reply: Reply;
  readonly decision: Decided<Reply>;
  readonly swaps: readonly Swap[];
  /** The lock that it removes, and the guard as it is written before that. */
  readonly removal: Removal | null;
}

export interface Removal {
  readonly space: string;
  readonly token: number;
  readonly guard: Guard | null;
}

type Oids = ReadonlyMap<string, string | null>;

/** Whether nothing is left that tells who ended the lease that was ended in `free`. */
const isForgotten = ({ previous }: LockRecord, now: LockRecord | null): boolean =>
  previous !== null && now?.lease?.id !== previous.leaseId && now?.previous?.leaseId !== previous.leaseId;

/** Looks in a row that found everything as it was before a swap that was lost: then it was lost to nobody. */
const standstillMin = 3;

export class Tried<Reply> {
  readonly #written = new Map<string, Written<Reply>>();
  readonly #unanswered: Written<Reply>[] = [];
  #lost: readonly Swap[] = [];
  #standstill = 0;

  /** A swap had no answer: nothing is certain until a look shows what became of it. */
  get isUncertain(): boolean {
    return this.#unanswered.length > 0;
  }

  /** Before it is sent. */
  sends(now: Written<Reply>): void {
    const fresh = now.swaps.at(-1)?.fresh;
    if (fresh) this.#written.set(fresh, now);
  }

  ended(now: Written<Reply>, end: Exclude<SwapEnd, "done">): void {
    if (end === "unknown") this.#unanswered.push(now);
    this.#lost = now.swaps;
  }

  /** What a look after it shows to have been written, whatever was answered. */
  landed(oids: Oids): Written<Reply> | undefined {
    const isSame = this.#lost.every(({ ref, old }) => !oids.has(ref) || oids.get(ref) === old);
    this.#standstill = this.#lost.length > 0 && isSame ? this.#standstill + 1 : 0;
    for (const oid of oids.values()) {
      const now = oid === null ? undefined : this.#written.get(oid);
      if (now !== undefined) return now;
    }
    return undefined;
  }

  /**
   * Whether it may have been made and be over by now, so that nothing tells any more. Whoever is refused then would take it for
   * certain that it never was.
   */
  isOvertaken(get: (key: Key<LockRecord>) => LockRecord | null | undefined): boolean {
    return this.#unanswered.some(({ decision }) => {
      const { lock, requests } = changesIn(decision.writes);
      if (lock?.record == null || requests.length > 0) return false;
      const now = get(lock.key as Key<LockRecord>);
      if (now === undefined) return false;
      return lock.record.lease === null
        ? isForgotten(lock.record, now)
        : (now?.token ?? 0) > lock.record.token;
    });
  }

  /** It was tried for long enough. */
  givenUp({ place, obstacle, isRemote }: Authority): StoreError {
    const why = obstacle === null ? "" : ` (git said: ${obstacle})`;
    if (this.#standstill < standstillMin)
      return new StoreError(
        "contended",
        `others kept changing the same lock at ${place}: try again, or see holdfast doctor${why}`,
      );
    const refs = this.#lost.map(({ ref }) => ref).join(" and ");
    const where = isRemote ? "there" : "here";
    return new StoreError(
      "unavailable",
      `${place} does not change ${refs}, though nobody else did either: a git process that was killed ${where} may have left a file behind that ends in .lock${why}`,
    );
  }

  /** What is told instead of an error, if a swap had no answer. */
  told(error: unknown): unknown {
    if (!this.isUncertain || !(error instanceof StoreError) || error.kind === "corrupt") return error;
    const why = error.message.replace(", and nothing was taken", "");
    return new StoreError("unknown", `it may have been written: look with lock status (${why})`);
  }
}
