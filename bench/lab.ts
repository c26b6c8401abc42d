// What a scenario works with: fresh servers, a load process of its own, the options, and a list of failures.
// A failure is a broken promise (an unexpected status, over 1 % not acquired, a token out of order), never a
// slow figure; it makes the bench exit non-zero.

import { temporaryDirectory } from "./children.js";
import { LoadProcess } from "./load-process.js";
import type { Options } from "./options.js";
import type { Order, Tally, Work } from "./orders.js";
import { type Holdfast, startEcho, startHoldfast, type Target } from "./server.js";

const NOT_GOOD_MAX = 0.01;

export class Lab {
  readonly options: Options;
  readonly failures: string[] = [];
  readonly say: (text: string) => void;
  /** One for each target that is called at the same time. */
  readonly #loads = [new LoadProcess()];
  readonly #targets: Target[] = [];

  constructor(options: Options, say: (text: string) => void) {
    this.options = options;
    this.say = say;
  }

  /** A Holdfast on an empty data directory, or on that of one stopped before. */
  async holdfast(dataDirectory = temporaryDirectory(this.options.tmp), store?: string): Promise<Holdfast> {
    const server = await startHoldfast(this.options.program, dataDirectory, store);
    this.#targets.push(server);
    return server;
  }

  async echo(replies: Readonly<Record<string, string>>): Promise<Target> {
    const server = await startEcho(replies);
    this.#targets.push(server);
    return server;
  }

  /**
   * Carries out an order. Every reply must be a 200 or 201 and all but 1 % must be of the `good` kinds; what is not
   * becomes a failure, and the tally comes back all the same.
   */
  run(target: Target, work: Work, extent: Partial<Order>, good: readonly string[]): Promise<Tally> {
    return this.#run(0, target, work, extent, good);
  }

  /** The same for several targets at once, each with work and a load process of its own. */
  runAll(
    targets: readonly (readonly [Target, Work])[],
    extent: Partial<Order>,
    good: readonly string[],
  ): Promise<Tally[]> {
    while (this.#loads.length < targets.length) this.#loads.push(new LoadProcess());
    return Promise.all(targets.map(([target, work], nth) => this.#run(nth, target, work, extent, good)));
  }

  async #run(
    nth: number,
    target: Target,
    work: Work,
    extent: Partial<Order>,
    good: readonly string[],
  ): Promise<Tally> {
    const load = this.#loads[nth];
    if (load === undefined) throw new Error(`there is no load process ${nth}`);
    const tally = await load.run(target.port, work, extent);
    const ok = (tally.statuses["200"] ?? 0) + (tally.statuses["201"] ?? 0);
    const fine = good.reduce((sum, outcome) => sum + (tally.outcomes[outcome] ?? 0), 0);
    const label = work.kind === "pool" ? work.request : work.kind;
    if (tally.replies === 0) this.fail(`${label}: no replies`);
    if (ok !== tally.replies) this.fail(`${label}: unexpected statuses ${JSON.stringify(tally.statuses)}`);
    if (tally.replies - fine > tally.replies * NOT_GOOD_MAX) {
      this.fail(`${label}: over 1 % not ${good.join("/")}: ${JSON.stringify(tally.outcomes)}`);
    }
    for (const problem of tally.problems) this.fail(`${label}: ${problem}`);
    return tally;
  }

  fail(text: string): void {
    this.failures.push(text);
    this.say(`FAILED ${text}`);
  }

  async close(): Promise<void> {
    await Promise.all(this.#loads.map((load) => load.stop()));
    await Promise.all(this.#targets.map((target) => target.stop("SIGKILL")));
  }
}
