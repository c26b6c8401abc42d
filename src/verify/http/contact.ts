/**
 * How a run stands with the service: whether it answers, how often it was too much for it, and which bearer tokens it
 * no longer takes. Shared by the labs of a run.
 */
import { monotonicMs } from "./clock.js";
import type { Heard } from "./exchange.js";

/** Since when, in ms of the machine's clock, and how many calls had no answer. */
export interface Silence {
  readonly from: number;
  readonly calls: number;
}

export class Contact {
  #silence: Silence | null = null;
  #rateLimited = 0;
  #unsent = 0;
  readonly #dismissed = new Map<string, number>();

  /** `onDismissed`: a bearer token was taken before and is not any more. */
  constructor(readonly onDismissed: () => void = () => undefined) {}

  /** What came of a call that began then. A reply that the caller did not wait for says nothing. */
  note(heard: Heard, principal: string, began: number): void {
    if (heard.kind !== "reply") {
      if (heard.why === "cut") return;
      if (heard.kind === "unsent") this.#unsent++;
      this.#silence = { from: this.#silence?.from ?? began, calls: (this.#silence?.calls ?? 0) + 1 };
      return;
    }
    this.#silence = null;
    if (heard.status === 429) this.#rateLimited++;
    if (heard.status !== 401 || this.#dismissed.has(principal)) return;
    this.#dismissed.set(principal, monotonicMs());
    this.onDismissed();
  }

  /** Null while the service answers. */
  get silence(): Silence | null {
    return this.#silence;
  }

  /** Calls that the service refused because they were too many. */
  get rateLimited(): number {
    return this.#rateLimited;
  }

  /** Calls that found no connection. */
  get unsent(): number {
    return this.#unsent;
  }

  /** By principal: when its bearer token was refused for the first time. */
  get dismissed(): ReadonlyMap<string, number> {
    return this.#dismissed;
  }
}
