// Latencies in fixed memory: a log-linear histogram of microseconds with 64 steps per doubling, so that a
// percentile is within 1.6 % of the truth and recording one value costs a few instructions.

const STEPS = 64;
const SIZE = 26 * STEPS;

export class Histogram {
  readonly #counts = new Uint32Array(SIZE);
  #total = 0;
  #maxMs = 0;

  record(ms: number): void {
    const micros = Math.max(0, Math.floor(ms * 1000));
    const index = indexOf(micros);
    this.#counts[index] = (this.#counts[index] ?? 0) + 1;
    this.#total += 1;
    if (ms > this.#maxMs) this.#maxMs = ms;
  }

  /** The latency in milliseconds that `share` (0 to 1) of the recorded values do not exceed; 0 when empty. */
  percentile(share: number): number {
    const rank = Math.ceil(this.#total * share);
    let seen = 0;
    for (let index = 0; index < SIZE; index += 1) {
      seen += this.#counts[index] ?? 0;
      if (seen >= rank && seen > 0) return Math.min(middleOf(index) / 1000, this.#maxMs);
    }
    return 0;
  }

  get maxMs(): number {
    return this.#maxMs;
  }
}

function indexOf(micros: number): number {
  const exponent = 31 - Math.clz32(micros);
  if (exponent < 7) return micros;
  const shift = exponent - 6;
  return Math.min(SIZE - 1, shift * STEPS + (micros >>> shift));
}

function middleOf(index: number): number {
  if (index < 2 * STEPS) return index;
  const shift = Math.floor(index / STEPS) - 1;
  return ((index % STEPS) + STEPS + 0.5) * 2 ** shift;
}
