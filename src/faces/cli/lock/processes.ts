/**
 * Processes as they can be recognised again later. A number alone is given to another process soon; with the time of
 * its start, the machine and its boot it means one process for ever.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";

export interface ProcessMark {
  readonly pid: number;
  /** In the system's own count; null where it cannot be told. */
  readonly start: string | null;
  readonly host: string;
  /** Changes with every start of the machine; empty where it cannot be told. */
  readonly boot: string;
  /** Containers of one machine count their processes apart. */
  readonly namespace: string;
}

export function markOf(pid: number): ProcessMark {
  return {
    pid,
    start: startOf(pid),
    host: hostname(),
    boot: textIn("/proc/sys/kernel/random/boot_id"),
    namespace: namespaceHere(),
  };
}

/**
 * The process that calls this command. `npx` and the shell that it starts for this one command stand in between and end
 * with it: whoever called npx is meant.
 */
export function callerPid(env: Readonly<Record<string, string | undefined>> = process.env): number {
  const { npm_command: command, npm_lifecycle_event: event } = env;
  if (!hasProc || command !== "exec" || event !== "npx") return process.ppid;
  const between = wordsOf(process.ppid)[1] === "-c" ? parentOf(process.ppid) : process.ppid;
  return wordsOf(between)[0]?.startsWith("npm exec ") ? parentOf(between) : process.ppid;
}

/** No script, but whoever starts processes for others: from outside a container (`docker exec`), or a service manager. */
export const isNobody = (pid: number): boolean =>
  pid === 0 || (pid === 1 && /(?:^|\/)(?:systemd|init|launchd)$/.test(wordsOf(pid)[0] ?? ""));

const wordsOf = (pid: number): string[] => textIn(`/proc/${pid}/cmdline`).split("\0");
const parentOf = (pid: number): number => Number(statOf(pid)[1]);

/** `unknown`: it ran on another machine, or in another container, which cannot be seen from here. */
export function fateOf(mark: ProcessMark): "alive" | "gone" | "unknown" {
  const now = markOf(mark.pid);
  if (mark.host !== now.host) return "unknown";
  if (mark.boot !== now.boot) return mark.boot === "" || now.boot === "" ? "unknown" : "gone";
  if (mark.namespace !== now.namespace) return "unknown";
  if (now.start === null) return isThere(mark.pid) ? "unknown" : "gone";
  if (mark.start === null) return "unknown";
  return mark.start === now.start ? "alive" : "gone";
}

/** The same process always gives the same text, and no other process does. */
export const markText = ({ pid, start, host, boot, namespace }: ProcessMark): string =>
  JSON.stringify([pid, start, host, boot, namespace]);

const hasProc = existsSync("/proc/self/stat");

function startOf(pid: number): string | null {
  if (!hasProc) return startByPs(pid);
  const [state, ...fields] = statOf(pid);
  // One that has ended, and whose parent has not noticed, is gone: it is no process that was ever marked.
  return state === "Z" || state === "X" ? "ended" : (fields[18] ?? null);
}

/** From the state on. The program's name before it may hold anything, a closing bracket included. */
const statOf = (pid: number): string[] =>
  textIn(`/proc/${pid}/stat`)
    .replace(/^.*\) /s, "")
    .split(" ");

function startByPs(pid: number): string | null {
  const { stdout } = spawnSync("ps", ["-o", "lstart=", "-p", String(pid)], {
    encoding: "utf8",
    env: { ...process.env, LC_ALL: "C", TZ: "UTC" },
  });
  return stdout?.trim() || null;
}

function isThere(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // Another user's process exists, too.
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

function textIn(file: string): string {
  try {
    return readFileSync(file, "latin1").trim();
  } catch {
    return "";
  }
}

function namespaceHere(): string {
  try {
    return readlinkSync("/proc/self/ns/pid");
  } catch {
    return "";
  }
}
