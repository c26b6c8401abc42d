/**
 * How fast time passes for leases where servers share a clock: read off what is left of a long lease, again and again. That clock
 * may fall behind, while nobody reaches the database or on a busy machine, and leases then last longer; by how much is what
 * judges must allow for, and no more.
 */
import type { Terms } from "../history.js";
import { monotonicMs, sleep } from "./clock.js";
import type { Exchange, Heard } from "./exchange.js";
import type { Principal } from "./lab.js";

interface Reading {
  readonly began: number;
  readonly ended: number;
  readonly leftMs: number;
}

const everyMs = 200;
const timeoutMs = 1000;
const triesMax = 5;
/** The longest lease of a workload and its lock delay, by that clock. */
const spanMs = 8000;
/** How long the lease lasts beyond the run, in s: it is given back before, unless the run is killed. */
const beyondSeconds = 120;

/** What may last so much longer than a service states anyway. */
export const laterBy = (ms: number, terms: Terms = {}): Terms =>
  ms === 0 ? terms : { ...terms, lateMs: (terms.lateMs ?? 0) + ms };

export class ClockProbe {
  /** Those that one to come can be compared with, oldest first. */
  #readings: Reading[] = [];
  #lateMs = 0;
  readonly #over = new AbortController();
  readonly #reading: Promise<void>;

  /** `left`: how much is left of a lease that outlasts the probe, in ms; undefined: nobody said. */
  constructor(readonly left: () => Promise<number | undefined>) {
    this.#reading = this.#readOn();
  }

  /** How much later than the recorder's clock it was at most so far, over any span that a lease can last, in ms. */
  get lateMs(): number {
    return this.#lateMs;
  }

  async end(): Promise<number> {
    this.#over.abort();
    await this.#reading;
    return this.#lateMs;
  }

  async #readOn(): Promise<void> {
    while (!this.#over.signal.aborted) {
      const began = monotonicMs();
      const leftMs = await this.left();
      if (leftMs !== undefined) this.#note({ began, ended: monotonicMs(), leftMs });
      await sleep(everyMs, this.#over.signal);
    }
  }

  #note(reading: Reading): void {
    const ranMs = (before: Reading): number => before.leftMs - reading.leftMs;
    this.#readings = this.#readings.filter((before) => ranMs(before) <= spanMs);
    for (const before of this.#readings)
      this.#lateMs = Math.max(this.#lateMs, reading.ended - before.began - ranMs(before));
    this.#readings.push(reading);
  }
}

/** The probe of a run: over one lease of its own, which it gives back. */
export class LeaseClock {
  #ended: Promise<number> | undefined;

  private constructor(
    readonly probe: ClockProbe,
    readonly giveBack: () => Promise<unknown>,
  ) {}

  /** Null where the service does not grant so long a lease: then only what it states is allowed for. */
  static async start(
    exchange: Exchange,
    { bearer }: Principal,
    name: string,
    durationMs: number,
  ): Promise<LeaseClock | null> {
    const path = `/locks/${encodeURIComponent(name)}`;
    const post = (verb: string, body: object) =>
      known(() => exchange.ask(bearer, { method: "POST", path: `${path}/${verb}`, body }, { timeoutMs }));
    const ttl_seconds = Math.ceil(durationMs / 1000) + beyondSeconds;
    const { lease_id } = fieldsOf(await post("acquire", { ttl_seconds, request_id: name }));
    if (typeof lease_id !== "string") return null;
    const left = async (): Promise<number | undefined> => {
      const { expires_in_ms } = fieldsOf(await exchange.ask(bearer, { method: "GET", path }, { timeoutMs }));
      return typeof expires_in_ms === "number" ? expires_in_ms : undefined;
    };
    return new LeaseClock(new ClockProbe(left), () => post("release", { lease_id }));
  }

  /** As often as one likes. */
  end(): Promise<number> {
    this.#ended ??= this.probe.end().then(async (lateMs) => {
      await this.giveBack();
      return lateMs;
    });
    return this.#ended;
  }
}

/** Asks until it is known what became of it; after a while the last answer must do. */
async function known(ask: () => Promise<Heard>): Promise<Heard> {
  for (let tries = 1; ; tries++) {
    const heard = await ask();
    const isKnown = heard.kind === "reply" && heard.status < 500 && heard.status !== 429;
    if (isKnown || tries === triesMax) return heard;
    await sleep(everyMs * tries);
  }
}

interface Fields {
  readonly lease_id?: unknown;
  readonly expires_in_ms?: unknown;
}

const fieldsOf = (heard: Heard): Fields =>
  heard.kind === "reply" && typeof heard.body === "object" && heard.body !== null ? heard.body : {};
