/**
 * Removing a lock from a remote takes two steps, its token into the floor and then the lock, and a look that lasts long
 * enough may see the old floor and no lock: tokens would begin again. So a floor stands for a while before the lock goes,
 * and whoever looked for longer than that while looks at the floor once more.
 */
import type { FloorRecord, LockRecord } from "../../core/records.js";
import type { Guard } from "./guard-blob.js";
import type { MachineClock } from "./machine-clock.js";

/** How long a look may take, in ms, for the floor that it began with to be believed: longer than most remotes need. */
export const lookTrustedMs = 2500;

/** How long a floor stands before what it covers is removed, in ms: longer than a look that is believed. */
const standsMs = (trustedMs: number): number => 2 * trustedMs;

/** Rises of a floor that are remembered. */
const risesMax = 100;

interface Rise {
  readonly token: number;
  readonly at: number;
}

/** Since when this process knows that floors are at least this high. */
export class Floors {
  readonly #rises = new Map<string, Rise[]>();

  constructor(
    readonly clock: MachineClock,
    readonly trustedMs: number,
  ) {}

  /** They are there now. */
  saw({ floors }: Pick<Guard, "floors">): void {
    for (const [space, token] of Object.entries(floors)) {
      const rises = this.#rises.get(space) ?? [];
      if (token <= (rises.at(-1)?.token ?? 0)) continue;
      this.#rises.set(space, [...rises, { token, at: this.clock.now() }].slice(-risesMax));
    }
  }

  /** Resolves when a floor that covers the token has stood for long enough. */
  async stand(space: string, token: number): Promise<void> {
    const rise = this.#rises.get(space)?.find((one) => one.token >= token);
    const at = rise?.at ?? this.clock.now();
    const leftMs = at + standsMs(this.trustedMs) - this.clock.now();
    if (leftMs > 0) await new Promise((resolve) => setTimeout(resolve, leftMs));
  }
}

/** High enough for everything that may be removed by now: then one rise, and one wait, serves all of it. */
export function raisedForAll(
  floors: readonly FloorRecord[],
  locks: readonly { readonly lock: LockRecord }[],
  now: number,
): FloorRecord[] {
  return floors.map((floor) => {
    const going = locks.filter(
      ({ lock }) => lock.space === floor.space && lock.gcAt !== 0 && lock.gcAt < now,
    );
    return { ...floor, token: Math.max(floor.token, ...going.map(({ lock }) => lock.token)) };
  });
}

/** Never null, and with no TTL left to raise: what a restored copy would wait for has no meaning here. */
export function floorIn(guard: Guard | null, space: string): FloorRecord {
  const token = guard?.floors[space] ?? 0;
  return { kind: "floor", space, token, ttlHighMs: Number.MAX_SAFE_INTEGER, quietUntil: 0 };
}
