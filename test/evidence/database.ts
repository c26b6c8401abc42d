// A database that several servers share, as faults see it: what can be done to it while they work.
import { readFileSync } from "node:fs";
import type { WallClock } from "../system-wall-clock.js";
import type { Wire } from "./wire.js";

export interface Frozen {
  /** By what the system says. */
  readonly isStopped: () => boolean;
  /** Lets it go on. */
  readonly thaw: () => void;
}

export interface Database extends AsyncDisposable {
  /** Ends one of its servers as a crash does and starts it again. True: another process runs. */
  readonly crash: () => Promise<boolean>;
  /** Stops what decides. */
  readonly freeze: () => Promise<Frozen>;
  /** Cuts off one of those who are connected; how many there were. Undefined: nobody is kept by it. */
  readonly cutOne?: (random: () => number) => Promise<number>;
  /** Its wall clock, where one decides or could; with what it says. */
  readonly clock?: { readonly wall: WallClock; readonly now: () => Promise<number> };
  /** Before it, for each server that callers ask. */
  readonly wires: readonly (readonly Wire[])[];
}

/** Whether the process was stopped by a signal. */
export const isStopped = (pid: number): boolean =>
  readFileSync(`/proc/${pid}/stat`, "latin1").split(") ")[1]?.startsWith("T") === true;
