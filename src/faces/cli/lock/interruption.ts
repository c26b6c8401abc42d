/** Ctrl-C, and whoever else ends a command that is asking for a lease: told once, answered by leaving nothing behind. */
import { constants } from "node:os";
import { setImmediate as nextTurn } from "node:timers/promises";
import { CliError } from "../failure.js";

const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** From its making to `end` the first signal is only noticed; a second one ends the command at once. */
export class Interruption {
  readonly #controller = new AbortController();
  readonly #notice = (signal: NodeJS.Signals): void => {
    this.end();
    this.#controller.abort(signal);
  };

  constructor() {
    for (const signal of signals) process.on(signal, this.#notice);
  }

  /** Aborted with the interruption. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Also one that has come while nobody looked. */
  async happened(): Promise<boolean> {
    await nextTurn();
    return this.signal.aborted;
  }

  end(): void {
    for (const signal of signals) process.removeListener(signal, this.#notice);
  }

  /** Exits as a command does that the signal ended. */
  error(message: string): CliError {
    const code = 128 + constants.signals[this.signal.reason as NodeJS.Signals];
    return new CliError(message, code, { code: "interrupted" });
  }
}
