/**
 * The processes of this machine, as far as this user may see them. One that ends while it is looked at, or that belongs
 * to another user, is left out; a machine that shows none at all answers with an empty list.
 */
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { type ProcessStat, statOf } from "../process-stat.js";

export interface Process extends Pick<ProcessStat, "pid" | "parent" | "group"> {
  /** Null where it is not shown. */
  readonly startedAt: number | null;
}

/** Those that are alive; one that has ended and is not yet reaped does no more work. */
export function liveProcesses(): Process[] {
  try {
    return process.platform === "linux" ? fromProc() : fromPs();
  } catch {
    return [];
  }
}

/** When it was started; null if it has ended, or where that is not shown. */
export const startOf = (pid: number): number | null => alive(pid)?.startedAt ?? null;

/** Whether what is typed at this process's terminal is meant for it. Assumed where it is not shown. */
export function isInForeground(): boolean {
  const stat = statOf(process.pid);
  return stat === null || stat.group === stat.foreground;
}

/** Whether a process was started with this in its environment. Only Linux shows another's. */
export function hasInEnvironment(pid: number, entry: string): boolean {
  if (process.platform !== "linux") return false;
  try {
    return readFileSync(`/proc/${pid}/environ`, "latin1").includes(`${entry}\0`);
  } catch {
    return false;
  }
}

function alive(pid: number): ProcessStat | null {
  const stat = statOf(pid);
  return stat === null || stat.hasEnded ? null : stat;
}

function fromProc(): Process[] {
  const found: Process[] = [];
  for (const entry of readdirSync("/proc")) {
    const one = /^\d+$/.test(entry) ? alive(Number(entry)) : null;
    if (one !== null) found.push(one);
  }
  return found;
}

function fromPs(): Process[] {
  const text = execFileSync("ps", ["-A", "-o", "pid=,ppid=,pgid=,stat="], { encoding: "utf8" });
  return text.split("\n").flatMap((line) => {
    const [pid, parent, group, state] = line.trim().split(/\s+/);
    return pid === undefined || pid === "" || state?.startsWith("Z")
      ? []
      : [{ pid: Number(pid), parent: Number(parent), group: Number(group), startedAt: null }];
  });
}
