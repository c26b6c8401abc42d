/**
 * The clock that locks in a repository are timed by: this machine's monotonic one, which all its processes share until it
 * is started again. What was noted under another start, or in another time namespace, says nothing.
 */
import { readFileSync, readlinkSync } from "node:fs";

export interface MachineClock {
  /** Whole milliseconds; the same for every process of this start of the machine. */
  readonly now: () => number;
  readonly wall: () => number;
  /** Which start of the machine. */
  readonly boot: string;
}

const now = (): number => Number(process.hrtime.bigint() / 1_000_000n);

/** How coarsely the time of the start is told where the system has no name for it. */
const bootStepMs = 10_000;

export function machineClock(): MachineClock {
  return { now, wall: () => Date.now(), boot: bootId() };
}

function bootId(): string {
  try {
    return `${readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()} ${timeNamespace()}`;
  } catch {
    // A step of the wall clock makes it another start: what was noted is forgotten, and a takeover only later.
    return `started ${Math.round((Date.now() - now()) / bootStepMs)}`;
  }
}

/** Containers may each have their own monotonic clock. */
function timeNamespace(): string {
  try {
    return readlinkSync("/proc/self/ns/time");
  } catch {
    return "one for all";
  }
}
