// One cell of the table: an engine's server, a fault, and workloads that run against it side by side. Their histories
// are judged, and the cell is red as well when too little happened for that to mean anything.
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { check } from "../../src/verify/check.js";
import type { Operation } from "../../src/verify/history.js";
import { monotonicMs, sleep } from "../../src/verify/http/clock.js";
import { type ClockProbe, laterBy } from "../../src/verify/http/clock-probe.js";
import { timely } from "../../src/verify/http/lab.js";
import { has, isOwnName, type Run, type Tally, type Workload } from "../../src/verify/lab.js";
import { judged, type TooLittle, type WorkloadResult } from "../../src/verify/result.js";
import { seeded, seedFor } from "../../src/verify/seed.js";
import { fillDisk } from "../system-small-disk.js";
import { failSyncs } from "../system-tracer.js";
import { probeOf } from "./clock-probe.js";
import type { Engine } from "./engines.js";
import type { Arranged, Fault, Scene } from "./faults/fault.js";
import { inFlightAt, merged, type Strike, type Window } from "./histories.js";
import { type LoadProcess, startLoad } from "./load-process.js";
import { Nodes } from "./nodes.js";
import { operator, principals } from "./principals.js";
import { isLost, isRefused, isUnavailable, isUncertain } from "./proofs.js";
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
  /** Why it was not to be run: neither green nor red. */
  readonly inapplicable?: string;
}

/** How long the waiters of a server that is gone may hold up others, in ms. */
const passedOverMs = 5000;

/** How many times as long as was asked for a cell may take for its strikes. */
const patience = 3;

export async function runCell(plan: Plan): Promise<Cell> {
  const { engine, fault, seconds } = plan;
  const seed = seedFor(plan.seed, `${engine.name} ${fault.name}`);
  const told = { engine: engine.name, fault: fault.name, proof: fault.proof, seed, seconds };
  const inapplicable = engine.inapplicable[fault.name];
  if (inapplicable !== undefined) return { ...told, results: [], tally: {}, tooLittle: [], inapplicable };
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
  const { engine, fault, seconds } = plan;
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
  const results = runs.map(({ workload, run }) => {
    const minimums = times(reachable(workload, engine), fault.share * engine.share);
    return judged({ ...workload, minimums }, run, check(run.history), 1000 * seconds);
  });
  const minimums = { ...times(fault.minimums, strikesShare(plan) / 60), ...mostOf(strikes, fault) };
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
  const upsets: Window[] = [];
  // Who decides alone keeps nobody's turn for others.
  const isShared = engine.databaseOf !== undefined;
  const upset = ({ from, to }: Window): void => {
    if (isShared) upsets.push({ from, to: to + passedOverMs });
  };
  const loads: LoadProcess[] = [];
  await using register = await Register.start();
  await using nodes = new Nodes();
  await nodes.start(engine, arranged.options ?? {});
  const scene: Scene = {
    engine,
    nodes: nodes.all,
    database: engine.databaseOf?.(nodes.first) ?? null,
    pushes: engine.pushesOf?.(nodes.first) ?? null,
    loads,
    disk: { fill: fillDisk, failSyncs },
    random: seeded(seed),
    struck: (window, tookEffect) => strikes.push({ ...window, tookEffect }),
    count: (situation) => {
      counted[situation] = (counted[situation] ?? 0) + 1;
    },
    also: (operation) => also.push(operation),
    quiet: (window) => quiet.push(window),
    upset,
  };
  const over = new AbortController();
  let striking = Promise.resolve();
  let probe: ClockProbe | null = null;
  try {
    probe = await probeOf(engine, nodes.all);
    for (const job of jobsOf(plan, seed, scene, register.url)) loads.push(await startLoad(job));
    const loaded = Promise.all(loads.map(({ runs }) => runs));
    striking = arranged.during(scene, over.signal);
    const needed = atLeastOnce(((fault.minimums.inFlight ?? 0) * strikesShare(plan)) / 60);
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
    const lateMs = (await probe?.end()) ?? 0;
    if (probe !== null) counted.lateMs = Math.round(lateMs);
    const runs = workloadsNamed(namesOf(plan), register.url).map((workload) => {
      const names = `${prefixOf(fault)}${workload.name}-`;
      const run = merged(workload.name, histories, also, (name) => isOwnName(workload, name, names));
      const history = {
        ...run.history,
        timely: { ...timely, transitMs: timely.transitMs + (fault.heldUpMs ?? 0) },
        ...(quiet.length === 0 ? {} : { quiet }),
        ...(upsets.length === 0 ? {} : { upsets }),
        ...(lateMs === 0 ? {} : { terms: laterBy(lateMs, run.history.terms) }),
      };
      const tally = { ...run.tally, ...register.tally(names) };
      return { workload, run: { ...run, history, tally } };
    });
    return { strikes, counted, runs };
  } finally {
    over.abort();
    // A strike that is under way may be about to start a server.
    await striking.catch(() => undefined);
    await probe?.end().catch(() => undefined);
    for (const load of loads) await load[Symbol.asyncDispose]();
  }
}

const prefixOf = ({ name }: Fault): string => `evidence-${name}-`;

/** Those that the fault wants and the engine can do. */
const namesOf = ({ engine, fault }: Plan): readonly string[] =>
  (fault.workloads ?? usual).filter((name) => engine.workloads?.includes(name) !== false);

/** What each load process does; each has principals of its own, and asks one node. */
function jobsOf(
  plan: Plan,
  seed: number,
  { nodes }: Scene,
  registerUrl: string,
): Parameters<typeof startLoad>[0][] {
  const { engine, fault, seconds } = plan;
  const urls = nodes.map(({ proxy, server }) => (fault.isProxied === true ? proxy.url : server.url));
  const count = Math.max(fault.loads ?? 1, urls.length);
  const share = principals.length / count;
  return Array.from({ length: count }, (_, nth) => ({
    url: urls[nth % urls.length] ?? "",
    principals: principals.slice(nth * share, (nth + 1) * share),
    operator,
    seed: seedFor(seed, `load ${nth}`),
    durationMaxMs: 2 * patience * 1000 * seconds,
    workloads: namesOf(plan),
    prefix: prefixOf(fault),
    registerUrl,
    terms: engine.terms,
    pace: engine.pace,
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

/** What the engine can bring about at all. */
const reachable = ({ minimums, needs = {} }: Workload, { terms }: Engine): Tally =>
  Object.fromEntries(
    Object.entries(minimums).filter(([situation]) => {
      const needed = needs[situation];
      return needed === undefined || has({ terms }, needed);
    }),
  );

/** For how many seconds of a fast engine's requests the cell must show strikes. */
const strikesShare = ({ engine, fault, seconds }: Plan): number =>
  fault.isByRequest === true ? seconds * engine.share : seconds;

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
