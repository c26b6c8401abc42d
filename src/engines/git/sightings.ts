/**
 * When this machine first saw a record, kept in files that all worktrees and processes of a clone share: a lease is over
 * for us once we have seen it unchanged for as long as it lasts, and a command that lives for a moment can only know that
 * from those before it. A note that is lost, or of another start of the machine, makes a takeover later, never earlier.
 */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import type { MachineClock } from "./machine-clock.js";
import { addToNote, leaveNote, removeNote } from "./note-file.js";

export interface Sighting {
  readonly at: number;
  /** It was written on this machine at that moment. */
  readonly wrote: boolean;
}

/** Notes kept per lock: of what stands there, and of what was about to take its place, by however many at once. */
const notesMax = 32;
/** Lines of a file until it is written anew, with the notes that count: to put one in its place costs more than a line. */
const linesMax = 4 * notesMax;
/** Files of ours; others are on their way to become one. */
const isName = /^[0-9a-f]+$/;
/** Longer than a write can be under way, in ms. */
const writeMaxMs = 600_000;

interface Note extends Sighting {
  readonly oid: string;
}

/** A file as it was last read or written here: it only grows, or another takes its place. */
interface Mark {
  readonly inode: number;
  readonly size: number;
  readonly lines: number;
}

export class Sightings {
  readonly #notes = new Map<string, Note[]>();
  /** Of files that can be added to. */
  readonly #marks = new Map<string, Mark>();

  constructor(
    readonly dir: string,
    readonly clock: MachineClock,
  ) {}

  /** Of this record, or null if it was never seen before. */
  of(name: string, oid: string): Sighting | null {
    return this.#find(name, oid) ?? this.#load(name).find((note) => note.oid === oid) ?? null;
  }

  /** Takes note that the record is there now, unless it was seen before. */
  see(name: string, oid: string): Sighting {
    const seen = this.of(name, oid);
    if (seen !== null) {
      this.#keep(name, oid);
      return seen;
    }
    return this.#add(name, { oid, at: this.clock.now(), wrote: false });
  }

  /** Before it is written: whoever is killed right after the swap must not forget when that was. */
  willWrite(name: string, oid: string, at: number): void {
    this.#add(name, { oid, at, wrote: true });
  }

  /** Forgets locks that are no more. One that is not there may be about to be made, by whoever noted it just now. */
  keepOnly(names: ReadonlySet<string>): void {
    const now = this.clock.now();
    for (const name of this.#files()) {
      if (names.has(name) || this.#load(name).some(({ at }) => now - at < writeMaxMs)) continue;
      this.#notes.delete(name);
      this.#marks.delete(name);
      removeNote(join(this.dir, name));
    }
  }

  /** What stands there is the last to be forgotten, however many try in vain to take its place. */
  #keep(name: string, oid: string): void {
    const notes = this.#notes.get(name) ?? [];
    this.#notes.set(name, [
      ...notes.filter((note) => note.oid !== oid),
      ...notes.filter((note) => note.oid === oid),
    ]);
  }

  #find(name: string, oid: string): Note | undefined {
    return this.#notes.get(name)?.find((note) => note.oid === oid);
  }

  #add(name: string, note: Note): Sighting {
    const others = this.#load(name).filter(({ oid }) => oid !== note.oid);
    let notes = [...others, note];
    const file = join(this.dir, name);
    const mark = this.#marks.get(name);
    const line = lineOf(note);
    this.#marks.delete(name);
    if (mark !== undefined && mark.lines < linesMax && addToNote(file, line))
      this.#marks.set(name, { ...mark, size: mark.size + line.length, lines: mark.lines + 1 });
    else {
      notes = notes.slice(-notesMax);
      leaveNote(file, `${this.clock.boot}\n${notes.map(lineOf).join("")}`);
    }
    this.#notes.set(name, notes);
    return note;
  }

  /** What the file says: another process may have seen more. */
  #load(name: string): Note[] {
    let notes = this.#notes.get(name) ?? [];
    const file = join(this.dir, name);
    const before = this.#marks.get(name);
    this.#marks.delete(name);
    try {
      const { ino: inode, size } = statSync(file);
      if (before?.inode === inode && before.size === size) {
        this.#marks.set(name, before);
        return notes;
      }
      const text = readFileSync(file, "utf8");
      const [boot, ...lines] = text.trimEnd().split("\n");
      if (boot === this.clock.boot) {
        // What another added between the two looks is read, and makes the file longer than the mark says: read once more.
        this.#marks.set(name, { inode, size, lines: 1 + lines.length });
        const known = new Set(notes.map(({ oid }) => oid));
        // What others noted since is news: what this process has noted before is forgotten first.
        notes = [...notes, ...lines.flatMap(noteIn).filter(({ oid }) => !known.has(oid))];
      }
    } catch {
      // Never seen, or by nobody else.
    }
    const now = this.clock.now();
    // What lies ahead was noted by another clock.
    notes = notes.filter(({ at }) => at <= now).slice(-linesMax);
    this.#notes.set(name, notes);
    return notes;
  }

  #files(): string[] {
    try {
      return readdirSync(this.dir).filter((name) => isName.test(name));
    } catch {
      return [];
    }
  }
}

/** With an end that shows that it is whole: a time that was cut short would be a sighting long ago. */
const lineOf = ({ oid, at, wrote }: Note): string => `${oid} ${at}${wrote ? " wrote" : ""}.\n`;

function noteIn(line: string): Note[] {
  const match = /^([0-9a-f]{40,64}) (\d{1,15})( wrote)?\.$/.exec(line);
  return match === null ? [] : [{ oid: match[1] ?? "", at: Number(match[2]), wrote: match[3] !== undefined }];
}
