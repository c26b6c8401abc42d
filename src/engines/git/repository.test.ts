// A repository is found as git itself finds it, without starting git.
import assert from "node:assert/strict";
import { mkdirSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { isStoreError } from "../../../test/conformance.js";
import { git, gitEnv, newRemote, newRepository } from "../../../test/git-lab.js";
import { scratch } from "../../../test/store-lab.js";
import { findRepository, skewDefaultMs } from "./repository.js";

test("the same directories as git finds, in every kind of place", (t) => {
  const dir = realpathSync(scratch(t));
  const { bare, clones } = newRemote(dir, 1);
  const [clone = ""] = clones;
  mkdirSync(join(clone, "src/deep"), { recursive: true });
  git(clone, "worktree", "add", "--quiet", join(dir, "tree"));
  const whole = newRepository(join(dir, "whole"));
  git(whole, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", bare, "part");
  git(whole, "init", "--quiet", "--separate-git-dir", join(dir, "apart.git"), join(dir, "separate"));
  const places = [
    clone,
    join(clone, "src/deep"),
    join(dir, "tree"),
    join(whole, "part"),
    join(dir, "separate"),
    bare,
    join(bare, "refs"),
    join(clone, ".git"),
    join(clone, ".git/refs"),
  ];
  for (const place of places) {
    const found = findRepository(place, {});
    const asked = (what: string): string => git(place, "rev-parse", "--path-format=absolute", what);
    assert.equal(found.gitDir, asked("--git-dir"), place);
    assert.equal(found.commonDir, asked("--git-common-dir"), place);
    const isInTree = git(place, "rev-parse", "--is-inside-work-tree") === "true";
    if (isInTree) assert.equal(found.workTree, asked("--show-toplevel"), place);
    assert.equal(
      findRepository(found.home, {}).commonDir,
      found.commonDir,
      `${place}: git run in its home finds it`,
    );
  }
  assert.equal(findRepository(bare, {}).workTree, null);
});

test("GIT_DIR is taken at its word", (t) => {
  const dir = realpathSync(scratch(t));
  const clone = newRepository(join(dir, "clone"));
  const other = newRepository(join(dir, "other"));
  const env = { GIT_DIR: join(clone, ".git") };
  assert.equal(findRepository(other, env).commonDir, join(clone, ".git"));
  assert.equal(findRepository(other, { GIT_DIR: "../clone/.git" }).commonDir, join(clone, ".git"));
  const named = findRepository(other, { ...env, GIT_WORK_TREE: "." });
  assert.equal(named.workTree, other);
  assert.throws(() => findRepository(other, { GIT_DIR: join(dir, "nowhere") }), isStoreError("unsupported"));
});

test("no repository, and one that is damaged: said with what to do", (t) => {
  const dir = scratch(t);
  const said = (place: string, words: RegExp): void =>
    assert.throws(
      () => findRepository(place, {}),
      (error: Error) => isStoreError("unsupported")(error) && words.test(error.message),
    );
  said(dir, /not in a git repository.*git init/);
  writeFileSync(join(dir, ".git"), "gitdir: /nowhere/at/all\n");
  said(dir, /\.git points to no repository.*git worktree repair/);
  for (const text of ["", "nonsense", "gitdir:"]) {
    writeFileSync(join(dir, ".git"), text);
    said(dir, /\.git points to no repository/);
  }
  rmSync(join(dir, ".git"));
  // As git does: a directory that only has the name is passed over.
  mkdirSync(join(dir, ".git"));
  said(dir, /not in a git repository/);
});

test("settings are read from the clone", async (t) => {
  const { clones } = newRemote(scratch(t), 1);
  const [clone = ""] = clones;
  const settings = () => findRepository(clone, gitEnv).settings();
  assert.deepEqual(await settings(), {
    remotes: ["origin"],
    rerouted: [],
    authority: null,
    lockPolicy: null,
    skewMs: skewDefaultMs,
  });
  git(clone, "remote", "add", "team/a.b", "https://example.org/x");
  git(clone, "config", "holdfast.authority", "team/a.b");
  git(clone, "config", "holdfast.lockPolicy", "require");
  for (const [text, ms] of [
    ["90s", 90_000],
    ["20m", 1_200_000],
    ["1h", 3_600_000],
    ["5", 5000],
  ] as const) {
    git(clone, "config", "holdfast.skew", text);
    assert.deepEqual(await settings(), {
      remotes: ["origin", "team/a.b"],
      rerouted: [],
      authority: "team/a.b",
      lockPolicy: "require",
      skewMs: ms,
    });
  }
  git(clone, "remote", "set-url", "--push", "team/a.b", "https://example.org/y");
  assert.deepEqual((await settings()).rerouted, ["team/a.b"]);
  git(clone, "config", "url.ssh://example.org/.pushInsteadOf", "https://example.org/");
  assert.deepEqual((await settings()).rerouted, ["origin", "team/a.b"]);
  git(clone, "config", "holdfast.skew", "-5m");
  await assert.rejects(settings(), isStoreError("unsupported"));
});
