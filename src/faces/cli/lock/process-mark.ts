/**
 * Processes as they can be recognised again later. A number alone is given to another process soon; with the time of
 * its start, the machine and its boot it means one process for ever.
 */
import { spawnSync } from "node:child_process";
import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import { isThere, showsProcesses, statOf } from "../process-stat.js";

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
  return { pid, start: startOf(pid), host: hostname(), boot: bootHere(), namespace: namespaceHere() };
}

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

function startOf(pid: number): string | null {
  if (!showsProcesses) return startByPs(pid);
  const stat = statOf(pid);
  if (stat === null) return null;
  // One that has ended, and whose parent has not noticed, is gone: it is no process that was ever marked.
  return stat.hasEnded ? "ended" : String(stat.startedAt);
}

function startByPs(pid: number): string | null {
  const { stdout } = spawnSync("ps", ["-o", "lstart=", "-p", String(pid)], {
    encoding: "utf8",
    env: { ...process.env, LC_ALL: "C", TZ: "UTC" },
  });
  return stdout?.trim() || null;
}

function bootHere(): string {
  try {
    return readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
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
