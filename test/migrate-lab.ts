// What the tests of `holdfast migrate` share: the command as a process that is killed at a step, everything that a store holds, and a
// server's data with every kind of record in it.
import assert from "node:assert/strict";
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { openSource } from "../src/engines/open.js";
import { isPassing, type Stored } from "../src/store/archive.js";
import { call, mainFile, type Server } from "./server.js";
import { type Ended, holdfast } from "./system-program.js";

export const worker = "secret-a";
export const other = "secret-b";

export const migrate = (from: string, to: string): Promise<Ended> =>
  holdfast(["migrate", "--from", from, "--to", to, "--json"]);

/** Every step says so before it begins; in this order. */
export const steps = [
  /looking at/,
  /closing .* until/,
  /sealing/,
  /copying \d+ records after 0$/,
  /copying \d+ records after (?:4|5)\d\d$/,
  /copying \d+ records after (?:9|10)\d\d$/,
  /opening/,
  /done/,
] as const;

function started(from: string, to: string): ChildProcessByStdio<null, null, Readable> {
  const env = Object.entries(process.env).filter(
    ([name]) => !name.startsWith("HOLDFAST_") && name !== "NODE_TEST_CONTEXT",
  );
  return spawn(process.execPath, [mainFile, "migrate", "--from", from, "--to", to], {
    stdio: ["ignore", "ignore", "pipe"],
    env: Object.fromEntries(env),
  });
}

/** Runs it until it tells of the step, and kills it there. Whether it came so far, and what it said. */
export async function killedAt(
  from: string,
  to: string,
  step: RegExp,
): Promise<{ isReached: boolean; said: string }> {
  const child = started(from, to);
  const gone = once(child, "exit");
  let [isReached, said] = [false, ""];
  for await (const line of createInterface(child.stderr)) {
    said += `${line}\n`;
    if (!step.test(line)) continue;
    isReached = true;
    child.kill("SIGKILL");
  }
  await gone;
  return { isReached, said };
}

/** Kills it at a moment, whatever it does then. */
export async function killedAfter(from: string, to: string, ms: number): Promise<void> {
  const child = started(from, to);
  child.stderr.resume();
  const gone = once(child, "exit");
  const timer = setTimeout(() => child.kill("SIGKILL"), ms);
  await gone;
  clearTimeout(timer);
}

/** All records that are carried, in order. */
export async function everything(url: string): Promise<Stored[]> {
  const source = await openSource(url);
  const found: Stored[] = [];
  try {
    for (let after = ""; ; ) {
      const page = await source.page(after, 1000);
      found.push(...page.filter(({ key }) => !isPassing(key)));
      const last = page.at(-1);
      if (last === undefined) return found;
      after = last.key;
    }
  } finally {
    await source.close();
  }
}

export interface Held {
  readonly name: string;
  readonly lease_id: string;
  readonly fencing_token: number;
}

export interface Seeded {
  /** A lease with a request id of the same name, one of a session, and the session. */
  readonly lease: Held;
  readonly bound: Held;
  readonly sessionId: string;
}

export async function ok<Body>(
  server: Pick<Server, "url">,
  method: string,
  path: string,
  body?: unknown,
  token = worker,
  headers: Record<string, string> = {},
): Promise<Body> {
  const reply = await call<Body>(server, method, path, { token, body, headers });
  assert.ok(reply.status < 300, `${method} ${path}: ${reply.status} ${JSON.stringify(reply.body)}`);
  return reply.body;
}

export const acquire = (
  server: Pick<Server, "url">,
  name: string,
  body: object = {},
  headers: Record<string, string> = {},
): Promise<Held> => ok(server, "POST", `/locks/${encodeURIComponent(name)}/acquire`, body, worker, headers);

/** More than two pages of records, of every kind. */
export async function seed(server: Server, admin: string): Promise<Seeded> {
  const many = Array.from({ length: 600 }, (_, i) => `many-${i}`);
  const caller = async (): Promise<void> => {
    for (let name = many.pop(); name !== undefined; name = many.pop())
      await acquire(server, name, { ttl_seconds: 3600 }, { "idempotency-key": name });
  };
  await Promise.all(Array.from({ length: 16 }, caller));
  const lease = await acquire(server, "held", { ttl_seconds: 3600 }, { "idempotency-key": "held" });
  const { session_id: sessionId } = await ok<{ session_id: string }>(server, "POST", "/sessions", {
    ttl_seconds: 3600,
  });
  const bound = await acquire(server, "bound", { session_id: sessionId });
  await acquire(server, "path:src/ä ö.ts", { ttl_seconds: 3600 });
  const free = await acquire(server, "free", { ttl_seconds: 60 });
  await ok(server, "POST", "/locks/free/release", { lease_id: free.lease_id });
  await ok(server, "DELETE", "/locks/many-7", { reason: "to be seen in the audit" }, admin);
  await ok(server, "POST", "/tokens", { name: "made", role: "worker" }, admin);
  await ok(server, "PUT", "/v1/policy", { revision: 0, reclaims_max: 7 }, admin);
  for (const id of ["task-1", "task-2"])
    await ok(server, "POST", "/v1/nodes", { id, type: "task", title: id });
  await ok(server, "POST", "/v1/nodes/task-1/claim", {});
  return { lease, bound, sessionId };
}
