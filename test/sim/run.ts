// One simulated run: a seed in, a history and a verdict out. The same seed gives the same history, byte for byte.
import { createHash } from "node:crypto";
import { check, type Violation } from "../../src/verify/check.js";
import type { History } from "../../src/verify/history.js";
import type { Workload } from "../../src/verify/lab.js";
import { crew } from "../../src/verify/workloads/crew.js";
import { Chance } from "./chance.js";
import { Inspector } from "./inspection.js";
import { SimulatedLab } from "./lab.js";
import { Machine, type Plant } from "./machine.js";
import { Network } from "./network.js";
import { program, type Temper, temperOf } from "./program.js";
import { Scheduler } from "./scheduler.js";
import { Tally } from "./situations.js";
import { MovedDisk, trouble } from "./troubles.js";

/** A situation that was reached, a fault that was made, or a change that became durable, and when. */
export interface Note {
  readonly at: number;
  readonly what: string;
}

export interface Simulated {
  readonly seed: number;
  readonly history: History;
  readonly violations: readonly Violation[];
  readonly tally: Tally;
  readonly notes: readonly Note[];
  readonly simulatedMs: number;
}

export interface Variation {
  /** What callers do instead of the random program. */
  readonly workload?: Workload;
  /** A bug to be found. */
  readonly plant?: Plant;
}

/** How often a look inside is taken. */
const lookMs = 250;
/** Longer than any lease, lock delay, wait and late request: after that nothing is on its way any more. */
const restMs = 12_000;
/** How long a workload runs. */
const workloadMs = 15_000;

export async function simulate(seed: number, variation: Variation = {}): Promise<Simulated> {
  const run = new Run(seed, variation);
  const unheeded = (error: unknown): void => run.accuse(`a promise failed that nobody looked at: ${error}`);
  process.on("unhandledRejection", unheeded);
  try {
    await run.scheduler.drive(run.live());
    // Node tells of them a turn later.
    await new Promise(setImmediate);
  } catch (error) {
    run.accuse(`the run failed: ${error instanceof Error ? error.stack : error}`);
  } finally {
    process.off("unhandledRejection", unheeded);
  }
  return run.judged();
}

/** The same for the same history, and for no other. */
export const digestOf = ({ history }: Simulated): string =>
  createHash("sha256").update(JSON.stringify(history)).digest("hex");

class Run {
  readonly scheduler = new Scheduler();
  readonly #notes: Note[] = [];
  readonly #tally = new Tally((what) => this.#notes.push({ at: this.scheduler.now(), what }));
  readonly #chance: Chance;
  readonly #temper: Temper;
  readonly #disk: MovedDisk;
  readonly #machine: Machine;
  readonly #lab: SimulatedLab;
  readonly #inspector: Inspector;
  readonly #timeUp = new AbortController();
  readonly #violations: Violation[] = [];

  constructor(
    readonly seed: number,
    readonly variation: Variation,
  ) {
    const { scheduler } = this;
    const chance = new Chance(seed);
    this.#chance = chance;
    this.#temper = temperOf(chance.split());
    this.#disk = new MovedDisk(scheduler.now, chance.split());
    const settings = {
      ticketMs: chance.pick([300, 2000]),
      recordRetentionMs: chance.pick([200, 3000, 60_000]),
      feedEventsMax: chance.pick([10, 1000]),
      plant: variation.plant ?? {},
    };
    this.#machine = new Machine(scheduler, this.#disk, settings, this.#tally, chance.split());
    this.#lab = new SimulatedLab(scheduler, this.#tally, chance.split(), this.#timeUp.signal);
    this.#lab.network = new Network(
      scheduler,
      this.#machine,
      this.#tally,
      chance.split(),
      this.#lab.recordCopy,
    );
    this.#inspector = new Inspector(this.#machine);
  }

  /** The whole of it: trouble while callers work, then rest, and a last look. */
  async live(): Promise<void> {
    const [quiet, rested] = [new AbortController(), new AbortController()];
    this.#machine.start();
    this.#look(rested.signal);
    const troubles = this.#trouble(quiet.signal);
    const streams = crew(this.#temper.streams, async (nth) => {
      await this.#lab.watch(`stream-${nth}`, "", rested.signal);
    });
    await this.#work();
    quiet.abort();
    await troubles;
    await this.scheduler.sleep(restMs);
    const reader = this.#lab.caller("reader", 0);
    for (const name of this.#temper.names) await reader.call({ op: "read", name });
    await this.scheduler.sleep(restMs);
    rested.abort();
    await streams;
    this.#inspector.atRest();
  }

  async #work(): Promise<void> {
    const { workload } = this.variation;
    if (workload === undefined) return program(this.#lab, this.#chance.split(), this.#temper);
    this.scheduler.after(workloadMs, () => this.#timeUp.abort());
    const reached = await workload.run(this.#lab);
    for (const [situation, invariant] of Object.entries(workload.never ?? {}))
      if ((reached[situation] ?? 0) > 0) this.accuse(`${workload.name}: ${situation}`, invariant);
  }

  #trouble(over: AbortSignal): Promise<void> {
    const { network } = this.#lab;
    const world = { scheduler: this.scheduler, machine: this.#machine, disk: this.#disk, network };
    const { ttlMs } = this.#temper;
    return trouble({ ...world, tally: this.#tally, ttlMs }, this.#chance.split(), over);
  }

  #look(over: AbortSignal): void {
    this.#inspector.look();
    if (!over.aborted) this.scheduler.after(lookMs, () => this.#look(over));
  }

  accuse(says: string, invariant = "run"): void {
    this.#violations.push({ invariant, name: "", says, operations: [] });
  }

  judged(): Simulated {
    for (const error of this.#machine.errors) this.accuse(`the server failed: ${error.stack}`);
    const history = this.#lab.history();
    const { violations, unknown } = check(history);
    for (const name of unknown) this.accuse(`${name}: the search for an order was given up`, "unknown");
    return {
      seed: this.seed,
      history,
      violations: [...this.#violations, ...this.#inspector.violations, ...violations],
      tally: this.#tally,
      notes: this.#notes,
      simulatedMs: this.scheduler.now(),
    };
  }
}
