// Everything the bench must not leave behind: child processes and temporary directories. `cleanUp` runs at exit,
// however the bench ends, and so is synchronous.

import { type ChildProcess, type ForkOptions, fork, type SpawnOptions, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const children = new Set<ChildProcess>();
const directories = new Set<string>();

/** Starts a Node program as a child that dies with the bench. */
export function spawnNode(args: readonly string[], options: SpawnOptions): ChildProcess {
  return remember(spawn(process.execPath, args, options));
}

/** Starts another program as a child that dies with the bench. */
export function spawnProgram(name: string, args: readonly string[], options: SpawnOptions): ChildProcess {
  return remember(spawn(name, args, options));
}

/** Starts one of the bench's own modules as a child with an IPC channel. */
export function forkModule(
  name: string,
  args: readonly string[] = [],
  options: ForkOptions = {},
): ChildProcess {
  return remember(fork(fileURLToPath(new URL(name, import.meta.url)), args, options));
}

export function temporaryDirectory(parent: string): string {
  const directory = mkdtempSync(join(parent, "holdfast-bench-"));
  directories.add(directory);
  return directory;
}

/** Resolves when the child is gone; at once if it already is. */
export function gone(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
  return new Promise((resolve) => child.once("exit", () => resolve()));
}

export function cleanUp(): void {
  for (const child of children) child.kill("SIGKILL");
  for (const directory of directories) rmSync(directory, { recursive: true, force: true, maxRetries: 3 });
}

export function cleanUpAtExit(): void {
  process.on("exit", cleanUp);
  for (const [signal, code] of [
    ["SIGINT", 130] as const,
    ["SIGTERM", 143] as const,
    ["SIGHUP", 129] as const,
  ]) {
    process.on(signal, () => process.exit(code));
  }
}

function remember(child: ChildProcess): ChildProcess {
  children.add(child);
  child.once("exit", () => children.delete(child));
  return child;
}
