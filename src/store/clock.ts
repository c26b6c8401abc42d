/** The two clocks of this machine, injected so that tests and simulations can turn them. */
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
