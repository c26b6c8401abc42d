// Programs under test that run beside the test: `holdfast run` and `hold`, what they start, and files in which a command
// leaves a stamp every tenth of a second, the witness of when it was alive. Nothing outlives the test process.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { adminToken, call, mainFile, type Server, temporaryDir } from "./server.js";

const patienceMs = 30_000;
const outputWithinMs = 2000;

export interface Started {
  readonly pid: number;
  readonly child: ChildProcess;
  stdout(): string;
  stderr(): string;
  /** The exit code, or the signal that ended it. */
  readonly ended: Promise<number | NodeJS.Signals | null>;
}

export interface StartOptions {
  readonly env?: Record<string, string>;
  /** The bearer token; `secret-a` is runner-1's. */
  readonly token?: string;
  readonly input?: string | Buffer;
  /** Where the program believes the server to be. */
  readonly url?: string;
}

export function start(
  server: Pick<Server, "url">,
  args: readonly string[],
  options: StartOptions = {},
): Started {
  const { token = "secret-a", input, url = server.url } = options;
  const inherited = Object.entries(process.env).filter(
    ([name]) => !name.startsWith("HOLDFAST_") && name !== "NODE_TEST_CONTEXT",
  );
  const child = spawn(process.execPath, [mainFile, ...args], {
    env: { ...Object.fromEntries(inherited), HOLDFAST_URL: url, HOLDFAST_TOKEN: token, ...options.env },
    cwd: "/",
    stdio: [input === undefined ? "ignore" : "pipe", "pipe", "pipe"],
    // A session of its own: no terminal, wherever the tests are started.
    detached: true,
  });
  const { pid } = child;
  if (pid === undefined) throw new Error("could not start the program");
  const chunks = { stdout: [] as Buffer[], stderr: [] as Buffer[] };
  child.stdout?.on("data", (chunk: Buffer) => chunks.stdout.push(chunk));
  child.stderr?.on("data", (chunk: Buffer) => chunks.stderr.push(chunk));
  child.stdin?.end(input);
  live.add(pid);
  const ended = new Promise<number | NodeJS.Signals | null>((resolve) => {
    // Its output may still be on the way, unless something that it left behind keeps the pipes open.
    const closed = once(child, "close");
    child.once("exit", (code, signal) => {
      live.delete(pid);
      void Promise.race([closed, delay(outputWithinMs)]).then(() => resolve(code ?? signal));
    });
  });
  return {
    pid,
    child,
    ended,
    stdout: () => Buffer.concat(chunks.stdout).toString(),
    stderr: () => Buffer.concat(chunks.stderr).toString(),
  };
}

/** Polls until the answer is there; fails with the last one otherwise. */
export async function until<Value>(
  what: string,
  look: () => Value | Promise<Value>,
  withinMs = patienceMs,
): Promise<NonNullable<Value>> {
  const deadline = Date.now() + withinMs;
  for (;;) {
    const value = await look();
    if (value) return value as NonNullable<Value>;
    if (Date.now() > deadline) throw new Error(`not within ${withinMs} ms: ${what}`);
    await delay(20);
  }
}

export interface LockView {
  readonly status: "free" | "held";
  readonly holder: { readonly principal: string; readonly since: string } | null;
  readonly fencing_token: number;
  readonly waiters: number;
  readonly metadata: string | null;
}

export const lockOf = async (server: Pick<Server, "url">, name: string): Promise<LockView> =>
  (await call<LockView>(server, "GET", `/locks/${encodeURIComponent(name)}`, { token: adminToken })).body;

export const isFree = async (server: Pick<Server, "url">, name: string): Promise<boolean> =>
  (await lockOf(server, name)).status === "free";

/** The stamps of a witness, in ms. */
export class Witness {
  readonly dir = temporaryDir("holdfast-witness-");

  /**
   * A command that stamps, a process in its background, and one in a session of its own; each ignores SIGTERM. It ends
   * when a file `end` appears.
   */
  get stubborn(): string[] {
    const beat = `while [ ! -e "${this.dir}/end" ]; do date +%s%3N >> "$0"; sleep 0.1; done`;
    const script = `trap '' TERM
sh -c '${beat}' ${this.dir}/background &
setsid sh -c '${beat}' ${this.dir}/session &
exec sh -c '${beat}' ${this.dir}/command`;
    return ["sh", "-c", script];
  }

  file(name: string): string {
    return join(this.dir, name);
  }

  stamps(name: string): number[] {
    const file = this.file(name);
    return existsSync(file) ? readFileSync(file, "utf8").trim().split("\n").map(Number) : [];
  }

  /** Of all three. */
  async isBeating(): Promise<void> {
    for (const name of ["command", "background", "session"])
      await until(`${name} stamps`, () => this.stamps(name).length >= 2);
  }

  last(): number {
    return Math.max(...["command", "background", "session"].map((name) => this.stamps(name).at(-1) ?? 0));
  }
}

/** The keeper of a `holdfast run`. */
export const keeperOf = (run: Started): Promise<number> =>
  until("the keeper", () =>
    readdirSync("/proc")
      .filter((entry) => /^\d+$/.test(entry))
      .map(Number)
      .find((pid) => parentOf(pid) === run.pid && contentOf(`/proc/${pid}/cmdline`).includes("/keeper.")),
  );

const parentOf = (pid: number): number =>
  Number(
    contentOf(`/proc/${pid}/stat`)
      .replace(/^.*\) /s, "")
      .split(" ")[1] ?? 0,
  );

export function contentOf(file: string): string {
  try {
    return readFileSync(file, "latin1");
  } catch {
    return "";
  }
}

const live = new Set<number>();
process.once("exit", () => {
  for (const pid of live) {
    try {
      process.kill(-pid, "SIGKILL");
    } catch {
      // already gone
    }
  }
});
