/**
 * Which processes work under a lease: the command, everything it started, its process group, and whoever carries the
 * lease's id in its environment, also if it went into the background or into a session of its own. Only one that left
 * its group, outlived its parents and emptied its environment before anybody looked can escape, and so can one that
 * became another user's. Elsewhere than on Linux the environment is not shown.
 */
import { hasInEnvironment, liveProcesses, type Process, startOf } from "./processes.js";

export interface Command {
  readonly pid: number;
  /** It leads a process group of its own. */
  readonly group: boolean;
  /** As processes.ts counts: the number alone may be another's by now. */
  readonly startedAt: number | null;
}

export const leaseVariable = "HOLDFAST_LEASE_ID";

export class Victims {
  command: Command | null = null;
  /** What the last look at all processes took. They are looked at only when somebody is to be signalled. */
  lookMs = 0;
  /** Those that were found so far: one whose parents have ended meanwhile is found by nothing else. */
  readonly #known = new Map<number, number | null>();
  /** Nobody who was started before this process can carry the lease: their environments need not be read. */
  readonly #since = startOf(process.pid) ?? 0;

  constructor(readonly leaseId: string) {}

  /** Signals all of them, also those that appeared meanwhile. Returns how many there were. */
  signal(signal: NodeJS.Signals): number {
    if (signal === "SIGKILL") this.#killKnown();
    const found = this.find();
    for (const { pid } of found) send(pid, signal);
    return found.length;
  }

  /** Those that are alive. */
  find(): Process[] {
    const begunAt = performance.now();
    const all = liveProcesses();
    const children = byParent(all);
    const group = this.#groupIn(all);
    const isMarked = (one: Process): boolean => one.group === group || this.#isKnown(one);
    const found = withDescendants(new Set(all.filter(isMarked)), children);
    // An environment costs most, so it is read only where nothing else tells.
    for (const one of all) if (!found.has(one) && this.#carriesLease(one)) found.add(one);
    const victims = [...withDescendants(found, children)].filter(({ pid }) => pid !== process.pid);
    for (const { pid, startedAt } of victims) this.#known.set(pid, startedAt);
    this.lookMs = performance.now() - begunAt;
    return victims;
  }

  /** At once, before a look at a busy machine takes its time. */
  #killKnown(): void {
    const { command } = this;
    if (command !== null && isSame(command)) send(command.group ? -command.pid : command.pid, "SIGKILL");
    for (const [pid, startedAt] of this.#known) if (startOf(pid) === startedAt) send(pid, "SIGKILL");
  }

  /** The command's process group, which may outlive it; null once its number is another's. */
  #groupIn(all: readonly Process[]): number | null {
    const { command } = this;
    if (command?.group !== true) return null;
    const leader = all.find(({ pid }) => pid === command.pid);
    return leader === undefined || leader.startedAt === command.startedAt ? command.pid : null;
  }

  #isKnown({ pid, startedAt }: Process): boolean {
    const { command } = this;
    if (command !== null && pid === command.pid) return startedAt === command.startedAt;
    return this.#known.has(pid) && this.#known.get(pid) === startedAt;
  }

  #carriesLease({ pid, startedAt }: Process): boolean {
    if (startedAt !== null && startedAt < this.#since) return false;
    return hasInEnvironment(pid, `${leaseVariable}=${this.leaseId}`);
  }
}

function withDescendants(
  found: Set<Process>,
  children: ReadonlyMap<number, readonly Process[]>,
): Set<Process> {
  // A set is walked in the order of insertion, also over what is added meanwhile.
  for (const { pid } of found) for (const child of children.get(pid) ?? []) found.add(child);
  return found;
}

function byParent(all: readonly Process[]): ReadonlyMap<number, readonly Process[]> {
  const children = new Map<number, Process[]>();
  for (const one of all) {
    const siblings = children.get(one.parent);
    if (siblings === undefined) children.set(one.parent, [one]);
    else siblings.push(one);
  }
  return children;
}

/** Still alive: its number, and that of its group, is not another's. */
export const isSame = ({ pid, startedAt }: Command): boolean => startOf(pid) === startedAt;

function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // Ended meanwhile, or another user's.
  }
}
