/**
 * What stands in a data file's place, looked at before SQLite is let near it: SQLite takes a log that it finds there
 * for part of whatever file stands beside it, and throws it away beside an empty one.
 */
import { closeSync, existsSync, openSync, readSync, statSync } from "node:fs";
import { StoreError } from "../../store/store.js";

const header = "SQLite format 3\0";

/** The data file or what belongs to it, if any of them is there. */
export const occupantOf = (path: string): string | undefined =>
  ["", "-wal", "-shm"].map((suffix) => path + suffix).find((file) => existsSync(file));

/** Refuses a file that never was Holdfast's, and a log whose file is gone. */
export function refuseStranger(path: string): void {
  const size = sizeOf(path);
  if (size === 0 && sizeOf(`${path}-wal`) > 0)
    throw new StoreError(
      "corrupt",
      `${path} is ${existsSync(path) ? "empty" : "gone"}, but ${path}-wal is there and holds part of the data: put the file back beside it, or move both -wal and -shm away to begin anew`,
    );
  // What is shorter than the mark itself is a file that was cut off; it is told as damaged.
  if (size > 0 && !header.startsWith(beginningOf(path)))
    throw new StoreError(
      "corrupt",
      `${path} is not a Holdfast data file, or its beginning was overwritten: name another file`,
    );
}

const sizeOf = (path: string): number => (existsSync(path) ? statSync(path).size : 0);

function beginningOf(path: string): string {
  let descriptor: number | undefined;
  try {
    descriptor = openSync(path, "r");
    const bytes = Buffer.alloc(header.length);
    return bytes.toString("latin1", 0, readSync(descriptor, bytes));
  } catch (error) {
    throw new StoreError(
      "unavailable",
      `${path} cannot be read (${(error as Error).message}): it must be a file that this user may read and write`,
      { cause: error },
    );
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}
