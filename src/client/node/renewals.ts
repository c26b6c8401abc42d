/** The main thread's side of the renewing thread: one for the process, started with the first lease that wants it. */
import { Worker } from "node:worker_threads";
import { thisMoment } from "../durations.js";
import type { LeaseState } from "../lease-state.js";
import type { Granted } from "../renewal.js";
import type { TransportOptions } from "../transport.js";
import type { FromRenewer, ToRenewer } from "./messages.js";

interface Kept {
  readonly thread: Worker;
  readonly taken: () => void;
  readonly lost: (why: string) => void;
}

interface Running {
  readonly thread: Worker;
  /** Resolves when it can renew, whatever this thread does then. */
  readonly ready: Promise<void>;
}

let running: Running | null = null;
let lastId = 0;
const kept = new Map<number, Kept>();

/** Starts the thread, and waits until it can renew: whoever is granted a lease may block at once. */
export async function renewals(): Promise<{ keep: typeof keep }> {
  running ??= start();
  const { thread, ready } = running;
  thread.ref();
  await ready.finally(() => rest(thread));
  return { keep };
}

export interface Keeping {
  /** Resolves when the lease is in the thread's hands: not every runtime sends messages while this thread is blocked. */
  readonly taken: Promise<void>;
  readonly stop: () => void;
}

/** Renews until it is told to stop, or the lease is lost. */
function keep(
  { fetch: _, ...options }: TransportOptions,
  granted: Granted,
  state: LeaseState,
  lost: (why: string) => void,
): Keeping {
  running ??= start();
  const { thread } = running;
  const id = ++lastId;
  const taken = new Promise<void>((resolve) => {
    kept.set(id, { thread, lost, taken: resolve });
  });
  thread.ref();
  const { memory } = state;
  const at = thisMoment().monotonic;
  thread.postMessage({ type: "keep", id, options, granted, at, memory } satisfies ToRenewer);
  const stop = (): void => {
    kept.get(id)?.taken();
    if (!kept.delete(id)) return;
    thread.postMessage({ type: "drop", id } satisfies ToRenewer);
    rest(thread);
  };
  return { taken, stop };
}

/** With nothing to renew it does not keep the process alive. */
function rest(thread: Worker): void {
  if (kept.size === 0) thread.unref();
}

function start(): Running {
  // A thread takes over the process's options, and one of them is meant for text on the command line only.
  const isForText = process.execArgv.some((option) => option.startsWith("--input-type"));
  const options = isForText ? { execArgv: [] } : {};
  const thread = new Worker(new URL("./renewer.js", import.meta.url), options);
  const ready = new Promise<void>((resolve, reject) => {
    // A thread that dies renews nothing: whoever works under a lease of it must know now.
    const gone = (error?: unknown): void => {
      const why = `the renewing thread stopped${error instanceof Error ? `: ${error.message}` : ""}`;
      if (running?.thread === thread) running = null;
      for (const { thread: its, lost } of [...kept.values()]) if (its === thread) lost(why);
      reject(new Error(why));
    };
    thread.on("message", (said: FromRenewer) => {
      if (said.type === "ready") resolve();
      else if (said.type === "kept") kept.get(said.id)?.taken();
      else kept.get(said.id)?.lost(said.why);
    });
    thread.on("error", gone);
    thread.on("exit", () => gone());
  });
  return { thread, ready };
}
