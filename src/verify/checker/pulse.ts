/**
 * How long a service answered: what lateness is measured by. Time counts only while replies keep coming to the one
 * who records, so neither a service that is down, stopped or cut off is late for it, nor a recorder that stood still.
 */
import type { History } from "../history.js";

type Window = NonNullable<History["upsets"]>[number];

/** Between two replies: beyond this nobody knows whether the service, or the recorder, was there. */
const silenceMaxMs = 250;

class Pulse {
  /** When replies came, in order. */
  readonly #ends: readonly number[];
  /** By reply: how long the service had answered until then, in ms. */
  readonly #answeredMs: readonly number[];

  constructor(ends: readonly number[], upsets: readonly Window[]) {
    this.#ends = [...ends].sort((one, other) => one - other);
    let last = Number.NEGATIVE_INFINITY;
    let sum = 0;
    this.#answeredMs = this.#ends.map((at) => {
      const isUpset = upsets.some(({ from, to }) => from < at && to > last);
      if (at - last <= silenceMaxMs && !isUpset) sum += at - last;
      last = at;
      return sum;
    });
  }

  /** When the service had answered for this long since then; infinite where the history ends before. */
  after(from: number, ms: number): number {
    const first = firstAbove(this.#ends, (at) => at >= from);
    const start = this.#answeredMs[first];
    if (start === undefined) return Number.POSITIVE_INFINITY;
    const due = firstAbove(this.#answeredMs, (sum) => sum - start >= ms);
    return this.#ends[due] ?? Number.POSITIVE_INFINITY;
  }
}

/** The place of the first that is; what follows it is as well. */
function firstAbove(values: readonly number[], is: (value: number) => boolean): number {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (is(values[middle] ?? 0)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** One pulse for each who records. */
export class Pulses {
  readonly #pulses = new Map<string, Pulse>();

  constructor({ operations, upsets = [] }: Pick<History, "operations" | "upsets">) {
    const ends = new Map<string, number[]>();
    for (const { recorder = "", reply, ended } of operations) {
      if (reply.kind === "unknown" || reply.kind === "refused") continue;
      const known = ends.get(recorder);
      if (known === undefined) ends.set(recorder, [ended]);
      else known.push(ended);
    }
    for (const [recorder, all] of ends) this.#pulses.set(recorder, new Pulse(all, upsets));
  }

  /** When the service had answered this recorder for so long since then. */
  after(recorder: string | undefined, from: number, ms: number): number {
    return this.#pulses.get(recorder ?? "")?.after(from, ms) ?? Number.POSITIVE_INFINITY;
  }
}
