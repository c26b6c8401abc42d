// What Linux says about a running process: CPU time used, memory, how many files it may open. Elsewhere, and for
// processes that are gone, the answer is undefined and the figures that need it are left out.

import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

/** USER_HZ, 100 on every Linux that Node runs on: one tick is 10 ms. */
const TICK_MS = 10;

/** User and system time of the process so far, in steps of 10 ms. */
export function cpuMs(pid: number): number | undefined {
  const stat = read(`/proc/${pid}/stat`);
  if (stat === undefined) return undefined;
  // The command name in parentheses may hold spaces; utime and stime are the 12th and 13th fields after it.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

export function residentMb(pid: number): number | undefined {
  const match = /VmRSS:\s+(\d+) kB/.exec(read(`/proc/${pid}/status`) ?? "");
  return match === null ? undefined : Math.round(Number(match[1]) / 1024);
}

/** The hard limit of open files, which Node raises its soft limit to at start. */
export function openFilesMax(): number {
  const match = /Max open files\s+\S+\s+(\d+)/.exec(read("/proc/self/limits") ?? "");
  return match === null ? Number.POSITIVE_INFINITY : Number(match[1]);
}

/** Waits until the process uses less than a tenth of a core; returns how long that took. */
export async function quiet(pid: number, limitMs = 10_000): Promise<number> {
  const startedAt = performance.now();
  while (performance.now() - startedAt < limitMs) {
    const before = cpuMs(pid);
    await sleep(200);
    const after = cpuMs(pid);
    if (before === undefined || after === undefined || after - before <= 20) break;
  }
  return performance.now() - startedAt;
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
