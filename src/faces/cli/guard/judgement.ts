/**
 * What a policy finds in the paths that were touched: which of them another holds, and which need a lock that nobody took.
 * The rule of what excludes what is core's; here it is only looked up, so that many paths and many locks stay cheap.
 */
import { overlapOf, parseName, repoGlobal } from "../../../core/names.js";
import type { Demand } from "./policy.js";

export interface HeldLock {
  readonly name: string;
  readonly principal: string;
  /** What the holder calls itself, where it does. */
  readonly owner: string | null;
  readonly since: Date | null;
  readonly expiresAt: Date | null;
  readonly metadata: unknown;
}

export interface Findings {
  /** Each touched path with the lock of another that excludes it. */
  readonly held: readonly { readonly path: string; readonly name: string; readonly lock: HeldLock }[];
  /** Paths that need a lock, and that no lock of one's own covers. */
  readonly required: readonly { readonly path: string; readonly name: string; readonly pattern: string }[];
  /** Paths that cannot be locked by their own names, and why. */
  readonly unlockable: readonly {
    readonly path: string;
    readonly why: string;
    /** That demands a lock nevertheless, and no lock on what it lies in is one's own. */
    readonly pattern: string | null;
    /** The nearest that it lies in and that can be locked. */
    readonly above: string;
  }[];
}

export interface Case {
  readonly paths: Iterable<string>;
  /** Paths whose names are no text. */
  readonly noText: Iterable<string>;
  readonly locks: readonly HeldLock[];
  /** The principal whose locks are one's own. */
  readonly me: string;
  readonly demands: readonly Demand[];
}

export function judge({ paths, noText, locks, me, demands }: Case): Findings {
  const others = new LockIndex(locks.filter(({ principal }) => principal !== me));
  const own = new Set(locks.filter(({ principal }) => principal === me).map(({ name }) => name));
  const demandFor = (path: string): string | null => demands.find(({ glob }) => glob(path))?.pattern ?? null;
  const held: Findings["held"][number][] = [];
  const required: Findings["required"][number][] = [];
  const unlockable: Findings["unlockable"][number][] = [];
  const setAside = (path: string, why: string): void => {
    const above = lockableAbove(path);
    const found = others.covering(above);
    for (const lock of found) held.push({ path, name: lock.name, lock });
    const isFine = found.length > 0 || isCovered(above, own);
    unlockable.push({ path, why, pattern: isFine ? null : demandFor(path), above });
  };
  for (const path of paths) {
    const parsed = parseName(`path:${path}`);
    if ("invalid" in parsed) {
      setAside(path, parsed.invalid);
      continue;
    }
    const { name } = parsed;
    const found = others.excluding(name);
    for (const lock of found) held.push({ path, name, lock });
    const pattern = found.length > 0 || isCovered(name, own) ? null : demandFor(path);
    if (pattern !== null) required.push({ path, name, pattern });
  }
  for (const path of noText) setAside(path, "its name is no UTF-8 text");
  return { held, required, unlockable };
}

/** A path without a name of its own still lies in directories that have one; at the least in the repository. */
function lockableAbove(path: string): string {
  for (let slash = path.lastIndexOf("/"); slash > 0; slash = path.lastIndexOf("/", slash - 1)) {
    const parsed = parseName(`path:${path.slice(0, slash)}`);
    if ("name" in parsed) return parsed.name;
  }
  return repoGlobal;
}

/** By a lock on the path itself or on what it lies in. One that lies below it leaves the rest to others. */
const isCovered = (name: string, own: ReadonlySet<string>): boolean =>
  own.has(name) || overlapOf(name).names.some((above) => own.has(above));

/** Locks by name and in the order of their names. */
export class LockIndex {
  readonly #byName: ReadonlyMap<string, HeldLock>;
  readonly #names: readonly string[];

  constructor(locks: readonly HeldLock[]) {
    this.#byName = new Map(locks.map((lock) => [lock.name, lock]));
    this.#names = [...this.#byName.keys()].sort();
  }

  /** Those that a lease on this name and they exclude one another. */
  excluding(name: string): HeldLock[] {
    return [...this.covering(name), ...overlapOf(name).prefixes.flatMap((prefix) => this.#below(prefix))];
  }

  /** On the name itself, or on what it lies in. */
  covering(name: string): HeldLock[] {
    return [name, ...overlapOf(name).names].flatMap((one) => this.#byName.get(one) ?? []);
  }

  #below(prefix: string): HeldLock[] {
    let [low, high] = [0, this.#names.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#names[middle] ?? "") < prefix) low = middle + 1;
      else high = middle;
    }
    const found: HeldLock[] = [];
    for (let at = low; this.#names[at]?.startsWith(prefix); at += 1) {
      const lock = this.#byName.get(this.#names[at] ?? "");
      if (lock !== undefined) found.push(lock);
    }
    return found;
  }
}
