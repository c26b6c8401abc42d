// Commands that need packages of the system say which are missing, before they do anything else.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { temporaryDir } from "./server.js";

const root = fileURLToPath(new URL("../../", import.meta.url));

test("the evidence ends at once where it cannot get its packages, and names each", () => {
  // Without apt-get nobody can install anything.
  const { status, stderr, stdout } = spawnSync(process.execPath, ["scripts/evidence.mjs"], {
    cwd: root,
    env: { PATH: temporaryDir("holdfast-no-commands-") },
    encoding: "utf8",
  });
  assert.equal(status, 1);
  assert.equal(stdout, "", "nothing was begun");
  for (const name of ["etcd-server", "faketime", "git", "strace"])
    assert.match(stderr, new RegExp(`\\b${name}\\b`));
  assert.match(stderr, /sudo apt-get update && sudo apt-get install -y /);
});
