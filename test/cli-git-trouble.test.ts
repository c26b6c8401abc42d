// Locks in a git repository where something is wrong: no repository, a remote that is away, that cannot be written to or
// refuses the references, damaged records, stale files, names made to confuse. A clear line, the right exit code, nothing
// taken, nothing lost.
import assert from "node:assert/strict";
import { chmodSync, mkdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, test } from "node:test";
import { type Clone, openGitLab } from "./cli-git-lab.js";
import { jsonOf } from "./cli-lab.js";
import type { Ended } from "./system-program.js";

function assertRefused(ended: Ended, code: number, text: RegExp): void {
  assert.equal(ended.code, code, ended.text);
  assert.match(ended.stderr, text);
  assert.doesNotMatch(ended.text, /\n\s+at |node:internal/, "no stack trace");
  assert.equal(ended.stderr.trimEnd().split("\n").length, 1, ended.stderr);
}

const acquire = (clone: Clone, ...args: string[]): Promise<Ended> =>
  clone.holdfast(["lock", "acquire", ...args]);

describe("where there is no repository to use", () => {
  test("none at all, a .git that points nowhere, GIT_DIR that is none", async () => {
    const lab = openGitLab();
    const plain = lab.at(lab.dir);
    assertRefused(await acquire(plain, "x", "--git"), 2, /is not in a git repository: go into one/);
    // Without --git it is as without a repository: a server is asked for.
    assert.match((await acquire(plain, "x")).stderr, /no token for http:\/\/127\.0\.0\.1:4280/);
    mkdirSync(join(lab.dir, "broken"));
    writeFileSync(join(lab.dir, "broken", ".git"), "gitdir: /nowhere\n");
    assertRefused(await acquire(lab.at(join(lab.dir, "broken")), "x"), 5, /points to no repository/);
    const named = await plain.holdfast(["lock", "acquire", "x", "--git"], { GIT_DIR: "/nowhere" });
    assertRefused(named, 5, /GIT_DIR names \/nowhere, which is no repository/);
  });

  test("a bare repository, a submodule and a shallow clone work", async () => {
    const lab = openGitLab();
    const a = lab.clone("a");
    a.git("commit", "-q", "--allow-empty", "-m", "one");
    a.git("commit", "-q", "--allow-empty", "-m", "two");
    a.git("push", "-q", "origin", "HEAD:main");
    // Also without --git: no server is configured.
    assert.equal((await acquire(lab.at(lab.remote), "x")).code, 0);
    assert.equal((await acquire(lab.at(join(lab.remote, "refs")), "x", "--git")).code, 4);
    // What the bare repository has for itself is what its clones have at their remote.
    assert.equal((await acquire(a, "x")).code, 4);
    a.git("clone", "-q", "--depth=1", `file://${lab.remote}`, "../shallow");
    assert.equal((await acquire(lab.at(join(lab.dir, "shallow")), "x")).code, 4);
    a.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", lab.remote, "sub");
    assert.equal((await acquire(lab.at(join(a.dir, "sub")), "x")).code, 4);
    assert.equal((await acquire(lab.at(join(a.dir, "sub")), "y")).code, 0);
  });
});

describe("settings that cannot be read", () => {
  test("a remote that decides is never taken for none", async () => {
    const lab = openGitLab();
    const a = lab.clone("a");
    lab.command(
      "git",
      `#!/bin/sh\ncase "$*" in *" config -z "*) kill -9 $$ ;; esac\nPATH=\${PATH#*:} exec git "$@"\n`,
    );
    assertRefused(
      await acquire(a, "x"),
      5,
      /settings of .*a\/\.git cannot be read: git was ended by SIGKILL/,
    );
    assert.equal(a.git("for-each-ref", "refs/holdfast"), "");
    lab.command("git", `#!/bin/sh\nPATH=\${PATH#*:} exec git "$@"\n`);
    writeFileSync(join(a.dir, ".git/config"), "[remote\n", { flag: "a" });
    assertRefused(await acquire(a, "x"), 5, /settings of .* cannot be read: .*bad config/);
  });
});

describe("flags", () => {
  test("an address is no authority, a remote must be there, and a server is another thing", async () => {
    const lab = openGitLab();
    const a = lab.clone("a");
    for (const url of ["https://example.com/x.git", "git@example.com:x.git", "/srv/x.git", "../x.git"])
      assertRefused(
        await acquire(a, "x", `--git=${url}`),
        2,
        /an address is not taken\. Give it a name with git remote add/,
      );
    assertRefused(await acquire(a, "x", "--git=upstream"), 2, /no remote has this name \(here: origin\)/);
    assertRefused(await acquire(a, "x", "--git=--upload-pack=touch x"), 2, /no remote has this name/);
    for (const flags of [
      ["--server", "http://127.0.0.1:1"],
      ["--token", "t"],
      ["--data", "d"],
    ])
      assertRefused(await acquire(a, "x", "--git", ...flags), 2, /give one of them/);
    a.git("config", "holdfast.authority", "https://example.com/x.git");
    assertRefused(
      await acquire(a, "x"),
      2,
      /git config holdfast\.authority: "https.*an address is not taken/,
    );
    a.git("config", "holdfast.authority", "origin");
    a.git("config", "holdfast.skew", "soon");
    assertRefused(await acquire(a, "x"), 2, /holdfast\.skew is "soon": give a time/);
    assertRefused(
      await a.holdfast(["job", "claim", "x", "--git"]),
      2,
      /unknown option '--git': holdfast job claim needs a server/,
    );
    // An empty variable, and a name behind a space, would mean another place or another lock.
    assertRefused(await acquire(a, "x", "--git="), 2, /--git= names no remote: give --git=NAME/);
    for (const command of [["lock", "acquire"], ["lock", "status"], ["status"], ["run"]])
      assertRefused(await a.holdfast([...command, "--git", "local"]), 2, /a remote is given as --git=local/);
    assert.equal(lab.at(lab.remote).git("for-each-ref"), "");
  });

  test("bad durations and reasons are refused as at a server", async () => {
    const a = openGitLab().clone("a");
    assertRefused(await acquire(a, "x", "--ttl", "2d"), 2, /--ttl must be at most 24h here: give/);
    assertRefused(await acquire(a, "x", "--ttl", "0"), 2, /--ttl "0"/);
    assertRefused(await acquire(a, "x", "--reason", "x".repeat(1025)), 2, /metadata is too long/);
    assertRefused(await acquire(a, "node:x"), 1, /work graph/);
  });
});

test("names: what is none is refused, what is one is locked, whatever git would make of it", async () => {
  const lab = openGitLab();
  const a = lab.clone("a");
  for (const name of [
    "",
    ".",
    "..",
    "a//b",
    "../x",
    "@{u}",
    "--upload-pack=touch x",
    "a b",
    "a\nb",
    "a;b",
    "$(x)",
    "é",
    "😀",
    "x".repeat(300),
    `path:${"x".repeat(300)}`,
    "path:../x",
    "path:/x",
    "path:a\nb",
  ])
    assertRefused(await a.holdfast(["lock", "acquire", "--resource", name]), 2, /cannot be locked/);
  assert.equal(lab.at(lab.remote).git("for-each-ref"), "");
  for (const name of [
    "-x",
    "--help",
    "HEAD",
    "a.lock",
    "refs/heads/main",
    "x".repeat(256),
    "path:a b/@{u}/😀 [x].tsx",
    "path:-x",
    "a/.b",
  ]) {
    const taken = await a.holdfast(["lock", "acquire", "--resource", name, "--json"]);
    assert.equal(taken.code, 0, `${name}: ${taken.text}`);
    assert.equal((await a.holdfast(["lock", "release", "--resource", name])).code, 0, name);
  }
});

describe("a remote", () => {
  test("that is away: exit code 5, nothing taken, never a local lock", async () => {
    const lab = openGitLab();
    const a = lab.clone("a");
    a.git("remote", "set-url", "origin", join(lab.dir, "nowhere"));
    for (const args of [
      ["lock", "acquire", "x"],
      ["lock", "status"],
      ["lock", "gc"],
      ["status"],
      ["run", "x", "--", "true"],
      ["hold", "x"],
    ])
      assertRefused(await a.holdfast(args), 5, /the remote origin cannot be reached, and nothing was taken/);
    const json = await a.holdfast(["lock", "acquire", "x", "--json"]);
    assert.deepEqual([json.code, jsonOf(json).ok, jsonOf(json).error.code], [5, false, "unavailable"]);
    assert.equal(a.git("for-each-ref"), "");
    assert.equal((await a.holdfast(["lock", "status", "--git=local"])).stdout, "No active locks\n");
  });

  test("that refuses the references: exit code 5, with what to do; doctor finds it as well", async () => {
    const lab = openGitLab();
    const a = lab.clone("a");
    const hook = join(lab.remote, "hooks", "pre-receive");
    writeFileSync(
      hook,
      '#!/bin/sh\nwhile read old new ref; do case "$ref" in refs/holdfast/*) exit 1;; esac; done\n',
    );
    chmodSync(hook, 0o755);
    assertRefused(
      await acquire(a, "x"),
      5,
      /does not take lock references \(refs\/holdfast\/\*\).*holdfast\.authority local/,
    );
    const ill = await a.holdfast(["doctor"]);
    assert.equal(ill.code, 5, ill.text);
    assert.match(
      ill.stdout,
      /✗ the remote origin does not take lock references[\s\S]*→ ask for the right to push/,
    );
    assert.equal((await acquire(a, "x", "--git=local")).code, 0);
    rmSync(hook);
    lab.at(lab.remote).git("config", "transfer.hideRefs", "refs/holdfast");
    assertRefused(await acquire(a, "y"), 5, /does not take lock references/);
  });
});

describe("records", () => {
  test("one that is damaged is named, stops nobody else, and is not taken", async () => {
    const lab = openGitLab();
    const a = lab.clone("a");
    await acquire(a, "x", "--git=local");
    const ref = a.git("for-each-ref", "--format=%(refname)", "refs/holdfast/locks");
    await acquire(a, "y", "--git=local");
    writeFileSync(join(lab.dir, "blob"), "{");
    a.git("update-ref", ref, a.git("hash-object", "-w", join(lab.dir, "blob")));
    const status = await a.holdfast(["lock", "status", "--git=local"]);
    assert.equal(status.code, 0);
    assert.match(status.stdout, /^Active Locks:\n {2}y /);
    assert.match(
      status.stderr,
      /the record of a lock is damaged and left out \(refs\/holdfast\/locks\/[0-9a-f]+\): it is no JSON/,
    );
    const { data } = jsonOf<{ locks: unknown[]; conflicts: unknown[]; damaged: { ref: string }[] }>(
      await a.holdfast(["lock", "status", "--git=local", "--json"]),
    );
    assert.deepEqual([data.locks.length, data.conflicts, data.damaged[0]?.ref], [1, [], ref]);
    assertRefused(await acquire(a, "x", "--git=local"), 5, /the record of x is damaged: it is no JSON/);
    assert.equal((await acquire(a, "z", "--git=local")).code, 0);
    assert.equal((await a.holdfast(["lock", "gc", "--git=local"])).code, 0);
    const ill = await a.holdfast(["doctor", "--git=local"]);
    assert.equal(ill.code, 5);
    assert.match(
      ill.stdout,
      /✗ the record of a lock .* is damaged: it is no JSON[\s\S]*git update-ref -d refs\/holdfast/,
    );
  });

  test("one of a newer version is told, not left out in silence, and nobody is told to remove it", async () => {
    const lab = openGitLab();
    const a = lab.clone("a");
    await acquire(a, "path:src", "--git=local");
    const ref = a.git("for-each-ref", "--format=%(refname)", "refs/holdfast/locks");
    writeFileSync(
      join(lab.dir, "blob"),
      a.git("cat-file", "-p", ref).replace('"holdfast":1', '"holdfast":2'),
    );
    a.git("update-ref", ref, a.git("hash-object", "-w", join(lab.dir, "blob")));
    for (const command of [["lock", "status"], ["status"]]) {
      const { code, stderr } = await a.holdfast([...command, "--git=local"]);
      assert.equal(code, 0);
      assert.match(
        stderr,
        /the record of a lock cannot be read and is left out .*newer version.*update this/,
      );
    }
    const refused = await acquire(a, "path:src", "--git=local");
    assertRefused(refused, 5, /the record of path:src cannot be read: a newer version.*Who holds it/);
    const ill = await a.holdfast(["doctor", "--git=local"]);
    assert.equal(ill.code, 5, ill.text);
    assert.match(ill.stdout, /✗ the record of a lock .* cannot be read: a newer version[\s\S]*→ update/);
    assert.doesNotMatch(refused.text + ill.text, /update-ref -d/);
  });

  test("what cannot be read may be the lock of a path: require refuses a commit, warn says so", async () => {
    const lab = openGitLab();
    const a = lab.clone("a");
    await acquire(a, "path:src", "--git=local");
    const ref = a.git("for-each-ref", "--format=%(refname)", "refs/holdfast/locks");
    writeFileSync(join(lab.dir, "blob"), "{");
    const damaged = a.git("hash-object", "-w", join(lab.dir, "blob"));
    a.git("update-ref", ref, damaged);
    const check = (policy: string): Promise<Ended> =>
      a.holdfast(["guard", "check", "--git=local", "--policy", policy, "src/x"]);
    const refused = await check("require");
    assert.equal(refused.code, 5, refused.text);
    assert.match(refused.stderr, /the record of a lock is damaged .*may be the lock of one of these paths/);
    const warned = await check("warn");
    assert.equal(warned.code, 0, warned.text);
    assert.match(warned.stderr, /the record of a lock is damaged/);
    a.git("update-ref", "-d", ref);
    // Without the guard nothing is granted, and what is held can be told.
    a.git("update-ref", "refs/holdfast/guard", damaged);
    assert.equal((await check("require")).code, 0);
    const ill = await a.holdfast(["doctor", "--git=local"]);
    assert.equal(ill.code, 5, ill.text);
    assert.match(ill.stdout, /✗ refs\/holdfast\/guard: it is damaged[\s\S]*→ nothing is granted until/);
    assertRefused(await acquire(a, "y", "--git=local"), 5, /guard is damaged.*git update-ref -d refs\/hold/);
  });

  test("one from the future is told by doctor", async () => {
    const a = openGitLab().clone("a");
    const ahead = await a.script(
      `faketime -f +2h holdfast lock acquire x --git=local || exit; holdfast doctor --git=local`,
    );
    assert.equal(ahead.code, 0, ahead.text);
    assert.match(
      ahead.stdout,
      /! the record of x .*: it was written \d+ s in the future[\s\S]*→ set the clock/,
    );
  });

  test("a stale lock file is told, with what to do", async () => {
    const a = openGitLab().clone("a");
    await acquire(a, "x", "--git=local");
    const ref = a.git("for-each-ref", "--format=%(refname)", "refs/holdfast/locks");
    const file = join(a.dir, ".git", `${ref}.lock`);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, "");
    utimesSync(file, new Date(Date.now() - 600_000), new Date(Date.now() - 600_000));
    const renewed = await a.holdfast(["lock", "renew", "x", "--git=local"]);
    assertRefused(renewed, 5, /\.lock was left behind by a git process.*remove it/);
    const ill = await a.holdfast(["doctor", "--git=local"]);
    assert.match(
      ill.stdout,
      /✗ .*\.lock was left behind 10m ago[\s\S]*→ if no git runs in this repository: rm/,
    );
    rmSync(file);
    assert.equal((await a.holdfast(["lock", "renew", "x", "--git=local"])).code, 0);
  });
});
