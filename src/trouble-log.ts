/**
 * What the log says of things that are tried over and over: a line when one begins to fail, one a minute while it goes on, one when
 * it works again. What fails while the store does is a consequence of that, and not said.
 */
import { type Clocks, type Stop, systemClocks, systemTimer, type Timer } from "./store/clock.js";
import { type Report, theStore } from "./store/report.js";
import { MovedError, StoreError } from "./store/store.js";

/** How often it is said that something still fails, in ms. */
const remindMs = 60_000;
/** What works is over its trouble once it has not failed for so long, in ms: all that is tried again is tried within that. */
const quietMs = 2_000;

interface Trouble {
  readonly beganAt: number;
  failedAt: number;
  failures: number;
  /** When it was last said; null: not at all. */
  saidAt: number | null;
  /** Calls off that it is over. */
  stopOver: Stop | null;
}

/** As a logger of pino. */
export type Say = Readonly<Record<"info" | "warn" | "error", (fields: object, text: string) => void>>;

export class TroubleLog {
  readonly #troubles = new Map<string, Trouble>();

  constructor(
    readonly log: Say,
    readonly clocks: Clocks = systemClocks,
    readonly after: Timer = systemTimer,
  ) {}

  readonly report: Report = (what, failure) => {
    if (failure === null) this.#worked(what);
    else this.#failed(what, failure);
  };

  #failed(what: string, failure: unknown): void {
    const now = this.clocks.monotonic();
    const trouble = this.#troubleOf(what, now);
    trouble.failures++;
    trouble.failedAt = now;
    trouble.stopOver?.();
    trouble.stopOver = null;
    if (!this.#isNews(what, failure, trouble, now)) return;
    const text = `${what} ${trouble.saidAt === null ? "fails" : "still fails"}`;
    trouble.saidAt = now;
    const level = what === theStore ? "error" : "warn";
    // Where a known failure was found out says nothing; of anything else it is all there is.
    if (failure instanceof StoreError) this.log[level]({}, `${text}: ${failure.message}`);
    else this.log[level]({ err: failure }, text);
  }

  #troubleOf(what: string, now: number): Trouble {
    const known = this.#troubles.get(what);
    // Of what is not tried again nobody hears that it works: after a while a failure is another one.
    if (known !== undefined && now - known.failedAt < remindMs) return known;
    known?.stopOver?.();
    const trouble = { beganAt: now, failedAt: now, failures: 0, saidAt: null, stopOver: null };
    this.#troubles.set(what, trouble);
    return trouble;
  }

  #isNews(what: string, failure: unknown, { saidAt }: Trouble, now: number): boolean {
    // The last that is heard of a store, whatever was said before.
    if (what === theStore && failure instanceof MovedError) return true;
    if (what !== theStore && failure instanceof StoreError && this.#troubles.has(theStore)) return false;
    return saidAt === null || now - saidAt >= remindMs;
  }

  #worked(what: string): void {
    const trouble = this.#troubles.get(what);
    if (trouble === undefined || trouble.stopOver !== null) return;
    trouble.stopOver = this.after(quietMs, () => {
      this.#troubles.delete(what);
      if (trouble.saidAt === null) return;
      const lastedMs = Math.round(trouble.failedAt - trouble.beganAt);
      this.log.info({ failures: trouble.failures, lasted_ms: lastedMs }, `${what} works again`);
    });
  }
}
