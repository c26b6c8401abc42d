/**
 * Refusals for lack of room, held back before they are told. To read a request and refuse it costs the server two thirds of
 * what granting it does: callers that ask again at once would, the more of them there are, leave ever less for those who are
 * let in. So the more refusals are held, the longer each is.
 */

/** In ms: who is refused alone comes back no sooner, and nobody is kept so long that it gives up before it is told (clients: 10 s). */
const leastMs = 200;
const mostMs = 5000;
/** Between two that are told, in ms, while no more than 1,250 are held. */
const apartMs = 4;
/** Each keeps its request in memory. Beyond it, say by callers that send many on one connection, they are told soonest. */
const heldMax = 10_000;

export class HeldBack {
  #held = 0;

  constructor(readonly after: (ms: number, run: () => void) => unknown = (ms, run) => setTimeout(run, ms)) {}

  add(tell: () => void): void {
    const ms = this.#held < heldMax ? Math.min(mostMs, Math.max(leastMs, this.#held * apartMs)) : leastMs;
    this.#held++;
    this.after(ms, () => {
      this.#held--;
      tell();
    });
  }
}
