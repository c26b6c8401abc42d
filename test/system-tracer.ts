// Makes system calls of a running server fail, with strace: how a disk that refuses a sync is had on any machine.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { until } from "./system-client.js";

export interface Injected {
  /** What strace has seen so far. */
  output(): string;
  /** Lets go of the process: from then on everything works again. */
  detach(): Promise<void>;
}

/** Which of the two a library uses depends on how it was built. */
export const syncCalls = "fsync,fdatasync";

/** From here on syncs of files fail, as `when` says (counted per thread). Resolves when that is in force. */
export async function failSyncs(pid: number, when: string): Promise<Injected> {
  const strace = spawn(
    "strace",
    ["-f", "-p", String(pid), "-e", `trace=${syncCalls}`, "-e", `inject=${syncCalls}:error=EIO:${when}`],
    { stdio: ["ignore", "ignore", "pipe"] },
  );
  let output = "";
  strace.stderr.setEncoding("utf8").on("data", (text: string) => {
    output += text;
  });
  const ended = once(strace, "exit");
  await until(() => {
    if (strace.exitCode !== null) throw new Error(`strace ended: ${output}`);
    return /attached/.test(output) ? true : undefined;
  }, "strace is attached");
  return {
    output: () => output,
    detach: async () => {
      strace.kill("SIGINT");
      await ended;
    },
  };
}
