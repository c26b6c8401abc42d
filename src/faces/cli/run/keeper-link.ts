/** The keeper process as `holdfast run` sees it. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { FromKeeper, ToKeep, ToKeeper } from "./messages.js";

/** How long the keeper may take to release before this process goes without it: the keeper goes on trying. */
const releaseMaxMs = 5000;

export class KeeperLink {
  readonly #process: ChildProcess;
  readonly #gone: Promise<void>;
  #isGone = false;
  #isOver = false;

  constructor(hear: (message: FromKeeper) => void, gone: () => void) {
    // Nothing of Holdfast's: a secret in an environment can be read by others of the same user.
    const env = Object.entries(process.env).filter(([name]) => !name.startsWith("HOLDFAST_"));
    this.#process = fork(fileURLToPath(new URL("./keeper.js", import.meta.url)), {
      detached: true,
      // Not our standard error: it may be a terminal, and the keeper may outlive this process.
      stdio: ["ignore", "ignore", "ignore", "ipc"],
      env: Object.fromEntries(env),
    });
    this.#process.on("message", hear);
    this.#gone = new Promise((resolve) => {
      const ended = (): void => {
        this.#isGone = true;
        resolve();
        if (!this.#isOver) gone();
      };
      this.#process.once("exit", ended);
      this.#process.once("error", ended);
    });
  }

  /** Resolves once the lease is renewed and guarded, or can not be: `gone` was told then. */
  async keep(lease: ToKeep): Promise<void> {
    const ready = once(this.#process, "message").catch(() => undefined);
    this.tell({ type: "keep", lease });
    await Promise.race([ready, this.#gone]);
  }

  tell(message: ToKeeper): void {
    if (this.#process.connected) this.#process.send(message, () => undefined);
  }

  /** The command has ended. False: there is no keeper that could release. */
  async release(): Promise<boolean> {
    this.#isOver = true;
    if (this.#isGone || !this.#process.connected) return false;
    this.tell({ type: "done" });
    // If somebody stopped it, it has to go on now.
    this.#process.kill("SIGCONT");
    await Promise.race([this.#gone, sleep(releaseMaxMs, undefined, { ref: false })]);
    if (this.#process.connected) this.#process.disconnect();
    this.#process.unref();
    return true;
  }
}
