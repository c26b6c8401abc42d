import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { ConfigError } from "../../config.js";
import { StoreError } from "../../store/store.js";
import { explain } from "./explain.js";
import { CliError } from "./failure.js";

/** The program's own files that a file loads, and those that they load. */
function loadedBy(file: string, found = new Set<string>()): Set<string> {
  if (found.has(file) || !existsSync(file)) return found;
  found.add(file);
  for (const [, path] of readFileSync(file, "utf8").matchAll(/^(?:import|export)\b[^;]*?"(\.[^"]+)";/gm))
    loadedBy(fileURLToPath(new URL(path ?? "", `file://${file}`)), found);
  return found;
}

/** What explaining writes, instead of writing it. */
function explained(error: unknown, json = false): { code: number; stdout: string; stderr: string } {
  const written = { stdout: "", stderr: "" };
  const kept = { stdout: process.stdout.write, stderr: process.stderr.write };
  for (const stream of ["stdout", "stderr"] as const)
    process[stream].write = ((text: string) => {
      written[stream] += text;
      return true;
    }) as typeof process.stdout.write;
  try {
    const code = explain(error, json);
    return { code, ...written };
  } finally {
    process.stdout.write = kept.stdout;
    process.stderr.write = kept.stderr;
  }
}

describe("explaining a failure", () => {
  test("loads nothing of the server: a refused lock in a shell loop must not pay for it", () => {
    const loaded = [...loadedBy(fileURLToPath(new URL("./explain.js", import.meta.url)))];
    assert.ok(loaded.length > 5, loaded.join("\n"));
    assert.deepEqual(
      loaded.filter((file) => /\/(?:config|engines|service|faces\/http)\b/.test(file)),
      [],
    );
  });

  test("a wrong setting is wrong use, a store that fails is storage", () => {
    assert.equal(explained(new ConfigError("HOLDFAST_PORT=x: give a number")).code, 2);
    assert.equal(explained(new StoreError("unavailable", "another process has it")).code, 5);
  });

  test("instants are written in one form, also those in a server's words", () => {
    const error = new CliError("It ended at 2024-01-15T11:30:00.123Z: expired.", 4);
    assert.equal(explained(error).stderr, "holdfast: It ended at 2024-01-15 11:30:00 UTC: expired.\n");
    assert.match(explained(error, true).stdout, /"message":"It ended at 2024-01-15 11:30:00 UTC: expired\."/);
  });
});
