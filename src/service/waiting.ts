/**
 * Acquiring, with or without a place in line. A waiter stands in line before it looks, so that no release can slip
 * through in between; it never polls. A grant that its waiter can no longer hear is taken back (unheard-grants.ts).
 */
import { type AcquireReply, decideAcquire } from "../core/acquire.js";
import { acquireKeys, type Heir } from "../core/heirs.js";
import type { Claim, Unheard } from "../core/lease.js";
import type { Policy } from "../core/limits.js";
import { placeOf, waitingElsewhere } from "../core/line.js";
import { type Holding, isUndecided, type Refusal } from "../core/refusal.js";
import type { Timer } from "../store/clock.js";
import { StoreError } from "../store/store.js";
import type { Queues, Waiter, WaitOutcome } from "./queues.js";
import { heirsOf, type Steps } from "./steps.js";
import { stoppedError } from "./stopped.js";
import { UnheardGrants } from "./unheard-grants.js";

/** How long a caller will wait, and how it says that it left. */
export interface Wait {
  readonly ms: number;
  /** Aborted when nobody listens any more. */
  readonly gone: AbortSignal;
}

export interface Acquired {
  /** The claim that was decided: a repeated request id goes on with the one that took the place in line. */
  readonly claim: Claim;
  readonly outcome: { readonly granted: Holding } | Refusal;
  readonly waiters: number;
  /** Place in line when the wait ended; with a request id it is kept for a while. */
  readonly position?: number;
}

/** How soon a waiter whose time is up looks again whether the grant on its way has come. */
const offeredMs = 50;

/** The wait was in vain: where it stood in line. */
interface TimeUp {
  readonly position: number;
}

interface Turn {
  readonly over: Promise<WaitOutcome | Error | TimeUp>;
  readonly stop: () => void;
  /** False once a repeat of the request took the place over. */
  readonly isMine: () => boolean;
}

export class Waiting {
  readonly unheard: UnheardGrants;

  constructor(
    readonly steps: Steps,
    readonly queues: Queues,
    readonly policy: Policy,
    readonly stopping: AbortSignal,
    /** Releases a lease that its claimer never learnt of. */
    giveBack: (claim: Claim, unheard: Unheard) => void,
    /** Told of the instant until which a restored server grants nothing. */
    readonly quietUntil: (at: number) => void,
    readonly after: Timer,
    /** Of a cluster: where in the line of all servers somebody stood who has left. */
    readonly placeLeft: (claim: Claim) => Promise<number> | undefined = () => undefined,
  ) {
    this.unheard = new UnheardGrants(queues.limits.ticketMs, stopping, giveBack, after);
  }

  acquire(claim: Claim, wait: Wait | null): Promise<Acquired> {
    return this.unheard.during(claim, wait?.gone, () =>
      wait === null || wait.ms === 0 ? this.#acquireNow(claim) : this.#acquireOrWait(claim, wait),
    );
  }

  async #acquireOrWait(claim: Claim, wait: Wait): Promise<Acquired> {
    const earlier = this.queues.withTicketOf(claim);
    if (earlier !== undefined && earlier.claim.request?.fingerprint !== claim.request?.fingerprint) {
      // What was granted counts, not who stands in line: the one in line may be the one that differs.
      const now = await this.#acquireNow(claim);
      return isWaitable(now.outcome) ? { ...now, outcome: { refused: "request_reused" } } : now;
    }
    const full = earlier === undefined ? this.queues.full(claim) : null;
    if (full === null) return this.#waitFresh(claim, wait);
    const now = await this.#acquireNow(claim);
    if ("granted" in now.outcome) return now;
    throw new StoreError("unavailable", `${full}: try again later, or without wait_seconds`);
  }

  async #acquireNow(claim: Claim): Promise<Acquired & Pick<AcquireReply, "line">> {
    const { outcome, line } = await this.steps.run(
      acquireKeys(claim),
      (view, successors) => this.unheard.noted(claim, decideAcquire(view, claim, this.policy, successors)),
      heirsOf,
    );
    return isUndecided(outcome) ? this.#acquireNow(claim) : this.#answer(claim, outcome, line);
  }

  #answer(
    claim: Claim,
    outcome: Acquired["outcome"],
    line?: AcquireReply["line"],
  ): Acquired & Pick<AcquireReply, "line"> {
    const { peerId } = this.queues;
    const elsewhere = line === undefined || peerId === null ? 0 : waitingElsewhere(line.turns, peerId);
    const waiting = elsewhere + this.queues.count(claim.space, claim.name);
    return {
      claim,
      outcome,
      waiters: "granted" in outcome ? 0 : waiting,
      ...(line === undefined ? {} : { line }),
    };
  }

  /**
   * Who takes over a place in line may be served by a step that was decided before it called. What that step left of the
   * lease's time is counted from too early a moment for this caller: it asks again.
   */
  async #waitFresh(claim: Claim, wait: Wait): Promise<Acquired> {
    const { store } = this.steps;
    const askedAt = store.now();
    const acquired = await this.#wait(claim, wait);
    const { outcome } = acquired;
    if (!("granted" in outcome) || outcome.granted.now >= askedAt) return acquired;
    const left = { ...wait, ms: wait.ms - (store.now() - askedAt) };
    return left.ms > 0 ? this.#acquireOrWait(claim, left) : this.#acquireNow(claim);
  }

  async #wait(asked: Claim, wait: Wait): Promise<Acquired> {
    const waiter = this.#standInLine(asked);
    const { claim } = waiter;
    const turn = this.#turnOf(waiter, wait);
    try {
      const outcome = await this.#look(claim).catch((error: unknown) => {
        // A repeat has not lost by this what its request id kept: it is told to ask again.
        if (claim !== asked && turn.isMine()) this.queues.abandon(waiter);
        // No answer for one whom another step is about to serve: it waits on. What that step leaves of the lease's time may be
        // counted from long before a repeat took the place over, which therefore asks again.
        if (waiter.presence !== "offered") throw error;
        if (claim !== asked)
          throw new StoreError("unknown", `it may be granted already: ${messageOf(error)}`);
        return null;
      });
      if (outcome !== null && !isWaitable(outcome)) {
        // Whoever took the place over meanwhile, and may be gone already, does not decide about this grant.
        if ("granted" in outcome && !turn.isMine() && !wait.gone.aborted)
          this.unheard.hear(outcome.granted.lock.lease.id);
        return this.#answer(claim, outcome);
      }
      if (
        outcome !== null &&
        "refused" in outcome &&
        outcome.refused === "delayed" &&
        outcome.why === "restore"
      )
        this.quietUntil(outcome.availableAt);
      const result = await turn.over;
      if (result instanceof Error) throw result;
      if ("position" in result) return await this.#timedOut(waiter, result);
      return this.#answer(claim, result);
    } finally {
      turn.stop();
      if (claim !== asked) this.unheard.forget(claim);
      // Only a place that is kept for a ticket outlives the call.
      if (!waiter.gone && turn.isMine()) this.queues.leave(waiter);
    }
  }

  /** The first look of one who stands in line. */
  async #look(claim: Claim): Promise<WaitOutcome> {
    const { outcome, line } = await this.steps.run(
      acquireKeys(claim),
      (view, successors) =>
        this.unheard.noted(claim, decideAcquire(view, claim, this.policy, successors, true)),
      (reply) => withOwn(claim, reply),
    );
    if (line?.isFull === true)
      throw new StoreError("unavailable", `${line.turns.length} wait for this name already: try again later`);
    return outcome;
  }

  /** A new place, or the one that the same request id took before. */
  #standInLine(claim: Claim): Waiter {
    const waiter = this.queues.withTicketOf(claim);
    if (waiter === undefined) return this.queues.join(claim);
    waiter.keepPlace?.();
    // Not "certainly not done": the one that took over may be granted.
    waiter.settle(
      new StoreError("unknown", "the same request id came again and took over the place in line"),
    );
    waiter.gone = false;
    if (waiter.presence === "absent") waiter.presence = "present";
    return waiter;
  }

  /** Resolves when the waiter was served, its time is up, it left, or the server stops. */
  #turnOf(waiter: Waiter, wait: Wait): Turn {
    let stop = (): void => undefined;
    const over = new Promise<WaitOutcome | Error | TimeUp>((resolve) => {
      // A grant that is on its way arrives, or fails, with the next commit.
      const timeUp = (): void => {
        if (waiter.presence === "offered") stopTimer = this.after(offeredMs, timeUp);
        else if (waiter.settle === resolve) {
          const position = this.queues.position(waiter);
          // At once: the first look may still be under way, and no other step may grant what this call gives up.
          this.queues.abandon(waiter);
          resolve({ position });
        }
      };
      let stopTimer = this.after(wait.ms, timeUp);
      const left = (): void => {
        // Whoever took the place over is still there.
        if (waiter.settle === resolve) this.queues.abandon(waiter);
        resolve(new StoreError("unavailable", "the caller left"));
      };
      const stopped = (): void => {
        stopTimer();
        if (waiter.presence === "offered") {
          stopTimer = this.after(offeredMs, stopped);
          return;
        }
        // At once: no step may still grant what is being told to be certainly not done.
        if (waiter.settle === resolve) this.queues.leave(waiter);
        resolve(stoppedError(this.stopping));
      };
      waiter.settle = resolve;
      wait.gone.addEventListener("abort", left, { once: true });
      this.stopping.addEventListener("abort", stopped, { once: true });
      stop = () => {
        stopTimer();
        wait.gone.removeEventListener("abort", left);
        this.stopping.removeEventListener("abort", stopped);
      };
      if (wait.gone.aborted) left();
      if (this.stopping.aborted) stopped();
    });
    const settle = waiter.settle;
    return { over, stop, isMine: () => waiter.settle === settle };
  }

  /** One last look. A ticket keeps its place; others are told where they stood. */
  async #timedOut(waiter: Waiter, { position }: TimeUp): Promise<Acquired> {
    const last = await this.#acquireNow(waiter.claim);
    if (!("granted" in last.outcome))
      return { ...last, position: await this.#placeOf(waiter, position, last) };
    this.queues.leave(waiter);
    return last;
  }

  /** In the line of all servers, of one who stood so far in that of this one. */
  async #placeOf(waiter: Waiter, position: number, last: Pick<AcquireReply, "line">): Promise<number> {
    if (last.line === undefined || this.queues.peerId === null) return position;
    const left = await this.placeLeft(waiter.claim);
    return left || placeOf(last.line.turns, waiter.turn) || last.line.turns.length + 1;
  }
}

/**
 * A look that ends the wait counts as serving it: until that is durable nobody else may grant to the waiter, and
 * afterwards its place is gone.
 */
const withOwn = (claim: Claim, { outcome, heirs }: AcquireReply): readonly Heir[] =>
  isWaitable(outcome) || heirs.some((heir) => heir.claim === claim) ? heirs : [...heirs, { claim, outcome }];

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

const isWaitable = (outcome: object): boolean =>
  "refused" in outcome &&
  (outcome.refused === "held" || outcome.refused === "delayed" || outcome.refused === "queued");
