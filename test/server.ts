// The fixture of whole-system tests: the real program as a child process on a free loopback port, with a data
// directory of its own, ready when `startServer` resolves. No server outlives the test process, and the
// temporary directories go with it. `call` is one HTTP request against it.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";

import { storeOf } from "./engines/store-of.js";

const root = fileURLToPath(new URL("../../", import.meta.url));
/** The program as it ships: what package.json installs as `holdfast`. */
export const mainFile = join(root, JSON.parse(readFileSync(join(root, "package.json"), "utf8")).bin.holdfast);
export const defaultTokens =
  "runner-1:secret-a,runner-2:secret-b,viewer:secret-v:observer,ci:secret-c:worker:reentrant";
export const adminToken = "operator-secret-for-tests";

const READY_WITHIN_MS = 30_000;
const READY_RETRY_MS = 20;
const STOP_WITHIN_MS = 15_000; // the program promises 10 s

export interface ServerOptions {
  /** Added to the server's environment; `undefined` removes a variable. */
  env?: Record<string, string | undefined>;
  /** Further arguments after `serve`. */
  args?: readonly string[];
  /** A directory to keep; without it a temporary one is made and removed when the tests end. */
  dataDir?: string;
  /** A port to reuse, say after a restart; without it a free one. */
  port?: number;
  /** The value of HOLDFAST_TOKENS. */
  tokens?: string;
  /** What to run instead of the program of package.json. */
  program?: readonly string[];
  cwd?: string;
  /** How long the start may take, for tests that start on much data. */
  readyWithinMs?: number;
}

export interface Server extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  readonly dataDir: string;
  /** Everything written so far. */
  stdout(): string;
  stderr(): string;
  /** Resolves with the exit code once the process has ended; `null` when a signal ended it. */
  readonly exited: Promise<number | null>;
  /** Sends the signal and returns at once; await `exited` for the end. */
  kill(signal: NodeJS.Signals): void;
  /** SIGTERM, then waits for the end. Fails when the process does not end in time. */
  stop(): Promise<number | null>;
  /** Starts the same again on the same data and port; kills the old process first if it still runs. */
  restart(changes?: ServerOptions): Promise<Server>;
}

export async function startServer(options: ServerOptions = {}): Promise<Server> {
  const dataDir = options.dataDir ?? temporaryDir("holdfast-data-");
  const port = options.port ?? (await freePort());
  const url = `http://127.0.0.1:${port}`;
  const [command = process.execPath, ...before] = options.program ?? [process.execPath, mainFile];
  const child = spawn(command, [...before, "serve", ...(options.args ?? [])], {
    cwd: options.cwd ?? dataDir,
    env: serverEnv(options, dataDir, port),
    stdio: ["ignore", "pipe", "pipe"],
    detached: true, // a process group, so that a signal also reaches what a wrapper such as npx started
  });
  const output = { stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output.stdout += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    output.stderr += text;
  });
  const exited = endOf(child);
  const pid = child.pid;
  if (pid === undefined) throw new Error(`could not start ${command}: ${await startError(child)}`);
  live.add(pid);

  const isOver = () => child.exitCode !== null || child.signalCode !== null;
  const kill = (signal: NodeJS.Signals) => {
    if (!isOver()) process.kill(-pid, signal);
  };
  const finish = async () => {
    kill("SIGKILL");
    await exited;
  };
  const report = (what: string) =>
    new Error(`${what}\n--- stdout\n${output.stdout}\n--- stderr\n${output.stderr}`);

  const failure = await untilReady(url, child, options.readyWithinMs ?? READY_WITHIN_MS);
  if (failure !== undefined) {
    await finish();
    throw report(`the server did not become ready: ${failure}`);
  }

  return {
    url,
    port,
    pid,
    dataDir,
    exited,
    kill,
    stdout: () => output.stdout,
    stderr: () => output.stderr,
    async stop() {
      kill("SIGTERM");
      const ended = await Promise.race([
        exited.then(() => true),
        delay(STOP_WITHIN_MS, false, { ref: false }),
      ]);
      if (!ended) {
        await finish();
        throw report(`the server did not end within ${STOP_WITHIN_MS} ms of SIGTERM`);
      }
      return exited;
    },
    async restart(changes = {}) {
      await finish();
      return startServer({ ...options, dataDir, port, ...changes });
    },
    [Symbol.asyncDispose]: finish,
  };
}

export interface CallOptions {
  token?: string;
  /** A string is sent as it stands; anything else as JSON with its content type. */
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

export interface Reply<Body> {
  status: number;
  headers: Headers;
  /** Parsed when the reply is JSON, otherwise its text. */
  body: Body;
}

/** One request on a connection of its own, so that a restarted server never meets an old one. */
export async function call<Body = Record<string, unknown>>(
  server: Pick<Server, "url">,
  method: string,
  path: string,
  { token, body, headers = {}, signal }: CallOptions = {},
): Promise<Reply<Body>> {
  const init: RequestInit = { method, headers: { connection: "close", ...headers } };
  const sent = new Headers(init.headers);
  if (token !== undefined) sent.set("authorization", `Bearer ${token}`);
  if (typeof body === "string") init.body = body;
  else if (body !== undefined) {
    init.body = JSON.stringify(body);
    if (!sent.has("content-type")) sent.set("content-type", "application/json");
  }
  if (signal !== undefined) init.signal = signal;
  const response = await fetch(server.url + path, { ...init, headers: sent });
  const text = await response.text();
  const isJson = /\bjson\b/.test(response.headers.get("content-type") ?? "") && text !== "";
  return { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : text };
}

/** A directory that is removed when the test process ends. */
export function temporaryDir(prefix: string): string {
  const dir = mkdtempSync(join(tmpdir(), prefix));
  temporary.add(dir);
  return dir;
}

export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const address = probe.address();
  probe.close();
  await once(probe, "close");
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}

function serverEnv(options: ServerOptions, dataDir: string, port: number): NodeJS.ProcessEnv {
  const inherited = Object.entries(process.env).filter(
    ([name]) => !name.startsWith("HOLDFAST_") && name !== "NODE_TEST_CONTEXT",
  );
  return {
    ...Object.fromEntries(inherited),
    HOLDFAST_HOST: "127.0.0.1",
    HOLDFAST_PORT: String(port),
    HOLDFAST_DATA: dataDir,
    HOLDFAST_TOKENS: options.tokens ?? defaultTokens,
    HOLDFAST_ADMIN_TOKEN: adminToken,
    // That the machine is busy with other tests is none of theirs; who tests overload says otherwise.
    HOLDFAST_OVERLOAD_MS: "off",
    ...storeOf(dataDir),
    ...options.env,
  };
}

/** Asks /ready again and again, and at once gives up when the process ends. Returns what went wrong. */
async function untilReady(url: string, child: ChildProcess, withinMs: number): Promise<string | undefined> {
  const deadline = AbortSignal.timeout(withinMs);
  const over = new AbortController();
  const onExit = () => over.abort();
  child.once("exit", onExit);
  if (child.exitCode !== null || child.signalCode !== null) onExit();
  const signal = AbortSignal.any([deadline, over.signal]);
  let last = "no answer";
  while (!signal.aborted) {
    try {
      const { status } = await call({ url }, "GET", "/ready", { signal });
      if (status === 200) {
        child.off("exit", onExit);
        return undefined;
      }
      last = `GET /ready answered ${status}`;
    } catch (error) {
      if (!signal.aborted) last = String(error instanceof Error ? (error.cause ?? error) : error);
    }
    await delay(READY_RETRY_MS, undefined, { signal }).catch(() => {});
  }
  const code = child.exitCode ?? child.signalCode;
  return over.signal.aborted ? `it ended (${code})` : `not within ${withinMs} ms (${last})`;
}

async function endOf(child: ChildProcess): Promise<number | null> {
  // "close" comes after the last output, so that stderr() is whole once this resolves.
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  if (child.pid !== undefined) live.delete(child.pid);
  return code;
}

async function startError(child: ChildProcess): Promise<unknown> {
  const [error] = await once(child, "error");
  return error;
}

const live = new Set<number>();
const temporary = new Set<string>();

process.once("exit", () => {
  for (const pid of live) {
    try {
      process.kill(-pid, "SIGKILL");
    } catch {
      // already gone
    }
  }
  for (const dir of temporary) rmSync(dir, { recursive: true, force: true, maxRetries: 3 });
});
// The test runner ends an overrunning file with SIGTERM, which by default would skip the above.
for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.once(signal, () => process.exit(1));
