/**
 * What the system shows of one process. Linux shows it as files; elsewhere there is no answer here, and whoever cannot do
 * without one asks `ps`.
 */
import { closeSync, existsSync, openSync, readFileSync, readSync } from "node:fs";

export interface ProcessStat {
  readonly pid: number;
  /** And was not yet reaped by its parent: it does no more work. */
  readonly hasEnded: boolean;
  readonly parent: number;
  readonly group: number;
  /** The group that the process's terminal listens to. */
  readonly foreground: number;
  /** In the system's own count; tells two processes with one number apart. */
  readonly startedAt: number;
}

export const showsProcesses = existsSync("/proc/self/stat");

/** Null: there is none, or it is not shown. */
export function statOf(pid: number): ProcessStat | null {
  const stat = statText(pid);
  // What follows the name, which may hold anything, also brackets.
  const end = stat.lastIndexOf(") ");
  if (end === -1) return null;
  const [state, ...fields] = stat.slice(end + 2).split(" ");
  const field = (at: number): number => Number(fields[at]);
  return {
    pid,
    hasEnded: state === "Z" || state === "X",
    parent: field(0),
    group: field(1),
    foreground: field(4),
    startedAt: field(18),
  };
}

/** Long enough for every number in it: a process's own name takes at most 64 bytes. */
const buffer = Buffer.alloc(1024);

/** Read into one buffer: a busy machine has thousands of them. */
function statText(pid: number): string {
  let file: number | null = null;
  try {
    file = openSync(`/proc/${pid}/stat`, "r");
    return buffer.toString("latin1", 0, readSync(file, buffer, 0, buffer.length, 0));
  } catch {
    return "";
  } finally {
    if (file !== null) closeSync(file);
  }
}

/** The words it was started with, or what it calls itself; none where they are not shown. */
export function wordsOf(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "latin1").split("\0");
  } catch {
    return [];
  }
}

/** Whether a process has this number, also one that has ended and is not yet reaped. */
export function isThere(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // Another user's process exists, too.
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
