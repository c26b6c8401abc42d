/**
 * A run against a live service: every workload at once, under names of the run's own, within a bounded load. However
 * it ends, it lets go of what it held and waits until nothing of it is left; then the histories are judged.
 */
import { randomBytes } from "node:crypto";
import { check } from "./check.js";
import { VerifyError } from "./error.js";
import type { History, Terms } from "./history.js";
import { monotonicMs, sleep } from "./http/clock.js";
import { LeaseClock, laterBy } from "./http/clock-probe.js";
import { Contact } from "./http/contact.js";
import { Exchange } from "./http/exchange.js";
import { HttpLab, type Principal } from "./http/lab.js";
import { type GraphPlace, graphPlace } from "./http/node-type.js";
import { type Load, Pace } from "./http/pace.js";
import { emptied, introduced, termsOf } from "./http/service.js";
import type { Run, Tally, Workload } from "./lab.js";
import { Lookout, type Watched } from "./lookout.js";
import { type Checked, checked, type Progress, type VerifyOptions } from "./options.js";
import {
  type Contacted,
  judged,
  type LeftOut,
  outcomeOf,
  type Result,
  type WorkloadResult,
} from "./result.js";
import { seedFor } from "./seed.js";

/** About half of what a server with default settings lets one bearer token ask. */
export const loadDefault: Load = { callsPerSecond: 500, inFlightMax: 64 };
const progressEveryMs = 250;
/** The longest that a workload's lease or session can outlast its last call, and time to settle it. */
const emptyWithinMs = 8000;
/** How long workloads may take to end when the time is up: 2 s, and as long as they ran but for 15 s at most. */
const endWithinMs = (durationMs: number): number => 2000 + Math.min(durationMs, 15_000);
/** How far the service's clock may have fallen behind since it was looked at, in ms: whoever looks meanwhile accuses nobody of it. */
const unseenMs = 1000;
/** When the time is up, nobody waits for a service that has not answered for so long. */
const silenceMaxMs = 3000;

/** One workload on its way. */
interface Running {
  readonly workload: Workload;
  readonly lab: HttpLab;
  readonly tally: Promise<Tally>;
}

/** Rejects with a VerifyError where the run cannot begin. */
export async function verify(given: VerifyOptions): Promise<Result> {
  const options = checked(given);
  const { url, signal } = options;
  const seed = options.seed ?? randomBytes(4).readUInt32BE();
  const prefix = `verify-${randomBytes(4).toString("hex")}/`;
  const exchange = new Exchange(url, 4);
  const labs: HttpLab[] = [];
  let clock: LeaseClock | null | undefined;
  try {
    const bearers = bearersOf(options);
    const prefixes = prefixesOf(options.workloads, prefix);
    const principals = await introduced(exchange, url, bearers, prefixes);
    const { graph, leftOut } = await graphOr(exchange, options, principals, prefix.replace("/", ""));
    const workloads = options.workloads.filter(({ name }) => !leftOut.some((one) => one.workload === name));
    options.onBegin?.(workloads);
    const over = new AbortController();
    const contact = new Contact(() => over.abort());
    const startedAt = new Date().toISOString();
    const beganAt = monotonicMs();
    const terms = await termsOf(exchange, url, firstOf(principals));
    const name = `${prefix}clock`;
    clock = terms && (await LeaseClock.start(exchange, firstOf(principals), name, options.durationMs));
    const lateMs = (): number => clock?.probe.lateMs ?? 0;
    const plan = { seed, prefix, principals, graph, labs, beganAt, over, contact, terms, lateMs };
    const { running, endedEarly } = await driven({ ...options, workloads }, plan);
    const durationMs = monotonicMs() - beganAt;
    const lateness = terms && { statedMs: terms.lateMs ?? 0, seenMs: Math.ceil((await clock?.end()) ?? 0) };
    const leftBehind = await emptied(exchange, {
      // Another may still be taken where one was not.
      principal: principals.find(({ name }) => !contact.dismissed.has(name)) ?? firstOf(principals),
      prefixes,
      contact,
      letGo: async (until) => {
        for (const lab of labs) await lab.letGo(until);
      },
      withinMs: isLost(contact) ? 0 : emptyWithinMs,
    });
    const contacted = contactedFrom(contact, beganAt, (name) => {
      return bearers[principals.findIndex((one) => one.name === name)]?.called ?? name;
    });
    const results = await judgements(options, running, durationMs, beganAt, lateness?.seenMs ?? 0);
    return {
      url,
      principals: principals.map(({ name }) => name),
      prefix,
      seed,
      startedAt,
      durationMs,
      interrupted: signal?.aborted === true,
      endedEarly,
      outcome: outcomeOf(results, leftBehind, contacted),
      ...contacted,
      ...(lateness === undefined ? {} : { lateness }),
      workloads: results,
      leftOut,
      leftBehind,
    };
  } finally {
    await clock?.end();
    exchange.close();
    for (const lab of labs) lab.close();
  }
}

const places = [
  "first",
  "second",
  "third",
  "fourth",
  "fifth",
  "sixth",
  "seventh",
  "eighth",
  "ninth",
] as const;

const bearersOf = ({ bearers, bearerNames = [] }: VerifyOptions): { bearer: string; called: string }[] =>
  bearers.map((bearer, nth) => ({
    bearer,
    called: bearerNames[nth] ?? (bearers.length === 1 ? "the token" : `the ${placeText(nth)} token`),
  }));

/** `second` for 1; beyond the ninth a number. */
export const placeText = (nth: number): string => places[nth] ?? `${nth + 1}th`;

function firstOf(principals: readonly Principal[]): Principal {
  const [first] = principals;
  if (first === undefined) throw new Error("a run needs a principal");
  return first;
}

const isLost = ({ silence }: Contact): boolean =>
  silence !== null && monotonicMs() - silence.from > silenceMaxMs;

function contactedFrom(contact: Contact, beganAt: number, called: (name: string) => string): Contacted {
  const { silence, rateLimited, unsent, dismissed } = contact;
  const told = (at: number): number => Math.max(0, Math.round(at - beganAt));
  return {
    unreachable: silence === null ? null : { fromMs: told(silence.from), calls: silence.calls },
    dismissed: [...dismissed].map(([principal, at]) => ({
      principal,
      token: called(principal),
      fromMs: told(at),
    })),
    rateLimited,
    unsent,
  };
}

/** Where and by whom nodes can be worked on; workloads that cannot do without are left out. */
async function graphOr(
  exchange: Exchange,
  { workloads, url, areChosen }: Checked,
  principals: readonly Principal[],
  space: string,
): Promise<{ readonly graph: GraphPlace | null; readonly leftOut: readonly LeftOut[] }> {
  const wanted = workloads.filter(({ needsGraph }) => needsGraph === true);
  if (wanted.length === 0) return { graph: null, leftOut: [] };
  const found = await graphPlace(exchange, principals, space, areChosen);
  if ("admin" in found) return { graph: found, leftOut: [] };
  const { why } = found;
  if (wanted.length === workloads.length)
    throw new VerifyError(`${url}: ${wanted.map(({ name }) => name).join(", ")}: ${why}`, "refused");
  return { graph: null, leftOut: wanted.map(({ name }) => ({ workload: name, why })) };
}

interface Plan {
  readonly seed: number;
  readonly prefix: string;
  readonly principals: readonly Principal[];
  /** Null: no workload works on nodes. */
  readonly graph: GraphPlace | null;
  readonly beganAt: number;
  /** Filled here, closed by whoever made the plan. */
  readonly labs: HttpLab[];
  /** Aborted here when the time is up, or before by whoever made the plan. */
  readonly over: AbortController;
  readonly contact: Contact;
  readonly terms: Terms | undefined;
  /** How far the service's clock was seen to fall behind so far, in ms. */
  readonly lateMs: () => number;
}

/** Where the run's names are. */
const prefixesOf = (workloads: readonly Workload[], prefix: string): string[] => [
  ...new Set(["", ...workloads.flatMap(({ kinds = [] }) => kinds)].map((kind) => `${kind}${prefix}`)),
];

/** Runs all workloads until the time is up, the signal comes or a violation is found, and until each has ended. */
async function driven(
  options: Checked,
  plan: Plan,
): Promise<{ readonly running: Running[]; readonly endedEarly: boolean }> {
  const { url, durationMs, signal, workloads } = options;
  const { seed, prefix, principals, graph, labs, over, contact, terms } = plan;
  const pace = new Pace(options.load ?? loadDefault);
  const ends = new AbortController();
  const end = (): void => ends.abort();
  const timers: NodeJS.Timeout[] = [];
  over.signal.addEventListener("abort", () => timers.push(setTimeout(end, endWithinMs(durationMs))));
  const stop = (): void => over.abort();
  signal?.addEventListener("abort", stop, { once: true });
  if (signal?.aborted) stop();
  timers.push(setTimeout(stop, durationMs));
  const tick = (): void => {
    report(options, plan.beganAt, labs, over.signal.aborted ? "letting go" : "running");
    if (over.signal.aborted && isLost(contact)) end();
  };
  timers.push(setInterval(tick, progressEveryMs));
  const running = workloads.map((workload) => {
    const lab = new HttpLab({
      url,
      principals,
      ...(workload.needsGraph === true && graph !== null ? graph : {}),
      prefix: `${prefix}${workload.name}/`,
      seed: seedFor(seed, workload.name),
      over: over.signal,
      ends: ends.signal,
      pace,
      contact,
      terms,
    });
    labs.push(lab);
    return { workload, lab, tally: workload.run(lab) };
  });
  let endedEarly = false;
  const lookout =
    options.keepGoing === true
      ? null
      : new Lookout(
          running.map((one) => watched(one, plan)),
          () => {
            endedEarly = !over.signal.aborted;
            stop();
          },
        );
  try {
    // One that fails ends the others, and fails the run once nothing of it is left.
    await Promise.allSettled(running.map(({ tally }) => tally.catch(stop)));
    return { running, endedEarly };
  } finally {
    await lookout?.close();
    for (const timer of timers) clearTimeout(timer);
    signal?.removeEventListener("abort", stop);
  }
}

const watched = ({ workload, lab }: Running, { terms, lateMs }: Plan): Watched => ({
  workload: workload.name,
  recorder: lab.recorder,
  terms: () => terms && laterBy(lateMs() + unseenMs, terms),
});

async function judgements(
  options: Checked,
  running: readonly Running[],
  ranMs: number,
  beganAt: number,
  lateMs: number,
): Promise<WorkloadResult[]> {
  const labs = running.map(({ lab }) => lab);
  const results: WorkloadResult[] = [];
  for (const { workload, lab, tally } of running) {
    report(options, beganAt, labs, "checking");
    await sleep(0); // lets it be seen
    const { terms, ...told } = since(beganAt, lab.history());
    const history = terms === undefined ? told : { ...told, terms: laterBy(lateMs, terms) };
    const run: Run = { workload: workload.name, history, tally: await tally };
    const verdict = check(run.history);
    results.push(judged(workload, run, verdict, Math.min(ranMs, options.durationMs), workload.purpose));
  }
  return results;
}

/** The history on a clock that begins with the run, in microseconds: what is told of it can be read. */
function since(beganAt: number, { operations, seen, ...more }: History): History {
  const told = (at: number): number => Math.round(1000 * (at - beganAt)) / 1000;
  return {
    operations: operations.map((one) => ({ ...one, began: told(one.began), ended: told(one.ended) })),
    seen: seen.map((one) => ({ ...one, at: told(one.at) })),
    ...more,
  };
}

function report(
  { durationMs, onProgress }: VerifyOptions,
  beganAt: number,
  labs: readonly HttpLab[],
  doing: Progress["doing"],
): void {
  const sum = (of: (lab: HttpLab) => number): number => labs.reduce((total, lab) => total + of(lab), 0);
  onProgress?.({
    doing,
    ranMs: monotonicMs() - beganAt,
    durationMs,
    operations: sum(({ recorder }) => recorder.operations.length),
    lost: sum(({ recorder }) => recorder.lost),
  });
}
