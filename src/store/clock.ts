/** The two clocks of this machine and its timer, injected so that tests and simulations can turn them. */
export interface Clocks {
  /** Never goes back, unaffected by steps of the wall clock. Milliseconds. */
  readonly monotonic: () => number;
  /** What the machine believes the time is. Milliseconds since 1970. */
  readonly wall: () => number;
}

export const systemClocks: Clocks = {
  monotonic: () => performance.now(),
  wall: () => Date.now(),
};

/** Calls off what was to be done; too late or again, it does nothing. */
export type Stop = () => void;

/** Runs something once, after so many milliseconds and never within the call. Keeps no process alive. */
export type Timer = (ms: number, run: () => void) => Stop;

export const systemTimer: Timer = (ms, run) => {
  const timer = setTimeout(run, ms).unref();
  return () => clearTimeout(timer);
};
