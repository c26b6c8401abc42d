// Starts and stops the measured server and the echo server, each as a process of its own on 127.0.0.1, and asks
// the measured one the few questions a scenario needs beside the load.

import type { ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import { closeSync, openSync, readFileSync } from "node:fs";
import { get } from "node:http";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { forkModule, gone, spawnNode } from "./children.js";

/** dist/bench/server.js → the program as it ships */
export const PROGRAM = fileURLToPath(new URL("../bin/holdfast.cjs", import.meta.url));

const READY_WITHIN_MS = 120_000;
const STOP_WITHIN_MS = 30_000;

export interface Target {
  readonly port: number;
  readonly pid: number;
  /** Ends it in order (SIGTERM), or at once (SIGKILL). */
  stop(signal?: "SIGTERM" | "SIGKILL"): Promise<void>;
}

export interface Holdfast extends Target {
  readonly dataDirectory: string;
  /** From spawn to the first 200 of GET /ready. */
  readonly readyAfterMs: number;
}

export interface Answer {
  readonly status: number;
  readonly text: string;
  /** A field of a JSON object reply; undefined when it is not there. */
  field(name: string): unknown;
}

/** On `store`, if it is given, else on a file in its data directory. */
export async function startHoldfast(
  program: string,
  dataDirectory: string,
  store?: string,
): Promise<Holdfast> {
  const port = await freePort();
  const logFile = join(dataDirectory, "server.log");
  const log = openSync(logFile, "a");
  const startedAt = performance.now();
  const child = spawnNode([program, "serve", "--host", "127.0.0.1", "--port", String(port)], {
    env: {
      ...environment(port, join(dataDirectory, "data")),
      ...(store === undefined ? {} : { HOLDFAST_STORE: store }),
    },
    stdio: ["ignore", log, log],
  });
  closeSync(log);
  while (!(await isReady(port))) {
    if (child.exitCode !== null || performance.now() - startedAt > READY_WITHIN_MS) {
      child.kill("SIGKILL");
      throw new Error(`the server did not become ready:\n${readFileSync(logFile, "utf8").slice(-2000)}`);
    }
    await sleep(2);
  }
  const readyAfterMs = performance.now() - startedAt;
  return { port, pid: child.pid ?? 0, dataDirectory, readyAfterMs, stop: stopper(child) };
}

/** `replies`: the JSON text to answer with, by the last segment of a POST's path, or `GET`. */
export async function startEcho(replies: Readonly<Record<string, string>>): Promise<Target> {
  const child = forkModule("echo.js", [JSON.stringify(replies)]);
  const port = await new Promise<number>((resolve, reject) => {
    child.once("message", (message: { port: number }) => resolve(message.port));
    child.once("exit", () => reject(new Error("the echo server did not start")));
  });
  return { port, pid: child.pid ?? 0, stop: stopper(child) };
}

/** One request outside the load; a status other than 2xx is an error. */
export async function ask(target: Target, method: string, path: string, body?: object): Promise<Answer> {
  const response = await fetch(`http://127.0.0.1:${target.port}${path}`, {
    method,
    headers: { authorization: "Bearer bench-secret", "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path} answered ${response.status}: ${text.slice(0, 500)}`);
  return { status: response.status, text, field: (name) => Object(JSON.parse(text))[name] };
}

function environment(port: number, data: string): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(([name]) => !name.startsWith("HOLDFAST_"));
  return {
    ...Object.fromEntries(own),
    NODE_ENV: "production",
    HOLDFAST_PORT: String(port),
    HOLDFAST_DATA: data,
    HOLDFAST_TOKENS: "bench:bench-secret:worker",
    HOLDFAST_ADMIN_TOKEN: randomBytes(24).toString("hex"),
    HOLDFAST_RATE_LIMIT: "off",
    HOLDFAST_LOG_LEVEL: "warn",
    HOLDFAST_WAITERS_MAX: "20000",
    HOLDFAST_WAITERS_PER_NAME_MAX: "20000",
    HOLDFAST_CONNECTIONS_MAX: "20000",
    HOLDFAST_OVERLOAD_MS: "off",
  };
}

function stopper(child: ChildProcess): Target["stop"] {
  return async (signal = "SIGTERM") => {
    child.kill(signal);
    const late = setTimeout(() => child.kill("SIGKILL"), STOP_WITHIN_MS);
    await gone(child);
    clearTimeout(late);
  };
}

function isReady(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const request = get(
      { host: "127.0.0.1", port, path: "/ready", agent: false, timeout: 5000 },
      (response) => {
        response.resume();
        response.once("close", () => resolve(response.statusCode === 200));
      },
    );
    request.once("timeout", () => request.destroy());
    request.once("error", () => resolve(false));
  });
}

export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once("error", reject);
    probe.listen(0, "127.0.0.1", () => {
      const address = probe.address();
      const port = address !== null && typeof address === "object" ? address.port : 0;
      probe.close(() => resolve(port));
    });
  });
}
