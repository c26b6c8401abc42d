/**
 * The signals that `holdfast run` and `holdfast hold` catch from their first line to their last, so that none ends them
 * between two steps with a lease in hand. What is done about one depends on the step.
 */
const caught = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGCONT"] as const;
/** Those that mean: stop. */
const ending: readonly string[] = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"];

export class Signals {
  readonly #stop = new AbortController();
  #forward: ((signal: NodeJS.Signals) => void) | null = null;

  constructor() {
    for (const signal of caught) process.on(signal, this.#hear);
  }

  /** Aborted, with the signal's name as the reason, by the first that came before `forwardTo`. */
  get stop(): AbortSignal {
    return this.#stop.signal;
  }

  /** From here on they are passed on. */
  forwardTo(forward: (signal: NodeJS.Signals) => void): void {
    this.#forward = forward;
  }

  readonly #hear = (signal: NodeJS.Signals): void => {
    if (this.#forward !== null) this.#forward(signal);
    else if (ending.includes(signal)) this.#stop.abort(signal);
  };
}
