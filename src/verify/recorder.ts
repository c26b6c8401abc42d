/** Writes a history while it happens. */
import type { History, Operation, Seen } from "./history.js";

export class Recorder {
  readonly #operations: Operation[] = [];
  readonly #seen: Seen[] = [];

  #lost = 0;

  constructor(readonly clockBoundMs: number) {}

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

  /** How many replies were lost. */
  get lost(): number {
    return this.#lost;
  }

  history(): History {
    return { operations: [...this.#operations], seen: [...this.#seen], clockBoundMs: this.clockBoundMs };
  }
}
