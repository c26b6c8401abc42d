/** The main thread's end of the keeper: when the write-ahead log is copied away, and backups under way. */
import { statSync } from "node:fs";
import { StoreError } from "../../store/store.js";
import type { FromKeeper, ToKeeper } from "./messages.js";
import { Thread } from "./thread.js";

/** Write-ahead log size at which the keeper starts to copy it away. */
const checkpointBytes = 16 * 2 ** 20;
/** The size at which it does so at once, and how often that is looked at, in commits: a second may bring many times as much. */
const checkpointNowBytes = 2 * checkpointBytes;
const lookEvery = 16;

export class KeeperThread {
  readonly #thread: Thread<ToKeeper, FromKeeper>;
  readonly #backups = new Map<number, { resolve: () => void; reject: (error: StoreError) => void }>();
  #checkpointing = false;
  #lastBackup = 0;
  #stopped: StoreError | null = null;

  /** `onCheckpoint` is told when the bulk of the log was copied: the writer does the rest. */
  constructor(
    readonly path: string,
    readonly onCheckpoint: () => void,
  ) {
    this.#thread = new Thread(
      new URL("./keeper.js", import.meta.url),
      { path },
      (message: FromKeeper) => this.#heard(message),
      (why) => {
        this.#stopped = new StoreError(
          "unavailable",
          `the keeper thread stopped (${why}): restart this server`,
        );
        this.#failAll(this.#stopped);
      },
    );
    this.#thread.unref();
  }

  #heard(message: FromKeeper): void {
    if (message.type === "checkpointed") {
      this.#checkpointing = false;
      this.onCheckpoint();
    } else if (message.type === "backed-up") this.#backedUp(message.id, message.error);
  }

  logBytes(): number {
    return statSync(`${this.path}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  }

  /** After each commit. */
  committed(seq: number): void {
    if (seq % lookEvery === 0) this.checkpointIfLong(checkpointNowBytes);
  }

  checkpointIfLong(bytes = checkpointBytes): void {
    if (this.logBytes() < bytes) return;
    // Without the keeper the writer does it all: commits wait for that, but the log does not grow for ever.
    if (this.#stopped !== null) this.onCheckpoint();
    else if (!this.#checkpointing) {
      this.#checkpointing = true;
      this.#thread.say({ type: "checkpoint" });
    }
  }

  backup(target: string, wallAt: number): Promise<void> {
    if (this.#stopped !== null) return Promise.reject(this.#stopped);
    const id = ++this.#lastBackup;
    return new Promise((resolve, reject) => {
      this.#backups.set(id, { resolve, reject });
      this.#thread.say({ type: "backup", id, target, wallAt });
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

  close(): Promise<void> {
    this.#failAll(new StoreError("closed", "the store was closed"));
    return this.#thread.close();
  }
}
