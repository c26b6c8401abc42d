/** How much the gate lets in. Apart from the gate, so that reading a configuration loads none of what answers need. */
import type { Load } from "../../wire/routes.js";

export interface GateLimits {
  /** Requests per second and token; null: no limit. */
  readonly ratePerSecond: number | null;
  /** Requests in work at which new ones of a kind are refused. Waiting ones do not count. */
  readonly inWorkMax: Readonly<Record<Load, number>>;
  /**
   * A burst may bring more than this many at once, for `crowdMs`. While as many stay, reads and takes are refused: each costs the more
   * the more there are, with thousands in work a third to a half more than with hundreds.
   */
  readonly crowdMin: number;
  readonly crowdMs: number;
  /** Event-loop delay at which they are refused, in ms. */
  readonly lagMaxMs: Readonly<Record<Load, number>>;
  /**
   * How long one turn of the event loop may work before those that arrive in the same turn are refused, in ms. A
   * renewal that arrives meanwhile waits for about two turns, so this is what keeps short leases alive.
   */
  readonly turnMaxMs: Readonly<Record<Load, number>>;
}

/**
 * Limits of time for a server whose loop may be busy for `busyMs` at a stretch. Reads give way first; what keeps
 * leases alive only when nothing else helps.
 */
export const timeLimits = (busyMs: number): Pick<GateLimits, "crowdMs" | "lagMaxMs" | "turnMaxMs"> => ({
  crowdMs: 0.5 * busyMs,
  lagMaxMs: { look: 0.75 * busyMs, take: 1.5 * busyMs, keep: 25 * busyMs, operate: 50 * busyMs },
  turnMaxMs: { look: 0.25 * busyMs, take: 0.5 * busyMs, keep: 25 * busyMs, operate: 50 * busyMs },
});

/** 200 ms: a renewal then takes well under a second, and a lease of two seconds lives through any load. */
export const gateLimitsDefault: GateLimits = {
  ratePerSecond: 1000,
  inWorkMax: { look: 2_000, take: 5_000, keep: 20_000, operate: 20_000 },
  crowdMin: 400,
  ...timeLimits(200),
};
