// What the client's tests share: clients of two principals, polling, a front that stands between client and server,
// and programs that hold leases in processes of their own.
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { type Client, type ClientOptions, createClient } from "../src/client/entry.js";
import { cutOff } from "./evidence/proxy.js";
import { adminToken } from "./server.js";

/** Far above what anything here takes, also on a machine that is busy with something else. */
export const withinMs = 60_000;

export interface Clients {
  readonly one: Client;
  readonly two: Client;
  readonly admin: Client;
}

/** Two that compete, and one that may interfere. */
export function clientsOf(url: string, options: Partial<ClientOptions> = {}): Clients {
  const client = (token: string): Client => createClient({ url, token, ...options });
  return { one: client("secret-a"), two: client("secret-b"), admin: client(adminToken) };
}

/** Resolves when the condition is true. */
export async function until(
  what: string,
  isTrue: () => boolean | Promise<boolean>,
  limitMs = withinMs,
): Promise<void> {
  const deadline = performance.now() + limitMs;
  while (!(await isTrue())) {
    if (performance.now() > deadline) throw new Error(`not within ${limitMs} ms: ${what}`);
    await delay(10);
  }
}

/** A plain TCP front, whose open connections can all be cut at once, or after so many bytes of an answer. */
export async function startFront(serverPort: number) {
  const open = new Set<Socket>();
  let cutAfterBytes = Number.POSITIVE_INFINITY;
  const listener = createServer((caller) => {
    const server = connect(serverPort, "127.0.0.1");
    let passed = 0;
    for (const [from, to] of [
      [caller, server],
      [server, caller],
    ] as const) {
      open.add(from);
      from
        .on("error", () => undefined)
        .once("close", () => {
          open.delete(from);
          to.destroy();
        });
    }
    caller.on("data", (bytes: Buffer) => server.write(bytes));
    server.on("data", (bytes: Buffer) => {
      passed += bytes.length;
      caller.write(bytes.subarray(0, bytes.length - Math.max(0, passed - cutAfterBytes)));
      if (passed < cutAfterBytes) return;
      cutAfterBytes = Number.POSITIVE_INFINITY;
      caller.end(() => caller.destroy());
      server.destroy();
    });
  }).listen(0, "127.0.0.1");
  await once(listener, "listening");
  const address = listener.address();
  if (address === null || typeof address === "string") throw new Error("the front does not listen");
  return {
    url: `http://127.0.0.1:${address.port}`,
    cut(): void {
      for (const socket of open) cutOff(socket);
    },
    /** The first connection that carries so many bytes from the server is cut there, and only that one. */
    cutOnceAfter(bytes: number): void {
      cutAfterBytes = bytes;
    },
    async [Symbol.asyncDispose](): Promise<void> {
      const closed = once(listener, "close");
      listener.close();
      for (const socket of open) socket.destroy();
      await closed;
    },
  };
}

/** What test/client-holder.ts says. */
export type Said =
  | { readonly said: "held"; readonly token: number }
  /** What the first line after a stall found. */
  | { readonly said: "woke"; readonly aborted: boolean; readonly threw: string | null }
  | { readonly said: "read"; readonly token: number }
  | { readonly said: "write"; readonly token: number; readonly value: number }
  | { readonly said: "stopped-itself" };

export interface Holder extends AsyncDisposable {
  readonly pid: number;
  readonly child: ChildProcess;
  /** The next thing that it says of this kind. */
  next<Kind extends Said["said"]>(kind: Kind): Promise<Extract<Said, { said: Kind }>>;
  signal(signal: NodeJS.Signals): void;
}

/** Starts a process that works under a lease; see test/client-holder.ts for what it does. */
export function startHolder(task: Readonly<Record<string, unknown>>, onSaid?: (said: Said) => void): Holder {
  const file = fileURLToPath(new URL("./client-holder.js", import.meta.url));
  const child = fork(file, [JSON.stringify(task)], { execArgv: [] });
  const { pid } = child;
  if (pid === undefined) throw new Error("could not start a holder");
  const heard: Said[] = [];
  let wake = (): void => undefined;
  child.on("message", (said: Said) => {
    heard.push(said);
    onSaid?.(said);
    wake();
  });
  child.once("exit", () => wake());
  const kill = (): unknown => child.kill("SIGKILL");
  process.once("exit", kill);
  return {
    pid,
    child,
    signal: (signal) => void child.kill(signal),
    async next(kind) {
      const deadline = performance.now() + withinMs;
      for (;;) {
        const at = heard.findIndex(({ said }) => said === kind);
        const [found] = at < 0 ? [] : heard.splice(at, 1);
        if (found !== undefined) return found as Extract<Said, { said: typeof kind }>;
        if (child.exitCode !== null) throw new Error(`the holder ended (${child.exitCode}) before "${kind}"`);
        if (performance.now() > deadline) throw new Error(`the holder did not say "${kind}"`);
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, 1000);
          wake = () => {
            clearTimeout(timer);
            resolve();
          };
        });
      }
    },
    async [Symbol.asyncDispose]() {
      process.off("exit", kill);
      if (child.exitCode !== null || child.signalCode !== null) return;
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      await ended;
    },
  };
}
