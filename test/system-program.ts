// Runs the program to its end, as a person or a script would, and says what came out.
import { spawn } from "node:child_process";
import { mainFile } from "./server.js";

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  /** Both, for messages. */
  readonly text: string;
}

export interface RunOptions {
  readonly env?: Record<string, string | undefined>;
  readonly cwd?: string;
}

/** Far above what any command takes. */
const withinMs = 30_000;

export const holdfast = (args: readonly string[], options: RunOptions = {}): Promise<Ended> =>
  runToEnd(process.execPath, [mainFile, ...args], options);

/** The environment has nothing of Holdfast's but what is given. */
export function runToEnd(command: string, args: readonly string[], options: RunOptions = {}): Promise<Ended> {
  const inherited = Object.entries(process.env).filter(
    ([name]) => !name.startsWith("HOLDFAST_") && name !== "NODE_TEST_CONTEXT",
  );
  const child = spawn(command, args, {
    env: { ...Object.fromEntries(inherited), ...options.env },
    cwd: options.cwd ?? "/",
    stdio: ["ignore", "pipe", "pipe"],
    timeout: withinMs,
    killSignal: "SIGKILL",
  });
  let [stdout, stderr] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => resolve({ code, stdout, stderr, text: stdout + stderr }));
  });
}
