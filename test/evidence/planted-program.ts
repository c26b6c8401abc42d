// The built program with a bug planted in it: a copy in a directory of its own, with a few words of one file changed.
// So a check can be seen to fail, and nothing that is shipped knows of it.
import assert from "node:assert/strict";
import { cpSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { temporaryDir } from "../server.js";

export interface Plant {
  readonly what: string;
  /** Below dist/src. */
  readonly file: string;
  /** Words that are there, and what stands in their place. */
  readonly changes: readonly (readonly [from: string, to: string])[];
}

const root = fileURLToPath(new URL("../../../", import.meta.url));
const builtSource = fileURLToPath(new URL("../../src/", import.meta.url));

/** What to run instead of the program, or of another that is made of its parts: by its file below dist. */
export function programWith({ file, changes }: Plant, program = "src/main.js"): readonly string[] {
  const dir = temporaryDir("holdfast-planted-");
  const source = join(dir, "dist", "src");
  cpSync(builtSource, source, { recursive: true });
  if (!program.startsWith("src/")) cpSync(join(root, "dist", program), join(dir, "dist", program));
  for (const name of ["package.json", "node_modules"]) symlinkSync(join(root, name), join(dir, name));
  let text = readFileSync(join(source, file), "utf8");
  for (const [from, to] of changes) {
    assert.ok(text.includes(from), `${file} has ${from}`);
    text = text.replace(from, to);
  }
  writeFileSync(join(source, file), text);
  return [process.execPath, join(dir, "dist", program)];
}
