// `holdfast guard check` and the pre-commit hook: which paths a commit touches, what each policy makes of them, and where
// the policy comes from. Real commits, by git, with a real server behind.
import assert from "node:assert/strict";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, afterEach, before, describe, test } from "node:test";
import { type Clone, type GuardLab, heldPaths, openGuardLab } from "./guard-lab.js";
import { freePort, temporaryDir } from "./server.js";
import { runToEnd } from "./system-program.js";

let guard: GuardLab;
before(async () => {
  guard = await openGuardLab();
});
after(() => guard[Symbol.asyncDispose]());
afterEach(() => guard.freeAll());

const guarded = async (word = "require", globs: readonly string[] = []): Promise<Clone> => {
  const clone = await guard.repository();
  clone.policy(word, globs);
  const ended = await clone.holdfast("guard", "install");
  assert.equal(ended.code, 0, ended.text);
  return clone;
};

describe("policies", () => {
  test("off, and nothing set: nothing is looked at, not even the server", async () => {
    const clone = await guard.repository();
    clone.write("a", "1");
    await clone.done("add", "a");
    const nowhere = { HOLDFAST_URL: `http://127.0.0.1:${await freePort()}` };
    const unset = await clone.holdfastWith(nowhere, "guard", "check");
    assert.deepEqual([unset.code, unset.stderr], [0, ""]);
    assert.match(unset.stdout, /^Nothing was checked: lock_policy is off \(default\)\n/);
    clone.policy("off", ["**"]);
    const off = await clone.check("--staged");
    assert.deepEqual([off.policy.value, off.checked], ["off", false]);
    await clone.holdfast("guard", "install");
    const committed = await clone.gitWith(nowhere, "commit", "-qm", "x");
    assert.deepEqual([committed.code, committed.stderr], [0, ""]);
  });

  test("warn names every touched path that another holds, with all that is known, and goes on", async () => {
    const clone = await guarded("warn");
    await guard.take("bob", "path:src/auth.rs", "path:docs");
    await guard.take("alice", "path:mine");
    for (const path of ["src/auth.rs", "docs/a/b.md", "mine", "free"]) clone.write(path, "1");
    await clone.done("add", ".");
    const { code, stderr } = await clone.git("commit", "-qm", "x");
    assert.equal(code, 0);
    assert.match(stderr, /^holdfast: lock_policy is warn \(.*\.holdfast\.toml\): going on, though$/m);
    assert.match(
      stderr,
      /^ {2}docs\/a\/b\.md is held by runner-2 with path:docs since [-\d]+ [:\d]+ UTC until [-\d]+ [:\d]+ UTC unless renewed \("for bob"\)$/m,
    );
    assert.match(stderr, /^ {2}src\/auth\.rs is held by runner-2 since /m);
    assert.match(
      stderr,
      /^ {4}To wait for it: holdfast lock acquire --resource path:src\/auth\.rs --wait 10m$/m,
    );
    assert.doesNotMatch(stderr, /mine|free/);
    assert.equal((await clone.done("log", "--oneline")).split("\n").length, 3);
  });

  test("require refuses what another holds, and what the patterns demand and nobody here holds", async () => {
    const clone = await guarded("require", ["src/**", "*.lock"]);
    await guard.take("bob", "path:other");
    for (const path of ["src/a", "src/b c", "other/x", "free", "x.lock"]) clone.write(path, "1");
    await clone.done("add", ".");
    await guard.take("alice", "path:x.lock");
    const { code, stderr } = await clone.git("commit", "-qm", "x");
    assert.equal(code, 1);
    assert.match(stderr, /^holdfast: 3 of 6 paths must not be committed: lock_policy is require \(/);
    assert.match(
      stderr,
      /^ {2}src\/a needs a lock, and you hold none that covers it \(require: src\/\*\*\)$/m,
    );
    assert.match(stderr, /^ {4}To take it: holdfast lock acquire --resource 'path:src\/b c'$/m);
    assert.doesNotMatch(stderr, /free|x\.lock/);
    const checked = await clone.check();
    assert.deepEqual([checked.code, checked.error, checked.touched], [4, "held", 6]);
    assert.deepEqual(
      [heldPaths(checked), checked.required.map(({ path }) => path)],
      [["other/x"], ["src/a", "src/b c"]],
    );
    assert.equal(checked.held[0]?.resource, "path:other");
    await clone.done("rm", "-q", "--cached", "-r", "other");
    assert.equal((await clone.check()).error, "lock_required");
    // A lock on what lies above covers it; one for the next command that was told does, too.
    await guard.take("alice", "path:src");
    assert.equal((await clone.git("commit", "-qm", "x")).code, 0);
  });

  test("repo:global is everybody's way: another's stops all, one's own covers all", async () => {
    const clone = await guarded("require", ["**"]);
    clone.write("a", "1");
    await clone.done("add", "a");
    await guard.take("bob", "repo:global");
    assert.deepEqual((await clone.check()).held[0]?.resource, "repo:global");
    await guard.freeAll();
    await guard.take("bob", "repo:globalised");
    assert.deepEqual([(await clone.check()).error], ["lock_required"]);
    await guard.freeAll();
    await guard.take("alice", "repo:global");
    assert.equal((await clone.check()).code, 0);
  });

  test("a clone may say otherwise: git config, then its own file, then the project's", async () => {
    const clone = await guarded("require", ["**"]);
    clone.write("a", "1");
    await clone.done("add", "a");
    const said = async (...args: string[]): Promise<string[]> => {
      const { code, policy } = await clone.check(...args);
      return [String(code), policy.value, policy.from.replace(/.*\/(?=\.git\/|\.holdfast)/, "")];
    };
    assert.deepEqual(await said(), ["4", "require", ".holdfast.toml"]);
    mkdirSync(join(clone.dir, ".git", "holdfast"), { recursive: true });
    clone.write(".git/holdfast/config.toml", 'lock_policy = "warn" # for now\n');
    assert.deepEqual(await said(), ["0", "warn", ".git/holdfast/config.toml"]);
    assert.equal((await clone.git("commit", "-qm", "warned")).code, 0);
    await clone.done("config", "holdfast.lockPolicy", "require");
    assert.deepEqual(await said("a"), ["4", "require", "git config holdfast.lockPolicy"]);
    assert.deepEqual(await said("--policy", "off"), ["0", "off", "--policy"]);
    clone.write("a", "2");
    assert.equal((await clone.git("commit", "-qam", "refused")).code, 1);
    const once = await clone.git("-c", "holdfast.lockPolicy=off", "commit", "-qam", "this once");
    assert.deepEqual([once.code, once.stderr], [0, ""]);
  });

  test("a wrong policy is an error that says what is allowed, and stops a commit", async () => {
    const clone = await guarded("warn");
    const wrong = async (says: RegExp): Promise<void> => {
      const { code, stderr } = await clone.holdfast("guard", "check");
      assert.equal(code, 2);
      assert.match(stderr, says);
      const committed = await clone.git("commit", "--allow-empty", "-qm", "x");
      assert.equal(committed.code, 1);
      assert.match(committed.stderr, says);
    };
    clone.policy("requires");
    await wrong(
      /holdfast\.toml: lock_policy: "requires" is no lock policy: it must be "off", "warn" or "require"$/m,
    );
    clone.write(".holdfast.toml", "lock_policy = true\n");
    await wrong(/true is no lock policy/);
    clone.write(".holdfast.toml", 'lock_policy = "warn\n');
    await wrong(/\.holdfast\.toml:1:\d+: /);
    clone.policy("require", ["src/[a"]);
    await wrong(/require: the pattern "src\/\[a" cannot be used/);
    clone.write(".holdfast.toml", 'lock_policy = "require"\nrequire = "src"\n');
    await wrong(/require must be a list of patterns/);
    rmSync(join(clone.dir, ".holdfast.toml"));
    clone.write(".git/holdfast/config.toml", 'lock_policy = "never"\n');
    await wrong(/config\.toml: lock_policy: "never" is no lock policy/);
    await clone.done("config", "holdfast.lockPolicy", "On");
    await wrong(/git config holdfast\.lockPolicy: "On" is no lock policy/);
    assert.equal((await clone.holdfast("guard", "check", "--policy", "x")).code, 2);
  });

  test("--as names whose locks count: a CI asks with a token of its own", async () => {
    const clone = await guarded("require", ["src/**"]);
    await guard.take("bob", "path:src");
    const asked = ["guard", "check", "src/a", "--as", "runner-2", "--token", "secret-v"];
    assert.equal((await clone.holdfast(...asked)).code, 0);
    assert.equal(
      (await clone.holdfast(...asked.map((word) => word.replace("runner-2", "runner-1")))).code,
      4,
    );
  });
});

describe("what a commit touches", () => {
  const staged = async (clone: Clone): Promise<string[]> => {
    await guard.freeAll();
    await guard.take("bob", "repo:global");
    return heldPaths(await clone.check("--staged"));
  };

  test("what is staged, not what lies in the work tree; the first commit; additions, changes and deletions", async () => {
    const first = guard.at(temporaryDir("holdfast-first-"));
    await first.done("init", "-q");
    first.policy("require");
    await first.holdfast("guard", "install");
    first.write("a", "1");
    first.write("b", "1");
    await first.done("add", "a");
    assert.deepEqual(await staged(first), ["a"]);
    assert.match(
      (await first.git("commit", "-qm", "first")).stderr,
      /^ {2}a is held by runner-2 with repo:global/m,
    );
    const clone = await guard.repository();
    clone.policy("require");
    await clone.commit("gone", "1");
    await clone.commit("same", "1");
    await clone.done("rm", "-q", "gone");
    clone.write("README", "changed\n");
    clone.write("unstaged", "1");
    await clone.done("add", "README");
    assert.deepEqual(await staged(clone), ["README", "gone"]);
  });

  test("commit -a, commit -- paths and partial staging, as git gives them to the hook", async () => {
    const clone = await guarded("require");
    for (const path of ["held", "free", "other"]) await clone.commit(path, "1\n");
    await guard.take("bob", "path:held");
    for (const path of ["held", "free", "other"]) clone.write(path, "2\n");
    const all = await clone.git("commit", "-qam", "all");
    assert.equal(all.code, 1);
    assert.match(all.stderr, /1 of 3 paths must not be committed/);
    await clone.done("add", "held");
    assert.equal(
      (await clone.git("commit", "-qm", "only one", "--", "free")).code,
      0,
      "held is staged, not committed",
    );
    assert.equal((await clone.git("commit", "-qm", "both", "--", "held")).code, 1);
    await clone.done("reset", "-q");
    clone.write("other", "2\n3\n");
    await clone.done("add", "-N", ".");
    await clone.done("add", "other");
    assert.equal((await clone.git("commit", "-qm", "part")).code, 0);
    assert.equal(
      (await clone.done("status", "--short", "--", "held")).trim(),
      "M held",
      "still not committed",
    );
  });

  test("a rename counts by both names, whatever the settings say", async () => {
    const clone = await guard.repository();
    clone.policy("require");
    await clone.commit("old name", "a long enough text\n".repeat(20));
    await clone.done("config", "diff.renames", "copies");
    await clone.done("config", "diff.relative", "true");
    await clone.done("mv", "old name", "new name");
    assert.deepEqual(await staged(clone), ["new name", "old name"]);
  });

  test("a merge counts what it changes compared with its first parent", async () => {
    const clone = await guarded("require");
    await clone.done("checkout", "-qb", "side");
    await clone.commit("both", "side\n");
    await clone.commit("theirs", "side\n");
    await clone.done("checkout", "-q", "main");
    await clone.commit("both", "main\n");
    await clone.commit("ours", "main\n");
    assert.notEqual((await clone.git("merge", "-q", "side")).code, 0);
    clone.write("both", "both\n");
    await clone.done("add", "both");
    assert.deepEqual(await staged(clone), ["both", "theirs"]);
    await guard.freeAll();
    await guard.take("bob", "path:theirs");
    assert.equal((await clone.git("commit", "-qm", "merged")).code, 1);
    await guard.freeAll();
    assert.equal((await clone.git("commit", "-qm", "merged")).code, 0);
  });

  test("links to other repositories count by their path, also where settings ignore them", async () => {
    const clone = await guard.repository();
    clone.policy("require");
    await clone.done("config", "diff.ignoreSubmodules", "all");
    const id = (await clone.done("rev-parse", "HEAD")).trim();
    await clone.done("update-index", "--add", "--cacheinfo", `160000,${id},vendor/lib`);
    assert.deepEqual(await staged(clone), ["vendor/lib"]);
    await guard.freeAll();
    await guard.take("bob", "path:vendor/lib/src");
    assert.deepEqual(heldPaths(await clone.check()), ["vendor/lib"], "another works below it");
  });

  test("odd names: line breaks, quotes, emoji, bytes that are no text, longer than a lock's name", async () => {
    const clone = await guarded("warn", ["demanded/**"]);
    const long = `${"d".repeat(100)}/${"e".repeat(100)}/${"f".repeat(100)}`;
    const names = ["-x", "a b", 'qu"ote', "tab\there", "line\nbreak", "ünï/😀", "'; rm", "$(id)", long];
    for (const name of names) clone.write(name, "1");
    clone.write("demanded/line\nbreak", "1");
    writeFileSync(Buffer.concat([Buffer.from(`${clone.dir}/by`), Buffer.from([0xff, 0xfe])]), "1");
    await clone.done("add", "-A");
    const lockable = names.filter((name) => !/[\t\n]/.test(name) && name !== long);
    await guard.take("bob", ...lockable.map((name) => `path:${name}`));
    const checked = await clone.check();
    assert.deepEqual(heldPaths(checked), lockable.sort());
    assert.deepEqual(
      checked.unlockable.map(({ path, pattern }) => [path, pattern]).sort(),
      [
        ["by\ufffd\ufffd", null],
        ["demanded/line\nbreak", "demanded/**"],
        [long, null],
        ["line\nbreak", null],
        ["tab\there", null],
      ].sort(),
    );
    const warned = await clone.git("commit", "-qm", "odd");
    assert.equal(warned.code, 0);
    assert.match(
      warned.stderr,
      /^ {2}line\\u\{a\}break cannot be locked by its name: a path must not hold control/m,
    );
    assert.match(warned.stderr, /^ {4}To wait for it: .* --resource 'path:'\\''; rm' --wait 10m$/m);
    // Required only where a pattern demands it.
    await guard.freeAll();
    clone.policy("require", ["demanded/**"]);
    clone.write("line\nbreak", "2");
    assert.equal((await clone.git("commit", "-qam", "free")).code, 0);
    clone.write("demanded/line\nbreak", "2");
    const refused = await clone.git("commit", "-qam", "demanded");
    assert.equal(refused.code, 1);
    assert.match(
      refused.stderr,
      /It needs a lock \(require: demanded\/\*\*\): rename it, or holdfast lock acquire --resource path:demanded$/m,
    );
    await guard.take("alice", "path:demanded");
    assert.equal((await clone.git("commit", "-qam", "demanded")).code, 0);
  });

  test("thousands of long paths, and thousands of locks", async () => {
    const clone = await guard.repository();
    clone.policy("require", ["**/*.demanded"]);
    const id = (await clone.done("hash-object", "-w", "README")).trim();
    const lines = Array.from(
      { length: 20_000 },
      (_, at) => `100644 ${id} 0\t${"deep/".repeat(20)}file-${at}\n`,
    );
    const listed = join(temporaryDir("holdfast-list-"), "list");
    writeFileSync(listed, lines.join(""));
    await runToEnd("sh", ["-c", `git update-index --index-info < '${listed}'`], { cwd: clone.dir });
    await guard.take("bob", ...Array.from({ length: 600 }, (_, at) => `path:some/other/${at}`));
    await guard.take("bob", `path:${"deep/".repeat(20)}file-19999`);
    const checked = await clone.check("--staged");
    assert.equal(checked.touched, 20_000);
    assert.deepEqual(heldPaths(checked), [`${"deep/".repeat(20)}file-19999`]);
  });
});

describe("paths, places and wrong use", () => {
  test("paths are as seen from here; directories count with all below them", async () => {
    const clone = await guard.repository();
    clone.policy("require");
    clone.write("src/deep/a", "1");
    await guard.take("bob", "path:src/deep/a");
    const inner = guard.at(join(clone.dir, "src"));
    assert.deepEqual(heldPaths(await inner.check("deep/a")), ["src/deep/a"]);
    assert.deepEqual(heldPaths(await inner.check("./deep/../deep/")), ["src/deep"]);
    assert.deepEqual(heldPaths(await inner.check(join(clone.dir, "src"))), ["src"]);
    assert.deepEqual(heldPaths(await inner.check("../README")), []);
    assert.deepEqual(heldPaths(await clone.check("--", "src/deep/a", "-x")), ["src/deep/a"]);
    for (const outside of ["../..", "/etc/passwd", "", ".."])
      assert.equal((await inner.holdfast("guard", "check", outside)).code, 2, outside);
  });

  test("one thing at a time, in a repository, with a work tree", async () => {
    const clone = await guard.repository();
    clone.policy("require");
    const code = async (where: Clone, ...args: string[]): Promise<number | null> =>
      (await where.holdfast("guard", "check", ...args)).code;
    assert.equal(await code(clone, "--staged", "README"), 2);
    assert.equal(await code(clone, "--staged", "--range", "HEAD..HEAD"), 2);
    assert.equal(await code(clone, "--pre-push", "a", "b", "c"), 2);
    const nowhere = await guard.at(temporaryDir("holdfast-no-")).holdfast("guard", "check");
    assert.deepEqual(
      [nowhere.code, nowhere.stderr],
      [2, "holdfast: this is no git repository: go to one, and repeat it there\n"],
    );
    const within = await guard.at(join(clone.dir, ".git")).holdfast("guard", "check");
    assert.equal(within.code, 2);
    assert.match(within.stderr, /go to its work tree/);
    const bare = guard.at(await guard.bare());
    const staged = await bare.holdfast("guard", "check", "--policy", "require");
    assert.deepEqual([staged.code, /bare repository/.test(staged.stderr)], [2, true]);
    const noGit = await clone.holdfastWith({ PATH: "/nonexistent" }, "guard", "check");
    assert.deepEqual([noGit.code, noGit.stderr], [1, "holdfast: there is no git on the PATH: install it\n"]);
  });

  test("in a work tree of its own, with the clone's settings", async () => {
    const clone = await guarded("require");
    await clone.commit(".holdfast.toml", 'lock_policy = "require"\n');
    const tree = guard.at(join(temporaryDir("holdfast-tree-"), "tree"));
    await clone.done("worktree", "add", "-q", "-b", "side", tree.dir);
    await guard.take("bob", "path:a");
    tree.write("a", "1");
    await tree.done("add", "a");
    assert.equal((await tree.git("commit", "-qm", "x")).code, 1);
    clone.write(".git/holdfast/config.toml", 'lock_policy = "warn"\n');
    assert.equal((await tree.check()).policy.value, "warn");
    assert.equal((await tree.git("commit", "-qm", "x")).code, 0);
  });

  test("what a token may not see is not taken for free", async () => {
    const clone = await guarded("require");
    const made = await guard.lab.holdfast(
      ["token", "create", "--name", "narrow", "--scope", "path:src/*", "--json"],
      {
        HOLDFAST_ADMIN_TOKEN: "operator-secret-for-tests",
        HOLDFAST_TOKEN: undefined,
      },
    );
    assert.equal(made.code, 0, made.text);
    const { data } = JSON.parse(made.stdout) as { data: { token: string } };
    const env = { HOLDFAST_TOKEN: data.token };
    const refused = await clone.holdfastWith(env, "guard", "check", "a");
    assert.equal(refused.code, 1, refused.text);
    assert.match(
      refused.stderr,
      /the token may not see path:\* and repo:global: use one whose scopes cover them/,
    );
    const warned = await clone.holdfastWith(env, "guard", "check", "a", "--policy", "warn");
    assert.deepEqual([warned.code, /may not see/.test(warned.stderr)], [0, true]);
  });
});

describe("locks that cannot be read", () => {
  test("require refuses with 5 and says how to go on; warn goes on", async () => {
    const clone = await guarded("require");
    clone.write("a", "1");
    await clone.done("add", "a");
    const env = { HOLDFAST_URL: `http://127.0.0.1:${await freePort()}` };
    const checked = await clone.holdfastWith(env, "guard", "check", "--json");
    assert.equal(checked.code, 5);
    assert.equal((JSON.parse(checked.stdout) as { error: { code: string } }).error.code, "unreachable");
    const refused = await clone.gitWith(env, "commit", "-qm", "x");
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /^holdfast: the locks cannot be read, and lock_policy is require/);
    assert.match(refused.stderr, /ECONNREFUSED/);
    assert.match(refused.stderr, /this once: git -c holdfast\.lockPolicy=warn commit/);
    const went = await clone.gitWith(env, "-c", "holdfast.lockPolicy=warn", "commit", "-qm", "x");
    assert.equal(went.code, 0);
    assert.match(
      (await clone.holdfastWith(env, "guard", "check", "a", "--policy=warn")).stdout,
      /^Not checked: 1 path/,
    );
    assert.match(went.stderr, /^holdfast: the locks could not be read, and were not heeded: .*ECONNREFUSED/);
  });

  test("a token that is refused: 1 under require, a warning under warn", async () => {
    const clone = await guarded("require");
    const env = { HOLDFAST_TOKEN: "hf_wrong" };
    assert.equal((await clone.holdfastWith(env, "guard", "check", "a")).code, 1);
    assert.equal((await clone.holdfastWith(env, "guard", "check", "a", "--policy", "warn")).code, 0);
  });

  test("a commit that touches nothing needs no answer", async () => {
    const clone = await guarded("require");
    const env = { HOLDFAST_URL: `http://127.0.0.1:${await freePort()}` };
    assert.equal((await clone.gitWith(env, "commit", "-q", "--allow-empty", "-m", "x")).code, 0);
  });
});
