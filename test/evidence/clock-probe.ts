// How fast time passes for leases where servers share a clock: read off what is left of a long lease, again and again. That clock
// may fall behind, while nobody reaches the database or on a busy machine, and leases then last longer; by how much is what
// judges must allow for, and no more.
import type { Terms } from "../../src/verify/history.js";
import { monotonicMs, sleep } from "../../src/verify/http/clock.js";
import { call } from "../server.js";
import type { Engine } from "./engines.js";
import type { Node } from "./faults/fault.js";
import { operator } from "./principals.js";

interface Reading {
  readonly began: number;
  readonly ended: number;
  readonly leftMs: number;
}

interface Answer {
  readonly expires_in_ms?: number;
}

const name = "evidence-clock";
/** Beyond any cell. */
const ttlSeconds = 3600;
const everyMs = 200;
const timeoutMs = 1000;
/** The longest lease of a workload and its lock delay, by that clock. */
const spanMs = 8000;

/** What may last so much longer than an engine states anyway. */
export const laterBy = (ms: number, terms: Terms = {}): Terms =>
  ms === 0 ? terms : { ...terms, lateMs: (terms.lateMs ?? 0) + ms };

export class ClockProbe {
  readonly #readings: Reading[] = [];
  readonly #over = new AbortController();
  #reading = Promise.resolve();

  /** Null where a server has a clock of its own. */
  static async of(
    { databaseOf }: Engine,
    nodes: readonly Pick<Node, "server">[],
  ): Promise<ClockProbe | null> {
    return databaseOf === undefined ? null : ClockProbe.start(nodes);
  }

  static async start(nodes: readonly Pick<Node, "server">[]): Promise<ClockProbe> {
    const probe = new ClockProbe();
    const body = { ttl_seconds: ttlSeconds };
    const [first] = nodes;
    if (first === undefined) throw new Error("there is no server");
    const { status } = await call(first.server, "POST", `/locks/${name}/acquire`, {
      token: operator.bearer,
      body,
    });
    if (status !== 200) throw new Error(`the clock cannot be looked at: ${status}`);
    probe.#reading = probe.#readOn(nodes);
    return probe;
  }

  /** How much later than the recorder's clock it was at most over any span that a lease can last, in ms. */
  async end(): Promise<number> {
    this.#over.abort();
    await this.#reading;
    if (this.#readings.length < 2) throw new Error("nobody told how time passed for leases");
    let lost = 0;
    this.#readings.forEach((one, nth) => {
      for (const other of this.#readings.slice(nth + 1)) {
        const ranMs = one.leftMs - other.leftMs;
        if (ranMs > spanMs) break;
        lost = Math.max(lost, other.ended - one.began - ranMs);
      }
    });
    return lost;
  }

  async #readOn(nodes: readonly Pick<Node, "server">[]): Promise<void> {
    for (let nth = 0; !this.#over.signal.aborted; nth++) {
      const node = nodes[nth % nodes.length];
      const began = monotonicMs();
      const signal = AbortSignal.timeout(timeoutMs);
      const leftMs =
        node &&
        (await call<Answer>(node.server, "GET", `/locks/${name}`, { token: operator.bearer, signal }).then(
          ({ body }) => body.expires_in_ms,
          () => undefined, // it is down, or cut off
        ));
      if (leftMs !== undefined) this.#readings.push({ began, ended: monotonicMs(), leftMs });
      await sleep(everyMs, this.#over.signal);
    }
  }
}
