/**
 * Engine time: what leases are measured by. While the process runs it is the monotonic clock, so that a step of
 * the wall clock moves no lease. Over a restart it goes on by the wall time that passed, never backwards.
 */
import type { Clocks } from "../../store/clock.js";

export class EngineClock {
  readonly #clocks: Clocks;
  #base = 0;
  #since = 0;

  constructor(clocks: Clocks) {
    this.#clocks = clocks;
  }

  /** Continues from a stored pair; a new file begins at the wall time, which is then only a number. */
  start(engineAt: number, wallAt: number): void {
    const wall = Math.floor(this.#clocks.wall());
    this.#base = engineAt === 0 ? wall : engineAt + Math.max(0, wall - wallAt);
    this.#since = this.#clocks.monotonic();
  }

  now(): number {
    return Math.floor(this.#base + this.#clocks.monotonic() - this.#since);
  }

  wall(): number {
    return Math.floor(this.#clocks.wall());
  }
}
