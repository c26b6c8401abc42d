// Load processes as the evidence sees them: started, perhaps stopped and continued by a fault, and read when they
// have ended.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Run } from "../../src/verify/lab.js";
import { temporaryDir } from "../server.js";
import { loadRuns } from "./history-file.js";
import type { LoadJob } from "./load.js";

const program = fileURLToPath(new URL("./load.js", import.meta.url));

export interface LoadProcess extends AsyncDisposable {
  signal(signal: NodeJS.Signals): void;
  /** Tells it that the time is up: it begins nothing new, and ends soon. */
  over(): void;
  /** Resolves when it has ended. */
  readonly runs: Promise<Run[]>;
}

/** Resolves when the workloads run. */
export async function startLoad(job: Omit<LoadJob, "file">): Promise<LoadProcess> {
  const file = join(temporaryDir("holdfast-load-"), "runs.json");
  const child = spawn(process.execPath, [program, JSON.stringify({ ...job, file })], {
    stdio: ["ignore", "ignore", "pipe", "ipc"],
  });
  let errors = "";
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    errors += text;
  });
  const closed = once(child, "close");
  const onExit = (): void => void child.kill("SIGKILL");
  process.once("exit", onExit);
  void closed.then(() => process.off("exit", onExit));
  const runs = closed.then(([code]) => {
    if (code !== 0) throw new Error(`the load ended with ${code}: ${errors}`);
    return loadRuns(file);
  });
  // It says so when it has begun; a load that ends before that fails here.
  await Promise.race([once(child, "message"), runs]);
  return {
    signal: (signal) => void child.kill(signal),
    over: () => void child.kill("SIGTERM"),
    runs,
    [Symbol.asyncDispose]: async () => {
      child.kill("SIGKILL");
      await closed;
    },
  };
}
