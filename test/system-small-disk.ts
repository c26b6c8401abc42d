// A server on a small file system of its own, in a mount namespace that goes with it: a disk that a test can fill.
import { closeSync, openSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { mainFile, type Server, type ServerOptions } from "./server.js";

/** What the server must be started with. */
export function smallDisk(dataDir: string, bytes: number): ServerOptions {
  const script = `mount -t tmpfs -o size=${bytes} tmpfs "$0" && exec "$@"`;
  // Root may make a mount namespace; anybody else may in a user namespace of their own.
  const namespace = process.getuid?.() === 0 ? ["--mount"] : ["--mount", "--map-root-user"];
  return {
    dataDir,
    cwd: "/",
    program: ["unshare", ...namespace, "sh", "-c", script, dataDir, process.execPath, mainFile],
  };
}

/** The data directory as the server sees it. */
export const dataSeenBy = (server: Server): string => `/proc/${server.pid}/root${server.dataDir}`;

/** A file that takes up room on the server's disk. */
export interface Ballast {
  remove(): void;
}

/** Throws when there is not as much room. */
export function ballast(server: Server, bytes: number): Ballast {
  const file = join(dataSeenBy(server), "ballast");
  writeFileSync(file, Buffer.alloc(bytes));
  return { remove: () => rmSync(file) };
}

/** Leaves no room at all. */
export function fillDisk(server: Server): Ballast {
  const file = join(dataSeenBy(server), "ballast");
  const descriptor = openSync(file, "w");
  try {
    for (const page = Buffer.alloc(64 * 1024); ; ) writeSync(descriptor, page);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
  } finally {
    closeSync(descriptor);
  }
  return { remove: () => rmSync(file) };
}
