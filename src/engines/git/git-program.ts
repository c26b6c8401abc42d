/**
 * Running git: by argument lists, never through a shell; without prompts, hooks, reflogs or housekeeping of its own; with
 * references and objects synced to the disk. A process that does not answer in its time is ended with all it started.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { StoreError } from "../../store/store.js";

/** What a repository's own or a user's settings must not change about our calls. */
const settings: readonly (readonly [string, string])[] = [
  // By default git syncs no reference: an acknowledged lock could be gone after a power cut.
  ["core.fsync", "loose-object,reference"],
  ["core.hooksPath", "/dev/null"],
  ["core.logAllRefUpdates", "false"],
  // Else the name of an object is looked for among the references first, in a dozen places, at every swap.
  ["core.warnAmbiguousRefs", "false"],
  ["gc.auto", "0"],
  ["maintenance.auto", "false"],
  ["advice.pushUpdateRejected", "false"],
  // Options that only some servers take, and rounds and files that a lock has no use for.
  ["push.pushOption", ""],
  ["push.negotiate", "false"],
  ["fetch.writeCommitGraph", "false"],
];

const configured: readonly string[] = settings.flatMap(([name, value]) => ["-c", `${name}=${value}`]);

/** Variables of git that say how to reach others. The rest name a repository, an index or a quarantine that is not meant. */
const keptVariables =
  /^GIT_(?:SSH|ASKPASS|CONFIG|TRACE|HTTP|SSL|PROXY|ALLOW_PROTOCOL|PROTOCOL|CURL|EXEC_PATH|CEILING)/;

export function environmentFor(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const kept = Object.entries(env).filter(([name]) => !name.startsWith("GIT_") || keptVariables.test(name));
  return { ...Object.fromEntries(kept), GIT_TERMINAL_PROMPT: "0", GIT_OPTIONAL_LOCKS: "0", LC_ALL: "C" };
}

/**
 * For a process that stands by: its C library (glibc) keeps the memory of one answer for the next. To compress an object takes
 * 300 kB, and to have that from the system for each anew was an eighth of the time in which a lock is taken and given back.
 */
const standing: NodeJS.ProcessEnv = { MALLOC_TOP_PAD_: "1048576" };

export interface GitEnd {
  /** null: it was ended because its time was over. 128 and more: it gave up, or a signal ended it, as `stderr` says. */
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** How much of an answer is read: a million references would be less. */
const outputMax = 256 * 1024 * 1024;
/** How long its pipes must be silent after its end to count as closed, in ms: what it left behind may keep them open. */
const silenceMs = 250;
/** As a shell tells of a process that a signal ended. */
const signalled = 128;

export class GitProgram {
  readonly #env: NodeJS.ProcessEnv;

  constructor(
    /** From there git finds the repository, and checks whose it is. */
    readonly cwd: string,
    env: NodeJS.ProcessEnv,
    /** How long one process may take, in ms. */
    readonly timeoutMs: number,
  ) {
    this.#env = environmentFor(env);
  }

  /** Runs to its end, whatever that is. */
  run(args: readonly string[], input?: string): Promise<GitEnd> {
    return new Promise((resolve, reject) => {
      const child = this.#spawn(args, this.#env, true);
      const out: Buffer[] = [];
      const err: Buffer[] = [];
      let size = 0;
      let isLate = false;
      const end = (): void => {
        isLate = true;
        killAll(child);
      };
      const timer = setTimeout(end, this.timeoutMs);
      child.stdout?.on("data", (chunk: Buffer) => {
        size += chunk.length;
        if (size > outputMax) end();
        else out.push(chunk);
      });
      child.stderr?.on("data", (chunk: Buffer) => err.push(chunk));
      child.once("error", (error) => {
        clearTimeout(timer);
        reject(notStarted(error));
      });
      child.once("exit", () => closeSilent(child));
      child.once("close", (code, signal) => {
        clearTimeout(timer);
        const said = Buffer.concat(err).toString("utf8");
        resolve({
          code: isLate ? null : (code ?? signalled),
          stdout: Buffer.concat(out).toString("utf8"),
          stderr: signal === null || isLate ? said : `${said}git was ended by ${signal}\n`,
        });
      });
      child.stdin?.on("error", () => undefined); // it ended before it read everything, and says why
      child.stdin?.end(input ?? "");
    });
  }

  /** The output of a command that must succeed. */
  async output(args: readonly string[], input?: string): Promise<string> {
    const end = await this.run(args, input);
    if (end.code === 0) return end.stdout;
    throw new StoreError("unavailable", `git ${args[0]} failed: ${whyOf(end, this.timeoutMs)}`);
  }

  /** A process to talk with. */
  start(args: readonly string[]): ChildProcess {
    return this.#spawn(args, { ...standing, ...this.#env }, false);
  }

  #spawn(args: readonly string[], env: NodeJS.ProcessEnv, detached: boolean): ChildProcess {
    return spawn("git", [...configured, ...args], { cwd: this.cwd, env, detached, stdio: "pipe" });
  }
}

/** What git said, in one line. */
export function whyOf({ code, stderr }: GitEnd, timeoutMs: number): string {
  if (code === null) return `no answer within ${Math.round(timeoutMs / 1000)} s`;
  const said = stderr
    .split("\n")
    .map((line) => line.replace(/\s+/g, " ").trim())
    .filter((line) => line !== "" && !line.startsWith("hint:"));
  return said.length === 0 ? `exit code ${code}` : said.join("; ");
}

function notStarted(error: NodeJS.ErrnoException): StoreError {
  return new StoreError(
    "unavailable",
    error.code === "ENOENT"
      ? "there is no git program on the PATH: install git (2.36 or newer)"
      : `git could not be started: ${error.message}`,
  );
}

/** With what it started: a transport that hangs would keep its pipes open. */
function killAll(child: ChildProcess): void {
  try {
    if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
  } catch {
    child.kill("SIGKILL");
  }
}

/**
 * An ssh that stays in the background for the next connection keeps the pipes of the one that it served: nobody would
 * ever see them closed. What git itself has said is in them by now.
 */
function closeSilent(child: ChildProcess): void {
  const pipes = [child.stdout, child.stderr].flatMap((pipe) => pipe ?? []);
  const close = (): void => {
    for (const pipe of pipes) pipe.destroy();
  };
  // What has arrived is read before it counts as silence, however late this process is.
  const wait = (): NodeJS.Timeout => setTimeout(() => setImmediate(close), silenceMs);
  let timer = wait();
  for (const pipe of pipes)
    pipe.on("data", () => {
      clearTimeout(timer);
      timer = wait();
    });
  child.once("close", () => clearTimeout(timer));
}
