/**
 * The references of this clone, shared by its worktrees. They are read from their files, as git lays them out, and only
 * ever changed by git itself, which takes each reference's lock file and compares under it.
 */
import { existsSync, readFileSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { StoreError } from "../../store/store.js";
import { type Authority, guardRef, lockPrefix, type Refs, type Swap, type SwapEnd } from "./authority.js";
import { Conversation, Ended } from "./conversation.js";
import type { GitProgram } from "./git-program.js";

/** How old a lock file is that its writer left behind, in ms: git holds one for as long as a swap takes. */
const staleLockMs = 60_000;
/** Looks in a row during which the guard changed. */
const looksMax = 50;
/** Swaps by one process after which a standing one is worth its start. */
const fewSwaps = 2;

export class LocalRefs implements Authority {
  readonly isRemote = false;
  readonly place: string;
  obstacle: string | null = null;
  readonly #updates: Conversation;
  #swaps = 0;
  #packed: { readonly mark: string; readonly refs: Refs } | null = null;

  constructor(
    readonly git: GitProgram,
    readonly commonDir: string,
  ) {
    this.place = commonDir;
    this.#updates = new Conversation(git, ["update-ref", "--stdin"]);
  }

  async read(refs: readonly string[]): Promise<Refs> {
    if (!this.#isInFiles()) return only(await this.readAll(), refs);
    return this.#aroundGuard(async (guard) => {
      const found = new Map<string, string>();
      for (const ref of refs) {
        const oid = ref === guardRef ? guard : this.#oid(ref);
        if (oid !== undefined) found.set(ref, oid);
      }
      return found;
    });
  }

  readAll(): Promise<Refs> {
    const read = async () => {
      const format = "--format=%(objectname) %(refname)";
      const refs = new Map<string, string>();
      for (const line of (await this.git.output(["for-each-ref", format, "refs/holdfast/"])).split("\n")) {
        const [oid, ref] = line.split(" ");
        if (oid && ref && (ref === guardRef || ref.startsWith(lockPrefix))) refs.set(ref, oid);
      }
      return refs;
    };
    return this.#isInFiles() ? this.#aroundGuard(read) : read();
  }

  /**
   * References are read one after the other. The guard must be as it was before any lock was read, for whoever compares it
   * later; and as it is after, for whoever finds a lock gone and its token in the floor. So it must be the same.
   */
  async #aroundGuard(read: (guard: string | undefined) => Promise<Map<string, string>>): Promise<Refs> {
    for (let look = 0; ; look++) {
      const before = this.#oid(guardRef);
      const refs = await read(before);
      if (before !== undefined && refs.has(guardRef)) refs.set(guardRef, before);
      if (this.#oid(guardRef) === before) return refs;
      if (look === looksMax)
        throw new StoreError("contended", `others keep changing the locks of ${this.place}`);
    }
  }

  #oid(ref: string): string | undefined {
    return this.#loose(ref) ?? this.#packedRefs().get(ref);
  }

  async bring(): Promise<void> {}

  async swap(swaps: readonly Swap[]): Promise<SwapEnd> {
    // As many digits as this repository's names of objects have.
    const zero = "0".repeat(swaps.flatMap(({ fresh, old }) => fresh ?? old ?? [])[0]?.length ?? 40);
    const changes = swaps.map(({ ref, old, fresh }) =>
      fresh === null ? `delete ${ref} ${old ?? zero}\n` : `update ${ref} ${fresh} ${old ?? zero}\n`,
    );
    const why = this.#swaps++ < fewSwaps ? await this.#swapOnce(changes) : await this.#swapMore(changes);
    if (why === null) return "done";
    this.obstacle = why.trim().split("\n")[0] ?? "";
    this.#refuseStale(why);
    if (isHopeless.test(why) && isBeforeCommit.test(why))
      throw new StoreError("unavailable", `the references of ${this.place} cannot be written: ${why.trim()}`);
    return isBeforeCommit.test(why) ? "lost" : "unknown";
  }

  async probe(oid: string): Promise<void> {
    const ref = `refs/holdfast/probe/${process.pid}`;
    await this.git.output(["update-ref", ref, oid]);
    await this.git.output(["update-ref", "-d", ref, oid]);
  }

  close(): Promise<void> {
    return this.#updates.close();
  }

  /** null: done; else what git said. */
  async #swapOnce(changes: readonly string[]): Promise<string | null> {
    const { code, stderr } = await this.git.run(
      ["update-ref", "--stdin"],
      `start\n${changes.join("")}commit\n`,
    );
    return code === 0 ? null : stderr || "no answer";
  }

  async #swapMore(changes: readonly string[]): Promise<string | null> {
    try {
      return await this.#updates.talk(async (say, line) => {
        say(`start\n${changes.join("")}commit\n`);
        for (const answer of ["start: ok", "commit: ok"]) {
          const said = await line();
          if (said !== answer) return said;
        }
        return null;
      });
    } catch (error) {
      if (error instanceof Ended) return error.message;
      throw error;
    }
  }

  /** A lock file whose writer was killed stops everybody for ever; only a person can tell that nobody needs it. */
  #refuseStale(why: string): void {
    const named = /unable to create '([^']+)': File exists/i.exec(why)?.[1];
    if (named === undefined) return;
    const file = resolve(this.git.cwd, named);
    const stat = statSync(file, { throwIfNoEntry: false });
    const ageMs = stat === undefined ? 0 : Date.now() - stat.mtimeMs;
    if (ageMs <= staleLockMs) return;
    throw new StoreError(
      "unavailable",
      `${file} was left behind by a git process that ended ${Math.round(ageMs / 1000)} s ago: if no git runs in this repository, remove it`,
    );
  }

  /** Not where references are kept in tables (`reftable`): there git itself is asked. */
  #isInFiles(): boolean {
    return !existsSync(join(this.commonDir, "reftable"));
  }

  #loose(ref: string): string | undefined {
    try {
      const text = readFileSync(join(this.commonDir, ref), "utf8").trimEnd();
      if (/^[0-9a-f]{40,64}$/.test(text)) return text;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === "ENOENT" || code === "ENOTDIR" || code === "EISDIR") return undefined;
      throw new StoreError("unavailable", `${join(this.commonDir, ref)} cannot be read (${code})`);
    }
    throw new StoreError("corrupt", `${join(this.commonDir, ref)} is damaged: it names no object`);
  }

  #packedRefs(): Refs {
    const file = join(this.commonDir, "packed-refs");
    const stat = statSync(file, { throwIfNoEntry: false });
    if (stat === undefined) return new Map();
    const mark = `${stat.ino} ${stat.size} ${stat.mtimeMs}`;
    if (this.#packed?.mark === mark) return this.#packed.refs;
    const refs = new Map<string, string>();
    for (const match of readFileSync(file, "utf8").matchAll(/^([0-9a-f]{40,64}) (refs\/holdfast\/.*)$/gm))
      refs.set(match[2] ?? "", match[1] ?? "");
    this.#packed = { mark, refs };
    return refs;
  }
}

/** Nothing was changed yet: a reference was not as expected, or its lock file was taken. */
const isBeforeCommit =
  /cannot lock ref|unable to create|File exists|reference already exists|is at .* but expected/i;

/** The next try would fail as well. */
const isHopeless = /No space left|Read-only file system|Permission denied|quota exceeded/i;

const only = (all: Refs, refs: readonly string[]): Refs =>
  new Map([...all].filter(([ref]) => refs.includes(ref)));
