/**
 * Lines for people, written while a command shares this process's standard error. Node's own stream would switch a
 * shared pipe to non-blocking under the command's hands, and a reader that is gone would end this process.
 */
import { writeSync } from "node:fs";
import { printable } from "../../core/names.js";

export function writeStderr(text: string): void {
  try {
    writeSync(2, text);
  } catch {
    // Nobody reads it.
  }
}

export const sayLine = (line: string): void => writeStderr(`${printable(line)}\n`);
