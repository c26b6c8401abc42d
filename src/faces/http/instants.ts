/**
 * Engine time as people read it. The difference to the wall clock is held still while the two agree, so that the
 * same lease shows the same `expires_at` in every reply.
 */
import type { Clocks } from "../../store/clock.js";
import { instantMax } from "../../wire/instant-max.js";

/** Beyond this the wall clock was set, and what is shown follows it. */
const toleranceMs = 50;
/** How often the two clocks are compared. */
const compareMs = 100;
/** Seconds whose text is remembered: a reply tells up to four instants, and they cluster. */
const secondsMax = 256;

export class Instants {
  readonly #timer: NodeJS.Timeout;
  readonly #seconds = new Map<number, string>();
  #offset: number;

  constructor(
    readonly clocks: Clocks,
    readonly engineNow: () => number,
    /** Where the store keeps what the wall clock said. */
    readonly offsetAt?: (engineAt: number) => number,
  ) {
    this.#offset = this.#measure();
    this.#timer = setInterval(() => {
      const measured = this.#measure();
      if (Math.abs(measured - this.#offset) > toleranceMs) this.#offset = measured;
    }, compareMs).unref();
  }

  #measure(): number {
    return this.wall() - this.engineNow();
  }

  /** The wall clock now, for what must be told for ever as it was. */
  wall(): number {
    return Math.round(this.clocks.wall());
  }

  /** Milliseconds of Unix time, as `text` shows it. */
  epochMs(engineAt: number): number {
    return Math.min(engineAt + (this.offsetAt?.(engineAt) ?? this.#offset), instantMax);
  }

  /** RFC 3339 in UTC. */
  text(engineAt: number): string {
    const at = this.epochMs(engineAt);
    const second = Math.floor(at / 1000);
    let text = this.#seconds.get(second);
    if (text === undefined) {
      text = new Date(second * 1000).toISOString().slice(0, -4);
      if (this.#seconds.size >= secondsMax) this.#seconds.clear();
      this.#seconds.set(second, text);
    }
    const ms = at - second * 1000;
    return `${text}${ms < 10 ? "00" : ms < 100 ? "0" : ""}${ms}Z`;
  }

  close(): void {
    clearInterval(this.#timer);
  }
}
