/**
 * One process per data file. The lock is one that the operating system takes back when the process dies, however
 * it dies: an exclusive transaction on a small database beside the data file.
 */
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { StoreError } from "../../store/store.js";
import { type Database, openDatabase } from "./binding.js";

export class FileLock {
  readonly #database: Database;
  readonly #pidPath: string;

  constructor(path: string) {
    this.#pidPath = `${path}.pid`;
    this.#database = openLock(`${path}.lock`);
    try {
      this.#database.exec("PRAGMA busy_timeout = 0; PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE");
    } catch (error) {
      this.#database.close();
      if (!/locked|busy/i.test(String(error)))
        throw new StoreError("unavailable", `${path}.lock cannot be locked: ${String(error)}`, {
          cause: error,
        });
      throw new StoreError(
        "unavailable",
        `${path} is in use by another Holdfast process${this.#owner()}: stop that process first, or name another file`,
        {
          cause: error,
        },
      );
    }
    try {
      writeFileSync(this.#pidPath, `${process.pid}\n`, { mode: 0o600 });
    } catch {
      // It is only for a message. A full disk is told when the data file is opened.
    }
  }

  /** Only for the message: the lock itself does not trust this file. */
  #owner(): string {
    try {
      return ` (process ${readFileSync(this.#pidPath, "utf8").trim()})`;
    } catch {
      return "";
    }
  }

  release(): void {
    rmSync(this.#pidPath, { force: true });
    this.#database.exec("ROLLBACK");
    this.#database.close();
  }
}

function openLock(path: string): Database {
  try {
    return openDatabase(path);
  } catch (error) {
    throw new StoreError(
      "unavailable",
      `${path} cannot be opened (${error instanceof Error ? error.message : error}): this user must be able to write to its directory`,
      { cause: error },
    );
  }
}
