/**
 * Tells a burst, which is gone in a moment, from a crowd that stays: callers that each ask again as soon as they are answered. A
 * crowd is over when nobody has met it for a moment. Without that pause the first to be answered would let all come back.
 */
const pauseMs = 250;

export class Crowd {
  #since = Number.NEGATIVE_INFINITY;
  #metAt = Number.NEGATIVE_INFINITY;

  /** For how long it has been here, in ms, now that one more call meets it. */
  meet(now: number): number {
    if (now - this.#metAt > pauseMs) this.#since = now;
    this.#metAt = now;
    return now - this.#since;
  }
}
