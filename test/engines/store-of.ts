// Which store the servers of a test run use: the embedded one, unless the run is over another engine. Each data directory
// gets a place of its own there, the same one after a restart.
import { createHash } from "node:crypto";
import { test } from "node:test";

/** A store's URL, without what tells the places of several servers apart. */
export const storeVariable = "HOLDFAST_TEST_STORE";

/** The servers keep their data in a file of their own, which can be copied and restored. */
export const hasFile = process.env[storeVariable] === undefined;
/** Several servers could share the data: time is coarse there, and what ends does so a little later. */
const isShared = /^(postgres|etcd)/.test(process.env[storeVariable] ?? "");
/** Fields of replies that change by themselves: what instants look like on a wall may be set right where servers share a clock. */
export const passing: readonly string[] = ["expires_in_ms", ...(isShared ? ["expires", "expires_at"] : [])];
/** After a TTL of so many ms, and this, a lease is over; on a busy machine shared clocks lose time. */
export const lapsedMs = (ttlMs: number): number => ttlMs + (isShared ? 1500 : 20);

export function storeOf(dataDir: string): Record<string, string> {
  const url = process.env[storeVariable];
  if (url === undefined) return {};
  const place = `t_${createHash("sha256").update(dataDir).digest("hex").slice(0, 16)}`;
  const setting = url.startsWith("postgres")
    ? `?schema=${place}`
    : url.startsWith("etcd")
      ? `?prefix=${place}/`
      : "";
  return { HOLDFAST_STORE: url + setting };
}

/** Declares a test of what outlives a server; where the data ends with it, there is nothing to show. */
export function lasting(name: string, body: () => Promise<void>): void {
  if (!/^memory/.test(process.env[storeVariable] ?? "")) test(name, body);
}
