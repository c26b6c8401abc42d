/** Writes a history while it happens. */
import type { History, Operation, Seen, Terms, Timely } from "./history.js";

/** An operation that is under way. */
export type Asking = Omit<Operation, "ended" | "reply">;

export class Recorder {
  readonly #operations: Operation[] = [];
  readonly #seen: Seen[] = [];
  readonly #asking = new Set<Asking>();

  #lost = 0;

  constructor(
    readonly clockBoundMs: number,
    readonly timely?: Timely,
    readonly terms?: Terms,
  ) {}

  /** What is asked, until it is over: a history that is looked at meanwhile must not leave it out. */
  asking(asking: Asking): { readonly over: () => void } {
    this.#asking.add(asking);
    return { over: () => void this.#asking.delete(asking) };
  }

  /** Operations are kept in the order in which they ended. */
  operation(operation: Operation): void {
    this.#operations.push(operation);
    if (operation.reply.kind === "unknown") this.#lost++;
  }

  saw(seen: Seen): void {
    this.#seen.push(seen);
  }

  get operations(): readonly Operation[] {
    return this.#operations;
  }

  get seen(): readonly Seen[] {
    return this.#seen;
  }

  /** What is under way, as if no reply were to come. */
  get underWay(): readonly Operation[] {
    return [...this.#asking].map((asking) => ({
      ...asking,
      ended: Number.POSITIVE_INFINITY,
      reply: { kind: "unknown", why: "under way" },
    }));
  }

  /** How many replies were lost. */
  get lost(): number {
    return this.#lost;
  }

  history(): History {
    const { clockBoundMs, timely, terms } = this;
    return {
      operations: [...this.#operations],
      seen: [...this.#seen],
      clockBoundMs,
      ...(timely === undefined ? {} : { timely }),
      ...(terms === undefined ? {} : { terms }),
    };
  }
}
