/**
 * Waiting a moment for a fuller batch. Who was just answered often asks again at once; a batch that leaves before they are
 * there takes half of them, and the other half waits for all of it. So the next batch waits until as many have come, for a small
 * part of the time that a batch takes: where that is little, for none.
 */

/** Fewer callers than this are not waited for. */
const callsMin = 4;
/** How much of a batch's time, and at most how many ms. */
const share = 0.2;
const waitMaxMs = 4;
/** A timer cannot wait for less. */
const waitMinMs = 1;

export class Gathering {
  #wanted = 0;
  #timer: NodeJS.Timeout | undefined;

  /** A batch of so many calls has ended that took so long; others wait already. `go`: it is over. */
  begin(calls: number, tookMs: number, waiting: number, go: () => void): void {
    this.end();
    const waitMs = Math.min(waitMaxMs, tookMs * share);
    if (calls < callsMin || waitMs < waitMinMs) return;
    this.#wanted = calls + waiting;
    this.#timer = setTimeout(() => {
      this.end();
      go();
    }, waitMs);
  }

  /** Whether a batch of so many calls should wait for more. */
  isFor(calls: number): boolean {
    return this.#timer !== undefined && calls < this.#wanted;
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
