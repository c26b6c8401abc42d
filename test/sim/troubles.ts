// What is done to a run: to the server's process, to its disk, to the network. Each seed draws which kinds of
// trouble it knows at all, so that some runs are quiet and others meet one kind over and over.
import type { Chance } from "./chance.js";
import type { DiskWeather, Fate } from "./disk.js";
import type { Machine } from "./machine.js";
import { calm, type Network, type NetworkWeather } from "./network.js";
import type { Scheduler } from "./scheduler.js";
import type { Tally } from "./situations.js";

/** What a commit on a slow disk takes at most. */
const slowestMs = 400;

/** Commits fail and take long when told to. */
export class MovedDisk implements DiskWeather {
  failures = 0;
  slowUntil = 0;

  constructor(
    readonly now: () => number,
    readonly chance: Chance,
  ) {}

  readonly commitMs = (): number =>
    this.now() < this.slowUntil ? this.chance.between(20, slowestMs) : this.chance.skewed(0.1, 8);

  readonly fate = (): Fate => {
    if (this.failures === 0) return "durable";
    this.failures--;
    return this.chance.pick(["unknown, written", "unknown, not written", "refused"]);
  };

  readonly reopenMs = (): number => this.chance.skewed(1, 800);
  readonly survives = (): boolean => this.chance.happens(0.5);
}

export interface Troubled {
  readonly scheduler: Scheduler;
  readonly machine: Machine;
  readonly disk: MovedDisk;
  readonly network: Network;
  readonly tally: Tally;
  /** The longest lease of the run. */
  readonly ttlMs: number;
}

type Trouble = (chance: Chance) => Promise<void>;

/** Makes trouble until aborted; then everything works again. */
export async function trouble(world: Troubled, chance: Chance, over: AbortSignal): Promise<void> {
  world.network.weather = networkWeather(chance);
  const kinds = [processTroubles(world), diskTroubles(world), networkTroubles(world)];
  await Promise.all(kinds.map((kind) => makeTrouble(world, kind, chance.split(), over)));
  world.network.weather = calm;
  world.network.cutUntil = 0;
  world.disk.failures = 0;
  world.disk.slowUntil = 0;
  world.machine.start();
}

/** One kind after the other: a process that was just stopped is not killed. */
async function makeTrouble(
  { scheduler }: Troubled,
  kinds: readonly Trouble[],
  chance: Chance,
  over: AbortSignal,
): Promise<void> {
  const known = kinds.filter(() => chance.happens(0.6));
  const pauseMs = chance.pick([500, 2000, 8000]);
  if (known.length === 0) return;
  while (!over.aborted) {
    await scheduler.sleep(chance.between(1, 2 * pauseMs), over);
    if (!over.aborted) await chance.pick(known)(chance);
  }
}

function processTroubles({ scheduler, machine, tally, ttlMs }: Troubled): Trouble[] {
  const downTime = (chance: Chance): Promise<void> => scheduler.sleep(chance.skewed(5, 3 * ttlMs));
  return [
    async (chance) => {
      tally.note("kill");
      machine.kill();
      await downTime(chance);
      machine.start();
    },
    async (chance) => {
      tally.note("stop");
      await machine.stop();
      await downTime(chance);
      machine.start();
    },
    async (chance) => {
      tally.note("stall");
      const ms = chance.happens(0.5) ? chance.between(1.2 * ttlMs, 5 * ttlMs) : chance.skewed(5, ttlMs);
      machine.freeze(ms);
      await scheduler.sleep(ms);
    },
    async (chance) => {
      tally.note("wall clock step");
      machine.stepWall(Math.round(chance.between(-3_600_000, 3_600_000)));
      // Until the server has stored the new pair of clocks, a restart could not tell the step from downtime.
      await scheduler.sleep(1100);
    },
  ];
}

function diskTroubles({ scheduler, machine, disk, tally }: Troubled): Trouble[] {
  return [
    async (chance) => {
      const failures = 1 + chance.below(3);
      tally.note("disk failure", failures);
      disk.failures = failures;
    },
    async (chance) => {
      tally.note("slow disk");
      disk.slowUntil = scheduler.now() + chance.between(50, 2000);
      // The last slow commits may begin just then, one behind the other.
      machine.unwell(disk.slowUntil + 2 * slowestMs);
    },
  ];
}

function networkTroubles({ scheduler, network, tally, ttlMs }: Troubled): Trouble[] {
  return [
    async (chance) => {
      tally.note("network cut");
      network.cutUntil = scheduler.now() + chance.skewed(20, 3 * ttlMs);
      await scheduler.sleep(network.cutUntil - scheduler.now());
    },
  ];
}

function networkWeather(chance: Chance): NetworkWeather {
  const often = (): number => (chance.happens(0.5) ? chance.random() * 0.12 : 0);
  return {
    requestLost: often(),
    requestLate: often() / 2,
    requestTwice: often(),
    replyLost: often(),
    closedEarly: often() * 2,
    streamMs: chance.pick([300, 3000, 20_000]),
  };
}
