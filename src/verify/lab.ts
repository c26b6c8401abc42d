/**
 * What a workload runs in: callers that record what they ask and hear, a clock, and chance that a seed repeats. The
 * same workloads run over HTTP against a real server and against a simulated one.
 */
import type { Call, Feature, History, Reply, Terms } from "./history.js";

/** Called when a call leaves, which may be later than it was asked for; nobody listens to it after the signal that this gives. */
export type OnLeave = () => AbortSignal | undefined;

export interface Caller {
  readonly process: string;
  readonly principal: string;
  /** Asks, records the operation and returns the reply. Never throws for what a service may answer. */
  readonly call: (call: Call, onLeave?: OnLeave) => Promise<Reply>;
}

export interface Lab {
  /** Monotonic, in ms: what the history is written in. */
  readonly now: () => number;
  /** Resolves after that time, or as soon as the signal is aborted. */
  readonly sleep: (ms: number, signal?: AbortSignal) => Promise<void>;
  /** In [0, 1), from the run's seed. */
  readonly random: () => number;
  /** A process of its own. `principals` of a lab are few; `who` picks one by number. */
  readonly caller: (process: string, who: number) => Caller;
  /**
   * Follows the events of every name below `prefix` into the history until aborted, resuming after every break.
   * Called again for the same stream it goes on where that one stopped. Resolves with the number of changes it told.
   */
  readonly watch: (stream: string, prefix: string, signal: AbortSignal) => Promise<number>;
  /** What this run's names begin with. */
  readonly prefix: string;
  /** Where the service promises less than a server does. */
  readonly terms?: Terms | undefined;
  /** Which share of a workload's processes is to run: fewer where calls take long, or all would only wait for each other. */
  readonly crewShare?: number | undefined;
  /** Nobody else works in this space: a name that stands in everybody's way may be taken. */
  readonly isAlone?: boolean;
  /**
   * Adds a type of nodes of the run's own to the work graph, with statuses and short claim times as a workload needs
   * them, and resolves with its name. Missing where there is no work graph, or nobody who may change its policy.
   */
  readonly nodeType?: (() => Promise<string>) | undefined;
  /** Aborted when the run's time is up: begin nothing new, finish soon. */
  readonly over: AbortSignal;
}

/** How often a situation worth testing was reached; a run below a workload's minimums shows nothing and fails. */
export type Tally = Readonly<Record<string, number>>;

export interface Workload {
  readonly name: string;
  readonly says: string;
  /** It works on nodes: its lab must have a type for them. */
  readonly needsGraph?: boolean;
  /** What stands before the run's prefix in its names, such as `path:`; nothing where none are given. */
  readonly kinds?: readonly string[];
  /** Which names are its own, where others than those that begin so are. */
  readonly owns?: (name: string, prefix: string) => boolean;
  /** Runs until `lab.over`, then lets go of what it holds. */
  readonly run: (lab: Lab) => Promise<Tally>;
  /** By situation: how often it must have been reached in a run of a minute. */
  readonly minimums: Tally;
  /** Situations that only a service with this can bring about. */
  readonly needs?: Readonly<Record<string, Feature>>;
  /** Situations that it exists for: each must be reached at least once in a run of any length. */
  readonly purpose?: readonly string[];
  /** By situation that must never be reached: which invariant it would break. */
  readonly never?: Readonly<Record<string, string>>;
}

/** Whether the service has what callers may ask for. */
export const has = ({ terms }: Pick<Lab, "terms">, feature: Feature): boolean =>
  terms?.without?.includes(feature) !== true;

/** Whether a workload that runs under the prefix uses the name. */
export const isOwnName = ({ owns }: Workload, name: string, prefix: string): boolean =>
  owns === undefined ? name.startsWith(prefix) : owns(name, prefix);

/** One run, ready to be judged. */
export interface Run {
  readonly workload: string;
  readonly history: History;
  readonly tally: Tally;
}
