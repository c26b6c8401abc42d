import assert from "node:assert/strict";
import { cpSync, mkdtempSync, readdirSync, renameSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { actorFile, actorOf } from "./actor.js";

function place(): { gitDir: string; stateDir: string } {
  const gitDir = mkdtempSync(join(tmpdir(), "holdfast-actor-"));
  return { gitDir, stateDir: join(gitDir, "holdfast") };
}

test("an actor stays the same, its file can be read by its user alone, and nothing else is left", () => {
  const here = place();
  const actor = actorOf(here);
  assert.match(actor.id, /^[0-9a-f]{32}$/);
  assert.deepEqual(actorOf(here), actor);
  assert.equal(statSync(actorFile(here.stateDir)).mode & 0o777, 0o600);
  assert.equal(statSync(here.stateDir).mode & 0o777, 0o700);
  assert.deepEqual(readdirSync(here.stateDir), ["actor.json"]);
});

test("a copy is another actor, a moved one the same", () => {
  const here = place();
  const actor = actorOf(here);
  const copy = place();
  cpSync(here.stateDir, copy.stateDir, { recursive: true });
  assert.notEqual(actorOf(copy).id, actor.id);
  assert.notDeepEqual(actorOf(copy).secret, actor.secret);
  const moved = { gitDir: `${here.gitDir}-moved`, stateDir: join(`${here.gitDir}-moved`, "holdfast") };
  renameSync(here.gitDir, moved.gitDir);
  assert.deepEqual(actorOf(moved), actor);
});

test("one that cannot be read is told, and not replaced", () => {
  const here = place();
  actorOf(here);
  writeFileSync(actorFile(here.stateDir), "{");
  assert.throws(() => actorOf(here), /actor\.json holds this worktree's identity and cannot be read/);
});
