/** Making a directory that only its owner may enter. */
import { existsSync, mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";

/** With its parents, one by one: Node's own recursive way never ends below a directory that takes none, as /proc. */
export function makeDirectory(path: string): void {
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EEXIST" && statSync(path).isDirectory()) return;
    if (code !== "ENOENT" || existsSync(dirname(path))) throw error;
    makeDirectory(dirname(path));
    makeDirectory(path);
  }
}
