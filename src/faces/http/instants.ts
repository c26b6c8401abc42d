/**
 * Engine time as people read it. The difference to the wall clock is held still while the two agree, so that the
 * same lease shows the same `expires_at` in every reply.
 */
import type { Clocks } from "../../store/clock.js";

/** Beyond this the wall clock was set, and what is shown follows it. */
const toleranceMs = 50;

export class Instants {
  #offset: number;

  constructor(
    readonly clocks: Clocks,
    readonly engineNow: () => number,
  ) {
    this.#offset = this.#measure();
  }

  #measure(): number {
    return Math.round(this.clocks.wall()) - this.engineNow();
  }

  /** RFC 3339 in UTC. */
  text(engineAt: number): string {
    const measured = this.#measure();
    if (Math.abs(measured - this.#offset) > toleranceMs) this.#offset = measured;
    return new Date(engineAt + this.#offset).toISOString();
  }
}
