// A small file system in a mount namespace of its own, for a database whose disk a test fills. It lasts as long as the process that
// holds it, so that the database can be started again on it.
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, existsSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { ownFolder } from "./postgres-lab.js";
import { until } from "./store-lab.js";

const isRoot = process.getuid?.() === 0;

export class SmallDisk {
  private constructor(
    readonly folder: string,
    readonly holder: ChildProcess,
  ) {}

  static async make(bytes: number): Promise<SmallDisk> {
    const folder = ownFolder("small-disk");
    const script = `mount -t tmpfs -o size=${bytes} tmpfs "$0" && chmod 777 "$0" && : > "$0/made" && exec sleep infinity`;
    // Root may make a mount namespace; anybody else may in a user namespace of their own.
    const namespace = isRoot ? ["--mount"] : ["--mount", "--map-root-user"];
    const holder = spawn("setpriv", [
      "--pdeathsig",
      "KILL",
      "unshare",
      ...namespace,
      "sh",
      "-c",
      script,
      folder,
    ]);
    const disk = new SmallDisk(folder, holder);
    await until(() => existsSync(join(disk.seenAs(folder), "made")));
    return disk;
  }

  /** A path on it, from outside. */
  seenAs(path: string): string {
    return `/proc/${this.holder.pid}/root${path}`;
  }

  /** The command, run where the disk is to be seen. */
  within([command, args]: [string, string[]]): [string, string[]] {
    const place = ["-t", String(this.holder.pid), "--mount"];
    if (isRoot) return ["nsenter", [...place, command, ...args]];
    // Not as the root of that namespace, which a database refuses.
    const other = ["unshare", "--user", "--map-user=1000"];
    return ["nsenter", [...place, "--user", "--preserve-credentials", ...other, command, ...args]];
  }

  /** Leaves no room at all; returns what makes room again. */
  fill(): () => void {
    const file = join(this.seenAs(this.folder), "ballast");
    const descriptor = openSync(file, "w");
    try {
      for (const page = Buffer.alloc(64 * 1024); ; ) writeSync(descriptor, page);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
    } finally {
      closeSync(descriptor);
    }
    return () => rmSync(file, { force: true });
  }

  remove(): void {
    this.holder.kill("SIGKILL");
  }
}
