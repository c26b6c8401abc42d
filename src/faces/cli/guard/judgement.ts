/**
 * What a policy finds in the paths that were touched: which of them another holds, and which need a lock that nobody took.
 * The rule of what excludes what is core's; here it is only looked up, so that many paths and many locks stay cheap.
 */
import { overlapOf, parseName } from "../../../core/names.js";
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
  /** Paths that cannot be locked at all, why, and the pattern that demands it nevertheless. */
  readonly unlockable: readonly {
    readonly path: string;
    readonly why: string;
    readonly pattern: string | null;
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
  for (const path of paths) {
    const pattern = demandFor(path);
    const parsed = parseName(`path:${path}`);
    if ("invalid" in parsed) {
      unlockable.push({ path, why: parsed.invalid, pattern });
      continue;
    }
    const { name } = parsed;
    const found = others.excluding(name);
    for (const lock of found) held.push({ path, name, lock });
    if (pattern !== null && found.length === 0 && !isCovered(name, own))
      required.push({ path, name, pattern });
  }
  for (const path of noText)
    unlockable.push({ path, why: "its name is no UTF-8 text", pattern: demandFor(path) });
  return { held, required, unlockable };
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
    const { names, prefixes } = overlapOf(name);
    const single = [name, ...names].flatMap((one) => this.#byName.get(one) ?? []);
    return [...single, ...prefixes.flatMap((prefix) => this.#below(prefix))];
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
