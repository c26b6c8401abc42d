/**
 * What every lease in somebody's hand has in common, whatever it is on: it is renewed behind the scenes, and `signal` and
 * `assertHeld` say when to stop, before the server can grant it to another.
 */
import { timerMaxMs } from "./durations.js";
import { isLoss, LeaseLostError } from "./errors.js";
import type { LeaseState } from "./lease-state.js";
import type { CallSignal } from "./locks.js";
import { refuseUnknown } from "./options.js";

/** Also where the language does not know it yet. */
const asyncDispose: typeof Symbol.asyncDispose =
  Symbol.asyncDispose ?? (Symbol.for("Symbol.asyncDispose") as typeof Symbol.asyncDispose);

export abstract class HeldLease {
  readonly #state: LeaseState;
  readonly #stopRenewal: () => void;
  readonly #controller = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #why: LeaseLostError | null = null;
  #released: Promise<void> | null = null;
  #wasReleased = false;

  constructor(
    readonly name: string,
    /** The fencing token: pass it along, and let the resource refuse a lower one. */
    readonly token: number,
    state: LeaseState,
    /** Begins to renew; told what to call when the lease is lost. Returns how to stop. */
    renew: (lost: (why: string) => void) => () => void,
  ) {
    this.#state = state;
    makeCurrent(this.#controller.signal, () => this.#look());
    this.#stopRenewal = renew((why) => this.#lose(why));
    this.#watch();
  }

  /** Tells the server that it is over. */
  protected abstract giveBack(options: CallSignal): Promise<void>;

  /** Aborted when the lease is lost or released. Current at every line, also right after the process was stopped. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Whether the work may go on. */
  get held(): boolean {
    this.#look();
    return this.#why === null;
  }

  /** Until when the lease is trusted if no renewal succeeds any more, by this machine's clock. */
  get safeUntil(): Date {
    return this.#state.safeUntil;
  }

  /** Throws LeaseLostError unless the work may go on. Looks at the clocks, not at events: right at any line. */
  assertHeld(): void {
    this.#look();
    if (this.#why !== null) throw this.#why;
  }

  /** Whether the work ended the lease itself. */
  get released(): boolean {
    return this.#wasReleased;
  }

  /**
   * Ends the lease. Releasing one that is lost, or released already, does nothing. One that could not be released ends
   * by itself when its time is up, and may be released again before.
   */
  release(options: CallSignal = {}): Promise<void> {
    this.#released ??= this.#release(options).catch((error: unknown) => {
      this.#released = null;
      throw error;
    });
    return this.#released;
  }

  /** For `await using`. What cannot be released now ends by itself; the work's own outcome matters more. */
  [asyncDispose](): Promise<void> {
    return this.release().catch(() => undefined);
  }

  async #release(options: CallSignal): Promise<void> {
    refuseUnknown("release", options);
    if (!this.#wasReleased && !this.#look()) return;
    this.letGo("it was released");
    try {
      await this.giveBack(options);
    } catch (error) {
      // Over already: nothing is left to release.
      if (!isLoss(error)) throw error;
    }
  }

  /** From here on the lease is not trusted or renewed any more, because the work itself wants it so. */
  protected letGo(why: string): void {
    this.#wasReleased = true;
    this.#end(new LeaseLostError(this.name, why));
  }

  /** Asks the work to stop, for another reason than the lease: that is held and renewed until it is released. */
  protected askToStop(reason: unknown): void {
    this.#controller.abort(reason);
  }

  #watch(): void {
    const left = this.#state.leftMs();
    this.#timer = setTimeout(() => this.#look() && this.#watch(), Math.min(Math.ceil(left), timerMaxMs));
  }

  /** Whether it is still trusted; aborts if not. */
  #look(): boolean {
    if (this.#why === null && this.#state.leftMs() === 0)
      this.#lose(
        this.#state.why ??
          "it was not renewed in time (the process was stopped or blocked, or the server out of reach)",
      );
    return this.#why === null;
  }

  #lose(why: string): void {
    this.#end(new LeaseLostError(this.name, why));
  }

  #end(why: LeaseLostError): void {
    if (this.#why !== null) return;
    this.#why = why;
    this.#state.end();
    clearTimeout(this.#timer);
    this.#stopRenewal();
    this.#controller.abort(why);
  }
}

/**
 * Whoever reads the signal is told what the clocks say at that line. By itself a signal knows only what the event loop
 * had time to tell it, which after a stall is nothing yet.
 */
function makeCurrent(signal: AbortSignal, look: () => void): void {
  const aborted = Object.getOwnPropertyDescriptor(AbortSignal.prototype, "aborted")?.get;
  const throwIfAborted = AbortSignal.prototype.throwIfAborted;
  if (aborted === undefined) return;
  Object.defineProperties(signal, {
    aborted: {
      get: () => {
        if (!aborted.call(signal)) look();
        return aborted.call(signal);
      },
    },
    throwIfAborted: {
      value: () => {
        look();
        throwIfAborted.call(signal);
      },
    },
  });
}
