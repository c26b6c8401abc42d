// The machine the figures are from, as lines for the report: a bench table without it says little.

import { closeSync, fdatasyncSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { arch, cpus, release, totalmem, type } from "node:os";
import { join } from "node:path";
import { median } from "./findings.js";

const SYNCS = 100;

export interface Machine {
  readonly cpu: string;
  readonly memory: string;
  readonly system: string;
  readonly node: string;
  readonly disk: string;
  readonly date: string;
  readonly command: string;
}

/** `directory`: where the servers' data goes; `args`: the bench's own arguments. */
export function describeMachine(directory: string, args: readonly string[]): Machine {
  const cores = cpus();
  return {
    cpu: `${cores[0]?.model.trim() ?? "unknown"}, ${cores.length} cores`,
    memory: `${(totalmem() / 2 ** 30).toFixed(1)} GiB`,
    system: `${type()} ${release()} ${arch()}`,
    node: process.version,
    disk: `${fileSystem(directory)}, one fdatasync of 4 KiB takes ${syncMs(directory).toFixed(3)} ms`,
    date: new Date().toISOString(),
    command: ["npm run bench", ...(args.length > 0 ? ["--", ...args] : [])].join(" "),
  };
}

/** The type of the file system with the longest mount point above the directory. On tmpfs nothing is durable. */
function fileSystem(directory: string): string {
  try {
    const mounts = readFileSync("/proc/mounts", "utf8").split("\n");
    const above = mounts
      .map((line) => line.split(" "))
      .filter(
        ([, point = "?"]) => directory === point || directory.startsWith(point === "/" ? "/" : `${point}/`),
      )
      .sort(([, a = ""], [, b = ""]) => b.length - a.length);
    return above[0]?.[2] ?? "unknown file system";
  } catch {
    return "unknown file system";
  }
}

function syncMs(directory: string): number {
  const file = join(directory, "sync");
  const descriptor = openSync(file, "w");
  const page = Buffer.alloc(4096, 1);
  const times: number[] = [];
  for (let index = 0; index < SYNCS; index += 1) {
    const startedAt = performance.now();
    writeSync(descriptor, page);
    fdatasyncSync(descriptor);
    times.push(performance.now() - startedAt);
  }
  closeSync(descriptor);
  rmSync(file);
  return median(times);
}
