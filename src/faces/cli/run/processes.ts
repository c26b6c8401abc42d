/**
 * The processes of this machine, as far as this user may see them. One that ends while it is looked at, or that belongs
 * to another user, is left out; a machine that shows none at all answers with an empty list.
 */
import { execFileSync } from "node:child_process";
import { closeSync, openSync, readdirSync, readFileSync, readSync } from "node:fs";

export interface Process {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  /** In the system's own count; tells two processes with one number apart. Null where it is not shown. */
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
export const startOf = (pid: number): number | null => parsed(statOf(pid))?.startedAt ?? null;

/** Whether what is typed at this process's terminal is meant for it. Assumed where it is not shown. */
export function isInForeground(): boolean {
  const [, , group, , , foreground] = fieldsOf(statOf(process.pid)) ?? [];
  return group === foreground;
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

function fromProc(): Process[] {
  const found: Process[] = [];
  for (const entry of readdirSync("/proc")) {
    const one = /^\d+$/.test(entry) ? parsed(statOf(Number(entry))) : null;
    if (one !== null) found.push(one);
  }
  return found;
}

/** Long enough for every number in it: a process's own name takes at most 64 bytes. */
const buffer = Buffer.alloc(1024);

/** Read into one buffer: a busy machine has thousands of them. */
function statOf(pid: number): string {
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

/** State, parent, group, …: what follows the name, which may hold anything, also brackets. */
function fieldsOf(stat: string): string[] | null {
  const end = stat.lastIndexOf(") ");
  return end === -1 ? null : stat.slice(end + 2).split(" ");
}

function parsed(stat: string): Process | null {
  const fields = fieldsOf(stat);
  if (fields === null) return null;
  const [state, parent, group] = fields;
  if (state === "Z" || state === "X") return null;
  const numbers = { parent: Number(parent), group: Number(group), startedAt: Number(fields[19]) };
  return { pid: Number.parseInt(stat, 10), ...numbers };
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
