/**
 * What a store knows of its authority: references, the records they point to, and when it last looked. Kept in a file
 * for the next process of the clone where a look costs a connection, so that an acquire may be one push.
 */
import { readFileSync } from "node:fs";
import { guardRef, type Refs } from "./authority.js";
import type { MachineClock } from "./machine-clock.js";
import { leaveNote } from "./note-file.js";

/**
 * How long what was not there at the last look may be taken for new, in ms. A lock that was made, freed and removed
 * since would have had tokens that we know nothing of; free locks are kept a day before they are removed.
 */
export const lookMaxAgeMs = 3_600_000;

export class Snapshot {
  readonly #refs = new Map<string, string>();
  /** null: never, or too long ago to know. */
  #lookedAt: number | null = null;
  /** The guard was seen to have changed, and not what was taken under it. */
  #isPartial = false;

  constructor(
    /** null: nothing is kept between processes. */
    readonly file: string | null,
    readonly clock: MachineClock,
    /** What the clone is set to: under other settings the same remote may be another one. */
    readonly settings: string,
  ) {
    this.#load();
  }

  /** Whether all references were looked at lately, so that one which is not known is not there. */
  get isRecent(): boolean {
    return this.#lookedAt !== null && this.clock.now() - this.#lookedAt < lookMaxAgeMs;
  }

  /** Whether nothing was taken since under the guard that is remembered, as far as the guard itself tells. */
  get isWhole(): boolean {
    return this.isRecent && !this.#isPartial;
  }

  get(ref: string): string | undefined {
    return this.#refs.get(ref);
  }

  refs(): Refs {
    return this.#refs;
  }

  /** Everything was looked at, beginning at this moment. */
  replace(refs: Refs, at: number): void {
    this.#refs.clear();
    for (const [ref, oid] of refs) this.#refs.set(ref, oid);
    this.#lookedAt = at;
    this.#isPartial = false;
    this.#save();
  }

  /** Some references were looked at. */
  see(changes: readonly (readonly [ref: string, oid: string | null])[]): void {
    if (changes.some(([ref, oid]) => ref === guardRef && oid !== (this.#refs.get(ref) ?? null)))
      this.#isPartial = true;
    this.set(changes);
  }

  /** References were changed by us. */
  set(changes: Iterable<readonly [ref: string, oid: string | null]>): void {
    let isNew = false;
    for (const [ref, oid] of changes) {
      if ((this.#refs.get(ref) ?? null) === oid) continue;
      isNew = true;
      if (oid === null) this.#refs.delete(ref);
      else this.#refs.set(ref, oid);
    }
    if (isNew) this.#save();
  }

  get #source(): string {
    return `${this.clock.boot} ${this.settings}`;
  }

  #load(): void {
    if (this.file === null) return;
    try {
      const [source, lookedAt, extent, ...lines] = readFileSync(this.file, "utf8").trimEnd().split("\n");
      const at = Number(lookedAt);
      // Another start of the machine: how long ago it was cannot be told.
      if (source !== this.#source || !(at <= this.clock.now())) return;
      this.#lookedAt = at;
      this.#isPartial = extent !== "whole";
      for (const line of lines) {
        const [oid = "", ref = ""] = line.split(" ");
        this.#refs.set(ref, oid);
      }
    } catch {
      // The first look fills it.
    }
  }

  #save(): void {
    if (this.file === null || this.#lookedAt === null) return;
    const lines = [...this.#refs].map(([ref, oid]) => `${oid} ${ref}\n`);
    const head = `${this.#source}\n${this.#lookedAt}\n${this.#isPartial ? "partial" : "whole"}\n`;
    leaveNote(this.file, head + lines.join(""));
  }
}
