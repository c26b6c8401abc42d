// One cell of the table: an engine's server, a fault, and workloads that run against it side by side. Their histories
// are judged, and the cell is red as well when too little happened for that to mean anything.
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { check } from "../../src/verify/check.js";
import type { Operation } from "../../src/verify/history.js";
import { monotonicMs, sleep } from "../../src/verify/http/clock.js";
import { timely } from "../../src/verify/http/lab.js";
import { isOwnName, type Run, type Tally, type Workload } from "../../src/verify/lab.js";
import { judged, type TooLittle, type WorkloadResult } from "../../src/verify/result.js";
import { seeded, seedFor } from "../../src/verify/seed.js";
import { fillDisk } from "../system-small-disk.js";
import { failSyncs } from "../system-tracer.js";
import { type Engine, operator, principals } from "./engines.js";
import type { Arranged, Fault, Scene } from "./faults/fault.js";
import { inFlightAt, merged, type Strike, type Window } from "./histories.js";
import { type LoadProcess, startLoad } from "./load-process.js";
import { isLost, isRefused, isUnavailable, isUncertain } from "./proofs.js";
import { TcpProxy } from "./proxy.js";
import { Register } from "./register.js";
import { usual, workloadsNamed } from "./workloads.js";

export interface Plan {
  readonly engine: Engine;
  readonly fault: Fault;
  readonly seconds: number;
  /** Of the whole table; each cell derives its own. */
  readonly seed: number;
}

export interface Cell {
  readonly engine: string;
  readonly fault: string;
  readonly seed: number;
  readonly seconds: number;
  readonly results: readonly WorkloadResult[];
  /** What shows that a strike of the fault took effect. */
  readonly proof: string;
  /** What the fault did. */
  readonly tally: Tally;
  readonly tooLittle: readonly TooLittle[];
  /** Why it could not be run. */
  readonly failure?: string;
}

/** How many times as long as was asked for a cell may take for its strikes. */
const patience = 3;

export async function runCell(plan: Plan): Promise<Cell> {
  const { engine, fault, seconds } = plan;
  const seed = seedFor(plan.seed, `${engine.name} ${fault.name}`);
  const told = { engine: engine.name, fault: fault.name, proof: fault.proof, seed, seconds };
  const missing = fault.needs.filter((command) => !isOnPath(command));
  try {
    if (missing.length > 0) throw new Error(`this machine has no ${missing.join(", ")}`);
    return { ...told, ...(await struckAndJudged(plan, seed)) };
  } catch (error) {
    const failure = error instanceof Error ? error.message : String(error);
    return { ...told, results: [], tally: {}, tooLittle: [], failure };
  }
}

async function struckAndJudged(
  plan: Plan,
  seed: number,
): Promise<Pick<Cell, "results" | "tally" | "tooLittle">> {
  const { fault, seconds } = plan;
  const arranged = fault.arrange();
  const { strikes, counted, runs } = await struck(plan, seed, arranged);
  const operations = runs.flatMap(({ run }) => run.history.operations);
  const effective = strikes.filter(({ tookEffect }) => tookEffect(operations));
  const count = (is: (operation: Operation) => boolean): number => operations.filter(is).length;
  const tally: Tally = {
    struck: strikes.length,
    tookEffect: effective.length,
    inFlight: inFlightAt(effective, operations),
    lost: count(isLost),
    uncertain: count(isUncertain),
    refused: count(isRefused),
    unavailable: count(isUnavailable),
    ...counted,
  };
  const results = runs.map(({ workload: { minimums, ...workload }, run }) => {
    const scaled = { ...workload, minimums: times(minimums, fault.share) };
    return judged(scaled, run, check(run.history), 1000 * seconds);
  });
  const minimums = { ...times(fault.minimums, seconds / 60), ...mostOf(strikes, fault) };
  return { results, tally, tooLittle: tooLittle(minimums, tally) };
}

interface Struck {
  readonly strikes: readonly Strike[];
  readonly counted: Tally;
  readonly runs: readonly { readonly workload: Workload; readonly run: Run }[];
}

/** Starts everything, strikes, and ends everything, whatever happens. */
async function struck(plan: Plan, seed: number, arranged: Arranged): Promise<Struck> {
  const { engine, fault, seconds } = plan;
  const strikes: Strike[] = [];
  const counted: Record<string, number> = {};
  const also: Operation[] = [];
  const quiet: Window[] = [];
  const loads: LoadProcess[] = [];
  await using register = await Register.start();
  const server = await engine.start(arranged.options ?? {});
  await using proxy = await TcpProxy.start(server.port, monotonicMs);
  const scene: Scene = {
    engine,
    server,
    proxy,
    loads,
    disk: { fill: fillDisk, failSyncs },
    random: seeded(seed),
    struck: (window, tookEffect) => strikes.push({ ...window, tookEffect }),
    count: (situation) => {
      counted[situation] = (counted[situation] ?? 0) + 1;
    },
    also: (operation) => also.push(operation),
    quiet: (window) => quiet.push(window),
  };
  const over = new AbortController();
  let striking = Promise.resolve();
  try {
    for (const job of jobsOf(plan, seed, scene, register.url)) loads.push(await startLoad(job));
    const loaded = Promise.all(loads.map(({ runs }) => runs));
    striking = arranged.during(scene, over.signal);
    const needed = atLeastOnce(((fault.minimums.inFlight ?? 0) * seconds) / 60);
    // Either failing ends the cell at once.
    await Promise.race([
      longEnough(seconds, () => strikes.length >= needed),
      striking.then(() => loaded),
      loaded,
    ]);
    over.abort();
    await striking;
    for (const load of loads) load.over();
    const histories = await loaded;
    const runs = workloadsNamed(fault.workloads ?? usual, register.url).map((workload) => {
      const names = `${prefixOf(fault)}${workload.name}-`;
      const run = merged(workload.name, histories, also, (name) => isOwnName(workload, name, names));
      const history = {
        ...run.history,
        timely: { ...timely, transitMs: timely.transitMs + (fault.heldUpMs ?? 0) },
        ...(quiet.length === 0 ? {} : { quiet }),
      };
      const tally = { ...run.tally, ...register.tally(names) };
      return { workload, run: { ...run, history, tally } };
    });
    return { strikes, counted, runs };
  } finally {
    over.abort();
    // A strike that is under way may be about to start a server.
    await striking.catch(() => undefined);
    for (const load of loads) await load[Symbol.asyncDispose]();
    await scene.server[Symbol.asyncDispose]();
  }
}

const prefixOf = ({ name }: Fault): string => `evidence-${name}-`;

/** What each load process does; each has principals of its own. */
function jobsOf(
  { fault, seconds }: Plan,
  seed: number,
  { proxy, server }: Scene,
  registerUrl: string,
): Parameters<typeof startLoad>[0][] {
  const count = fault.loads ?? 1;
  const share = principals.length / count;
  return Array.from({ length: count }, (_, nth) => ({
    url: fault.isProxied === true ? proxy.url : server.url,
    principals: principals.slice(nth * share, (nth + 1) * share),
    operator,
    seed: seedFor(seed, `load ${nth}`),
    durationMaxMs: 2 * patience * 1000 * seconds,
    workloads: fault.workloads ?? usual,
    prefix: prefixOf(fault),
    registerUrl,
  }));
}

/** As long as was asked for, and on a slow machine until enough has happened. */
async function longEnough(seconds: number, isEnough: () => boolean): Promise<void> {
  const from = monotonicMs();
  await sleep(1000 * seconds);
  while (!isEnough() && monotonicMs() - from < patience * 1000 * seconds) await sleep(100);
}

const times = (minimums: Tally, share: number): Tally =>
  Object.fromEntries(Object.entries(minimums).map(([situation, count]) => [situation, count * share]));

/** Half of the strikes: on a busy machine some cannot be told from what happens anyway. */
const mostOf = (strikes: readonly Strike[], { minimums }: Fault): Tally =>
  minimums.inFlight === undefined ? {} : { tookEffect: Math.max(1, strikes.length / 2) };

/** However short the cell is. */
const atLeastOnce = (minimum: number): number => (minimum === 0 ? 0 : Math.max(1, Math.floor(minimum)));

const tooLittle = (minimums: Tally, tally: Tally): TooLittle[] =>
  Object.entries(minimums).flatMap(([situation, minimum]) => {
    const [reached, needed] = [tally[situation] ?? 0, atLeastOnce(minimum)];
    return reached < needed ? [{ situation, reached, needed }] : [];
  });

function isOnPath(command: string): boolean {
  return (process.env.PATH ?? "").split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, command), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}
