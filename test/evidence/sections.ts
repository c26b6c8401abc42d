// The parts of the evidence, in the order in which they run. Each says why it is red, line by line, or nothing.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { runCluster, wholeCluster } from "./cluster.js";
import type { Engine } from "./engines.js";
import type { Fault } from "./faults/fault.js";
import { runDrain } from "./graph-drain.js";
import { runKills } from "./graph-kill.js";
import { runMatrix } from "./matrix.js";
import { runOverload } from "./overload.js";

export interface Options {
  readonly engines: readonly Engine[];
  readonly faults: readonly Fault[];
  readonly seconds: number;
  readonly seed: number;
  readonly keepIn: string;
  readonly say: (line: string) => void;
}

export interface Section {
  readonly name: string;
  readonly says: string;
  readonly run: (options: Options) => Promise<string[]>;
}

/** Far above what any of them takes. */
const programWithinMs = 30 * 60_000;
const built = (path: string): string => fileURLToPath(new URL(`../${path}`, import.meta.url));

/** Runs a Node program to its end with its output shown. */
async function ended(args: readonly string[], env: Record<string, string> = {}): Promise<string[]> {
  const child = spawn(process.execPath, args, {
    env: { ...process.env, ...env },
    stdio: ["ignore", "inherit", "inherit"],
    timeout: programWithinMs,
  });
  const end = (): void => void child.kill("SIGTERM");
  process.once("exit", end);
  const [code] = await once(child, "close");
  process.off("exit", end);
  return code === 0 ? [] : [`node ${args.join(" ")} ended with ${code}`];
}

/** Test files of the build; of a folder all that it has. */
const tests = (paths: readonly string[], env?: Record<string, string>) => (): Promise<string[]> => {
  const files = paths.flatMap((path) =>
    path.endsWith(".js")
      ? [built(path)]
      : readdirSync(built(path))
          .filter((name) => name.endsWith(".test.js"))
          .map((name) => built(`${path}/${name}`)),
  );
  return ended(["--test", "--test-reporter=spec", "--test-concurrency=1", ...files], env);
};

const simulatedSeeds = 5000;
const drainedNodes = 10_000;
const graphKills = 200;
/** Where a database has the data, everything takes longer, and it is not the database that is killed here. */
const shared = { drainedNodes: 4000, graphKills: 50 } as const;
const amountsOf = ({ databaseOf }: Engine): Record<keyof typeof shared, number> =>
  databaseOf === undefined ? { drainedNodes, graphKills } : shared;
const raceRounds = 200;

/** Once for each engine that can be put to the section, with its name before each reason. */
const onEach =
  (section: string, run: (engine: Engine, options: Options) => Promise<string[]>) =>
  async (options: Options): Promise<string[]> => {
    const reasons: string[] = [];
    for (const engine of options.engines) {
      const inapplicable = engine.inapplicable[section];
      if (inapplicable !== undefined) options.say(`${engine.name}: not applicable: ${inapplicable}`);
      else for (const reason of await run(engine, options)) reasons.push(`${engine.name}: ${reason}`);
    }
    return reasons;
  };

export const sections: readonly Section[] = [
  {
    name: "checker",
    says: "planted bugs are found and named, and no valid history is accused",
    run: tests(["history", "sim/planted.test.js"]),
  },
  {
    name: "simulation",
    says: `${simulatedSeeds} simulated runs with faults of every kind`,
    run: ({ seed }) =>
      ended([built("sim/main.js"), "--seeds", String(simulatedSeeds), "--from", String(seed)]),
  },
  {
    name: "matrix",
    says: "real processes under faults, their histories checked",
    run: runMatrix,
  },
  {
    name: "syncs",
    says: "no reply leaves before the sync of its commit, and the check is red without it",
    run: tests(["evidence/sync.test.js"]),
  },
  {
    name: "commit-failure",
    says: "after a failed sync: unknown_outcome, no more writes, reopened and read again before the next grant",
    run: tests(["system-commit-failure.test.js"]),
  },
  {
    name: "overload",
    says: "five times more than the server can answer",
    run: onEach("overload", (engine, { say }) => runOverload(engine, say)),
  },
  {
    name: "graph-drain",
    says: `${drainedNodes} nodes of a work graph, ${shared.drainedNodes} on a database, are drained by 64 workers, of which many die`,
    run: onEach("graph-drain", (engine, { seed, say }) =>
      runDrain(engine, amountsOf(engine).drainedNodes, seed, say),
    ),
  },
  {
    name: "graph-kill",
    says: `${graphKills} times kill -9, ${shared.graphKills} on a database, in the middle of claims: node, edge, lease and history stay of one mind`,
    run: onEach("graph-kill", (engine, { seed, say }) =>
      runKills(engine, amountsOf(engine).graphKills, seed, say),
    ),
  },
  {
    name: "cluster",
    says: `two servers on a database, ${wholeCluster.clients} clients, ${wholeCluster.rounds} times taken and given back, one server after the other killed`,
    run: onEach("cluster", (engine, { say }) => runCluster(engine, wholeCluster, say)),
  },
  {
    name: "git-races",
    says: `eight processes race for a name in a repository: ${raceRounds} rounds for new ones, as many for those that ran out`,
    run: async ({ engines, say }) => {
      const races = tests(["git-races.test.js"], { HOLDFAST_RACE_ROUNDS: String(raceRounds) });
      if (engines.some(({ inapplicable }) => inapplicable["git-races"] === undefined)) return races();
      for (const { name, inapplicable } of engines)
        say(`${name}: not applicable: ${inapplicable["git-races"]}`);
      return [];
    },
  },
];
