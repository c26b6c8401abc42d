/**
 * A file by which a standing git process is given one text after the other. It is kept and written over: making and
 * removing one for each text, on a disk that is being synced all the time, took longer than all else that is ours.
 */
import { randomBytes } from "node:crypto";
import {
  closeSync,
  fstatSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readdirSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";

/** How long a file may lie untouched, in ms, until it counts as left behind by a process that was killed. */
const leftBehindMs = 24 * 3_600_000;
const isName = /^record-[0-9a-f]{16}$/;

export class ScratchFile {
  readonly path: string;
  #file: number | null = null;
  #size = 0;

  constructor(readonly dir: string) {
    this.path = join(dir, `record-${randomBytes(8).toString("hex")}`);
  }

  /** From here on the file holds this text and no other. */
  put(text: string): void {
    // Another may have taken it for left behind.
    if (this.#file !== null && fstatSync(this.#file).nlink === 0) this.#close();
    this.#file ??= this.#open();
    const bytes = Buffer.from(text);
    for (let at = 0; at < bytes.length; ) at += writeSync(this.#file, bytes, at, bytes.length - at, at);
    if (bytes.length < this.#size) ftruncateSync(this.#file, bytes.length);
    this.#size = bytes.length;
  }

  remove(): void {
    if (this.#file === null) return;
    this.#close();
    rmSync(this.path, { force: true });
  }

  #open(): number {
    mkdirSync(this.dir, { recursive: true, mode: 0o700 });
    for (const name of readdirSync(this.dir).filter((one) => isName.test(one))) {
      const file = join(this.dir, name);
      const stat = statSync(file, { throwIfNoEntry: false });
      if (stat !== undefined && Date.now() - stat.mtimeMs > leftBehindMs) rmSync(file, { force: true });
    }
    return openSync(this.path, "wx", 0o600);
  }

  #close(): void {
    if (this.#file !== null) closeSync(this.#file);
    this.#file = null;
    this.#size = 0;
  }
}
