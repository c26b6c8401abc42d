/** Files in which processes of a clone leave each other notes. Losing one costs time, never safety. */
import { randomBytes } from "node:crypto";
import {
  closeSync,
  constants,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";

/** Puts the text in the file's place at once: whoever reads meanwhile finds the old one or the new one. */
export function leaveNote(file: string, text: string): void {
  const fresh = `${file}.${randomBytes(6).toString("hex")}`;
  try {
    try {
      writeFileSync(fresh, text, { mode: 0o600 });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
      mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
      writeFileSync(fresh, text, { mode: 0o600 });
    }
    renameSync(fresh, file);
  } catch {
    removeNote(fresh); // this process may not write here, as in a clone of another user
  }
}

/** Adds a line to a note that is there; false if it is not, or cannot be written. */
export function addToNote(file: string, line: string): boolean {
  try {
    const note = openSync(file, constants.O_WRONLY | constants.O_APPEND);
    try {
      return writeSync(note, line) === Buffer.byteLength(line);
    } finally {
      closeSync(note);
    }
  } catch {
    return false;
  }
}

export function removeNote(file: string): void {
  try {
    rmSync(file, { force: true });
  } catch {
    // As above.
  }
}
