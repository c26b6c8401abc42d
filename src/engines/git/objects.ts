/** The records themselves, as objects of the repository. They are named by their content, so they never change. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { StoreError } from "../../store/store.js";
import { Conversation, Ended } from "./conversation.js";
import type { GitProgram } from "./git-program.js";
import { ScratchFile } from "./scratch-file.js";

/** A larger one is no record of ours. */
const textMax = 4 * 1024 * 1024;
/** Writes by one process after which a standing one is worth its start. */
const fewWrites = 2;
/** Records remembered by a process, so that a list of many locks is read once. */
const rememberedMax = 20_000;

export class Objects {
  readonly #known = new Map<string, string>();
  #reader: Conversation | null = null;
  #writer: Conversation | null = null;
  #writes = 0;
  readonly #scratch: ScratchFile;

  constructor(
    readonly git: GitProgram,
    readonly commonDir: string,
    /** For texts on their way to git. */
    scratchDir: string,
  ) {
    this.#scratch = new ScratchFile(scratchDir);
  }

  /** The text of an object; null if it is not here; empty if it is nothing of ours, as a commit is. */
  async read(oid: string): Promise<string | null> {
    const known = this.#known.get(oid) ?? this.#loose(oid) ?? (await this.#byGit(oid).catch(refuseEnded));
    if (known !== null) this.#remember(oid, known);
    return known;
  }

  async write(text: string): Promise<string> {
    const isFew = this.#writes++ < fewWrites;
    const said = await (isFew ? this.#writeOnce(text) : this.#writeMore(text))
      .catch(refuseEnded)
      .catch((error: StoreError) => {
        // A clean-up of the repository took the empty directory away that it was to be put into.
        if (!/unable to create temporary file: No such file/.test(error.message)) throw error;
        return this.#writeOnce(text);
      });
    const oid = said.trim();
    if (!/^[0-9a-f]{40,64}$/.test(oid))
      throw new StoreError("unavailable", `git hash-object answered ${JSON.stringify(said)}`);
    this.#remember(oid, text);
    return oid;
  }

  async close(): Promise<void> {
    await Promise.all([this.#reader?.close(), this.#writer?.close()]);
    this.#scratch.remove();
  }

  #remember(oid: string, text: string): void {
    if (this.#known.size >= rememberedMax) this.#known.clear();
    this.#known.set(oid, text);
  }

  #writeOnce(text: string): Promise<string> {
    return this.git.output(["hash-object", "-w", "--stdin"], text);
  }

  /** git reads texts for a standing process from files only; what attributes say of files must not change them. */
  #writeMore(text: string): Promise<string> {
    this.#writer ??= new Conversation(this.git, ["hash-object", "-w", "--no-filters", "--stdin-paths"]);
    return this.#writer.talk(async (say, line) => {
      this.#scratch.put(text);
      say(`${asLine(this.#scratch.path)}\n`);
      return line();
    });
  }

  /** As git writes a new object: read without a process. */
  #loose(oid: string): string | null {
    try {
      // Not imported: who takes a lock that nobody had reads no record, and a command counts every file it loads.
      const bytes = process
        .getBuiltinModule("node:zlib")
        .inflateSync(readFileSync(join(this.commonDir, "objects", oid.slice(0, 2), oid.slice(2))), {
          maxOutputLength: textMax,
        });
      const end = bytes.indexOf(0);
      return bytes.subarray(0, end).toString().startsWith("blob ") ? bytes.toString("utf8", end + 1) : null;
    } catch {
      return null; // packed, or damaged: git tells
    }
  }

  async #byGit(oid: string): Promise<string | null> {
    this.#reader ??= new Conversation(this.git, ["cat-file", "--batch"]);
    return this.#reader.talk(async (say, line, bytes) => {
      say(`${oid}\n`);
      const [, type, size] = (await line()).split(" ");
      if (size === undefined) return null; // "<oid> missing"
      const text = await bytes(Number(size));
      await line();
      return type === "blob" && text.length <= textMax ? text.toString("utf8") : "";
    });
  }
}

/** As git reads a path from a line: one with a line break in it, between quotes. */
const asLine = (path: string): string =>
  path.includes("\n") ? `"${path.replace(/["\\]/g, "\\$&").replaceAll("\n", "\\n")}"` : path;

/** Nothing is lost with an object that was not written or read. */
function refuseEnded(error: unknown): never {
  throw error instanceof Ended ? new StoreError("unavailable", `git failed: ${error.message}`) : error;
}
