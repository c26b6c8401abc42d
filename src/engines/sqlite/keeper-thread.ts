/** The main thread's end of the keeper: when the write-ahead log is copied away, and backups under way. */
import { once } from "node:events";
import { statSync } from "node:fs";
import { Worker } from "node:worker_threads";
import { StoreError } from "../../store/store.js";
import type { FromKeeper, ToKeeper } from "./messages.js";

/** Write-ahead log size at which the keeper starts to copy it away. */
const checkpointBytes = 16 * 2 ** 20;

export class KeeperThread {
  readonly #worker: Worker;
  readonly #backups = new Map<number, { resolve: () => void; reject: (error: StoreError) => void }>();
  #checkpointing = false;
  #lastBackup = 0;

  /** `onCheckpoint` is told when the bulk of the log was copied: the writer does the rest. */
  constructor(
    readonly path: string,
    onCheckpoint: () => void,
  ) {
    this.#worker = new Worker(new URL("./keeper.js", import.meta.url), { workerData: { path } });
    this.#worker.unref();
    this.#worker.on("message", (message: FromKeeper) => {
      if (message.type === "checkpointed") {
        this.#checkpointing = false;
        onCheckpoint();
      } else if (message.type === "backed-up") this.#backedUp(message.id, message.error);
    });
    this.#worker.on("error", (error) =>
      this.#failAll(new StoreError("unavailable", `the keeper thread stopped: ${error.message}`)),
    );
  }

  logBytes(): number {
    return statSync(`${this.path}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  }

  checkpointIfLong(): void {
    if (this.#checkpointing || this.logBytes() < checkpointBytes) return;
    this.#checkpointing = true;
    this.#say({ type: "checkpoint" });
  }

  backup(target: string, wallAt: number): Promise<void> {
    const id = ++this.#lastBackup;
    return new Promise((resolve, reject) => {
      this.#backups.set(id, { resolve, reject });
      this.#say({ type: "backup", id, target, wallAt });
    });
  }

  #backedUp(id: number, error: string | null): void {
    const waiting = this.#backups.get(id);
    this.#backups.delete(id);
    if (error === null) waiting?.resolve();
    else waiting?.reject(new StoreError("unavailable", `the backup could not be made: ${error}`));
  }

  #failAll(why: StoreError): void {
    for (const { reject } of this.#backups.values()) reject(why);
    this.#backups.clear();
  }

  async close(): Promise<void> {
    this.#failAll(new StoreError("closed", "the store was closed"));
    // Never `terminate`: a thread that is stopped inside the library takes the whole process down.
    this.#worker.ref();
    const exited = once(this.#worker, "exit");
    // The process must not end, with this promise unsettled, before the thread has.
    this.#worker.ref();
    this.#say({ type: "close" });
    await exited;
  }

  #say(message: ToKeeper): void {
    this.#worker.postMessage(message);
  }
}
