// `holdfast guard install` and `uninstall`: where hooks go, that those of others are kept, run and put back as they were, and
// what hooks do when the program is gone. Git runs the hooks.
import assert from "node:assert/strict";
import {
  chmodSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { after, afterEach, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { type Clone, type GuardLab, openGuardLab } from "./guard-lab.js";
import { mainFile, temporaryDir } from "./server.js";
import { runToEnd } from "./system-program.js";

let guard: GuardLab;
before(async () => {
  guard = await openGuardLab();
});
after(() => guard[Symbol.asyncDispose]());
afterEach(() => guard.freeAll());

const hooksOf = (clone: Clone): string => join(clone.dir, ".git", "hooks");

/** Every entry with its mode and what it holds. */
const entriesOf = (dir: string): string[][] =>
  readdirSync(dir)
    .sort()
    .map((name) => {
      const file = join(dir, name);
      const entry = lstatSync(file);
      const text = entry.isSymbolicLink() ? readlinkSync(file) : readFileSync(file, "latin1");
      return [name, entry.mode.toString(8), text];
    });

function hook(clone: Clone, name: string, text: string, mode = 0o755): void {
  mkdirSync(hooksOf(clone), { recursive: true });
  writeFileSync(join(hooksOf(clone), name), text);
  chmodSync(join(hooksOf(clone), name), mode);
}

async function install(clone: Clone, ...more: string[]): Promise<string> {
  const ended = await clone.holdfast("guard", "install", ...more);
  assert.equal(ended.code, 0, ended.text);
  return ended.text;
}

async function uninstall(clone: Clone, ...more: string[]): Promise<string> {
  const ended = await clone.holdfast("guard", "uninstall", ...more);
  assert.equal(ended.code, 0, ended.text);
  return ended.text;
}

/** A policy that refuses everything, and something to commit. */
async function strict(): Promise<Clone> {
  const clone = await guard.repository();
  await clone.done("config", "holdfast.lockPolicy", "require");
  await guard.take("bob", "repo:global");
  clone.write("a", "1");
  await clone.done("add", "a");
  return clone;
}

describe("hooks that were there", () => {
  test("run first, with the same arguments and input; ours comes after; uninstall puts them back as they were", async () => {
    const { clone } = await guard.withRemote();
    const log = join(clone.dir, "..", `log-${process.pid}`);
    hook(clone, "pre-commit", `#!/usr/bin/env bash\necho "commit $# $0" >> '${log}'\n`, 0o750);
    hook(clone, "pre-push", `#!/bin/sh\necho "push $1 $2 $0" >> '${log}'; cat >> '${log}'\n`, 0o700);
    const before = entriesOf(hooksOf(clone));
    assert.match(
      await install(clone),
      /pre-commit: installed; what was there runs first \(pre-commit\.before-holdfast\)/,
    );
    await guard.take("bob", "path:a");
    clone.policy("require");
    clone.write("a", "1");
    await clone.done("add", "a");
    assert.equal((await clone.git("commit", "-qm", "x")).code, 1);
    assert.match(readFileSync(log, "utf8"), /^commit 0 .*pre-commit\.before-holdfast\n$/);
    await clone.commit("a", "1");
    rmSync(log);
    assert.equal((await clone.git("push", "-q", "origin", "main")).code, 1);
    const [first, second, end] = readFileSync(log, "utf8").split("\n");
    // Under the name that it had: hook managers' scripts look at it.
    assert.match(first ?? "", /^push origin \/.*remote\.git .*hooks\/pre-push$/);
    assert.match(second ?? "", /^refs\/heads\/main [0-9a-f]{40} refs\/heads\/main [0-9a-f]{40}$/);
    assert.equal(end, "");
    assert.match(await uninstall(clone), /pre-commit: as it was before/);
    assert.deepEqual(entriesOf(hooksOf(clone)), before);
    rmSync(log);
  });

  test("their refusal stands, with their exit code, and ours is not asked", async () => {
    const clone = await strict();
    hook(clone, "pre-commit", "#!/bin/sh\necho theirs >&2\nexit 7\n");
    await install(clone);
    const { code, stderr } = await clone.git("commit", "-qm", "x");
    assert.deepEqual([code, stderr], [1, "theirs\n"]);
    const direct = await runToEnd(join(hooksOf(clone), "pre-commit"), [], { cwd: clone.dir });
    assert.equal(direct.code, 7);
  });

  test("what they stage is looked at; what is not executable, or a link, is kept as it is", async () => {
    const clone = await strict();
    await guard.freeAll();
    await guard.take("bob", "path:made-by-hook");
    const script = join(clone.dir, "script.sh");
    writeFileSync(script, "#!/bin/sh\necho 1 > made-by-hook\ngit add made-by-hook\n", { mode: 0o755 });
    mkdirSync(hooksOf(clone), { recursive: true });
    symlinkSync("../../script.sh", join(hooksOf(clone), "pre-commit"));
    hook(clone, "pre-push", "#!/bin/sh\nexit 1\n", 0o644);
    const before = entriesOf(hooksOf(clone));
    await install(clone);
    const { code, stderr } = await clone.git("commit", "-qm", "x");
    assert.equal(code, 1);
    assert.match(stderr, /made-by-hook is held by runner-2/);
    await clone.done("remote", "add", "origin", await guard.bare());
    await guard.freeAll();
    assert.equal((await clone.git("push", "-q", "origin", "main")).code, 0, "git runs no such hook either");
    await uninstall(clone);
    assert.deepEqual(entriesOf(hooksOf(clone)), before);
  });

  test("a manager's script that finds its own by its name", async () => {
    const clone = await strict();
    await clone.done("config", "core.hooksPath", ".husky/_");
    const manager = `n=$(basename "$0")\ns=$(dirname "$(dirname "$0")")/$n\n[ ! -f "$s" ] && exit 0\nsh -e "$s" "$@"\nexit $?\n`;
    clone.write(".husky/_/h", manager);
    clone.write(".husky/_/pre-commit", '#!/usr/bin/env sh\n. "$(dirname "$0")/h"\n');
    clone.write(".husky/pre-commit", "echo from-manager >&2\n");
    clone.write(".husky/_/.gitignore", "*\n");
    chmodSync(join(clone.dir, ".husky/_/pre-commit"), 0o755);
    await install(clone);
    const { stderr } = await clone.git("commit", "-qm", "x");
    assert.match(stderr, /^from-manager\nholdfast: 1 of 1 path must not be committed/);
    // The manager writes its own again, over ours: installing again is all it takes.
    clone.write(".husky/_/pre-commit", '#!/usr/bin/env sh\n. "$(dirname "$0")/h"\n');
    chmodSync(join(clone.dir, ".husky/_/pre-commit"), 0o755);
    assert.equal((await clone.git("commit", "-qm", "x")).code, 0);
    assert.match(await install(clone), /pre-commit: installed; what was there runs first/);
    await uninstall(clone);
    assert.deepEqual(readdirSync(join(clone.dir, ".husky", "_")).sort(), [".gitignore", "h", "pre-commit"]);
  });
});

describe("install and uninstall", () => {
  test("twice is once; nothing is left behind, not even a directory that was made", async () => {
    const clone = await guard.repository();
    rmSync(hooksOf(clone), { recursive: true, force: true });
    assert.match(
      await install(clone),
      /pre-push: installed\n {2}Policy: off \(default\)\n {2}To turn it on: git config/,
    );
    const once = entriesOf(hooksOf(clone));
    assert.deepEqual(
      once.map(([name, mode]) => [name, mode]),
      [
        ["pre-commit", "100755"],
        ["pre-push", "100755"],
      ],
    );
    assert.match(await install(clone), /pre-commit: unchanged/);
    assert.deepEqual(entriesOf(hooksOf(clone)), once);
    assert.match(await uninstall(clone), /^Hooks uninstalled\n/);
    assert.equal(existsSync(hooksOf(clone)), false);
    assert.match(await uninstall(clone), /^Nothing to uninstall\n/);
  });

  test("another installation's hook is brought up to date", async () => {
    const clone = await guard.repository();
    hook(clone, "pre-commit", "#!/bin/sh\n:\n");
    await runToEnd(process.execPath, [join(copyOfProgram(), "dist/bin/holdfast.cjs"), "guard", "install"], {
      cwd: clone.dir,
    });
    assert.doesNotMatch(readFileSync(join(hooksOf(clone), "pre-commit"), "utf8"), new RegExp(mainFile));
    assert.match(await install(clone), /pre-commit: updated; what was there runs first/);
    assert.match(readFileSync(join(hooksOf(clone), "pre-commit"), "utf8"), new RegExp(mainFile));
    await uninstall(clone);
    assert.equal(readFileSync(join(hooksOf(clone), "pre-commit"), "utf8"), "#!/bin/sh\n:\n");
  });

  test("what it did not write it does not delete, nor what was edited since", async () => {
    const clone = await guard.repository();
    hook(clone, "pre-commit", "#!/bin/sh\n:\n");
    assert.match(await uninstall(clone), /pre-commit: left alone, it is not Holdfast's\n/);
    await install(clone);
    const file = join(hooksOf(clone), "pre-commit");
    writeFileSync(file, `${readFileSync(file, "utf8")}echo mine\n`);
    const edited = entriesOf(hooksOf(clone));
    for (const word of ["install", "uninstall"]) {
      const { code, stderr } = await clone.holdfast("guard", word);
      assert.equal(code, 4);
      assert.match(
        stderr,
        /pre-commit was written by holdfast guard install and edited since\. Move your own lines/,
      );
    }
    assert.deepEqual(entriesOf(hooksOf(clone)), edited, "nothing of it was done");
    writeFileSync(file, "#!/bin/sh\necho a third\n");
    const third = entriesOf(hooksOf(clone));
    for (const word of ["install", "uninstall"]) {
      const { code, stderr } = await clone.holdfast("guard", word, "--json");
      assert.equal(code, 4, stderr);
    }
    assert.deepEqual(entriesOf(hooksOf(clone)), third);
  });

  test("an interrupted install is finished by the next, or taken back", async () => {
    const clone = await guard.repository();
    hook(clone, "pre-commit.before-holdfast", "#!/bin/sh\necho before >&2\n");
    await install(clone);
    assert.equal((await clone.git("commit", "-q", "--allow-empty", "-m", "x")).stderr, "before\n");
    rmSync(join(hooksOf(clone), "pre-commit"));
    await uninstall(clone);
    assert.equal(readFileSync(join(hooksOf(clone), "pre-commit"), "utf8"), "#!/bin/sh\necho before >&2\n");
  });

  test("as JSON", async () => {
    const clone = await guard.repository();
    clone.policy("warn");
    const { data } = JSON.parse(await install(clone, "--json")) as { data: unknown };
    const file = join(hooksOf(clone), "pre-commit");
    assert.deepEqual(data, {
      hooks: [
        { hook: "pre-commit", file, action: "installed", kept: null },
        { hook: "pre-push", file: join(hooksOf(clone), "pre-push"), action: "installed", kept: null },
      ],
      policy: { value: "warn", from: join(clone.dir, ".holdfast.toml") },
    });
    clone.policy("never");
    assert.equal(
      (await clone.holdfast("guard", "install", "--json")).code,
      2,
      "all commits would be refused",
    );
  });
});

describe("where hooks live", () => {
  test("core.hooksPath: relative, absolute, in a linked work tree, not a directory", async () => {
    const clone = await strict();
    await clone.done("config", "core.hooksPath", "my hooks");
    const inner = guard.at(join(clone.dir, "sub"));
    mkdirSync(inner.dir);
    await install(inner);
    assert.deepEqual(readdirSync(join(clone.dir, "my hooks")), ["pre-commit", "pre-push"]);
    assert.equal((await inner.git("commit", "-qm", "x")).code, 1);
    await uninstall(inner);
    assert.equal(existsSync(join(clone.dir, "my hooks")), false);
    await clone.done("config", "core.hooksPath", join(clone.dir, "absolute"));
    const tree = guard.at(join(temporaryDir("holdfast-tree-"), "tree"));
    await clone.done("worktree", "add", "-q", tree.dir);
    await install(tree);
    assert.equal((await clone.git("commit", "-qm", "x")).code, 1);
    await clone.done("config", "core.hooksPath", "/dev/null");
    const off = await clone.holdfast("guard", "install");
    assert.deepEqual([off.code, /hooks are turned off/.test(off.stderr)], [2, true]);
  });

  test("a directory of hooks that others share is touched only by --force-shared", async () => {
    const clone = await strict();
    const shared = temporaryDir("holdfast-shared-");
    await clone.done("config", "core.hooksPath", shared);
    for (const word of ["install", "uninstall"]) {
      const { code, stderr } = await clone.holdfast("guard", word);
      assert.equal(code, 2);
      assert.match(
        stderr,
        /outside this repository: other repositories may run its hooks, too\. .*--force-shared$/m,
      );
    }
    assert.deepEqual(readdirSync(shared), []);
    await install(clone, "--force-shared");
    assert.equal((await clone.git("commit", "-qm", "x")).code, 1);
    await uninstall(clone, "--force-shared");
    assert.deepEqual(readdirSync(shared), []);
  });

  test("hooks that are committed: a warning; ours from before core.hooksPath go, too", async () => {
    const clone = await guard.repository();
    await install(clone);
    await clone.commit(".githooks/commit-msg", "#!/bin/sh\n");
    await clone.done("config", "core.hooksPath", ".githooks");
    assert.match(await install(clone), /\.githooks is part of what is committed here/);
    await uninstall(clone);
    assert.deepEqual(readdirSync(join(clone.dir, ".githooks")), ["commit-msg"]);
    assert.deepEqual(
      readdirSync(hooksOf(clone)).filter((name) => !name.endsWith(".sample")),
      [],
    );
  });

  test("work trees share the clone's hooks, also those of a bare repository; a bare one itself has none", async () => {
    const remote = await guard.bare();
    const bare = guard.at(remote);
    for (const word of ["install", "uninstall"]) {
      const { code, stderr } = await bare.holdfast("guard", word);
      assert.equal(code, 2);
      assert.match(stderr, /bare repository: nobody commits in it.*--pre-receive/);
    }
    const clone = await strict();
    await clone.done("push", "-q", "--no-verify", remote, "main");
    const tree = guard.at(join(temporaryDir("holdfast-tree-"), "tree"));
    await bare.done("worktree", "add", "-q", tree.dir, "main");
    assert.match(await install(tree), /remote\.git\/hooks\/pre-commit: installed/);
    await tree.done("config", "holdfast.lockPolicy", "require");
    tree.write("a", "1");
    await tree.done("add", "a");
    assert.equal((await tree.git("commit", "-qm", "x")).code, 1);
  });

  test("a repository within another has its own", async () => {
    const clone = await guard.repository();
    const inner = await strict();
    await clone.done("-c", "protocol.file.allow=always", "submodule", "add", "-q", inner.dir, "lib");
    const lib = guard.at(join(clone.dir, "lib"));
    assert.match(await install(lib), /\.git\/modules\/lib\/hooks\/pre-commit: installed/);
    await lib.done("config", "holdfast.lockPolicy", "require");
    lib.write("b", "1");
    await lib.done("add", "b");
    assert.match((await lib.git("commit", "-qm", "x")).stderr, /b is held by runner-2/);
  });

  test("git told by variables and flags where the repository is", async () => {
    const clone = await strict();
    await install(clone);
    const [dir, tree] = [`--git-dir=${join(clone.dir, ".git")}`, `--work-tree=${clone.dir}`];
    const outside = guard.at(temporaryDir("holdfast-outside-"));
    assert.match((await outside.git(dir, tree, "commit", "-qm", "x")).stderr, /a is held by runner-2/);
    const inner = guard.at(join(clone.dir, "inner"));
    mkdirSync(inner.dir);
    const relative = { GIT_DIR: "../.git", GIT_WORK_TREE: ".." };
    assert.equal((await inner.gitWith(relative, "commit", "-qm", "x")).code, 1);
    assert.equal((await inner.holdfastWith(relative, "guard", "check")).code, 4);
  });
});

/** The program elsewhere, so that it can be taken away. */
function copyOfProgram(): string {
  const root = fileURLToPath(new URL("../../", import.meta.url));
  const copy = temporaryDir("it's a program-");
  for (const dir of ["bin", "src"])
    cpSync(join(root, "dist", dir), join(copy, "dist", dir), { recursive: true });
  cpSync(join(root, "package.json"), join(copy, "package.json"));
  symlinkSync(join(root, "node_modules"), join(copy, "node_modules"));
  return copy;
}

describe("when the program is gone", () => {
  /** Hooks of a program that is there, then not; and a PATH without one. */
  async function orphan(clone: Clone): Promise<{ copy: string; without: { PATH: string } }> {
    const copy = copyOfProgram();
    const main = join(copy, "dist/bin/holdfast.cjs");
    const ended = await runToEnd(process.execPath, [main, "guard", "install"], { cwd: clone.dir });
    assert.equal(ended.code, 0, ended.text);
    const bin = temporaryDir("holdfast-bin-");
    for (const name of ["git", "sh", "sed", "grep", "dirname", "cat"])
      symlinkSync((await runToEnd("sh", ["-c", `command -v ${name}`])).stdout.trim(), join(bin, name));
    return { copy, without: { PATH: bin } };
  }

  test("by its own place, then from the PATH, then not at all: the policy decides", async () => {
    const clone = await strict();
    const { copy, without } = await orphan(clone);
    const byPlace = await clone.gitWith(without, "commit", "-qm", "x");
    assert.match(byPlace.stderr, /^holdfast: 1 of 1 path must not be committed/);
    rmSync(copy, { recursive: true });
    const byPath = await clone.git("commit", "-qm", "x");
    assert.match(byPath.stderr, /^holdfast: 1 of 1 path must not be committed/);
    const commit = async (policy: string): Promise<[number | null, string]> => {
      const args = ["-c", `holdfast.lockPolicy=${policy}`, "commit", "-q", "--allow-empty", "-m", "x"];
      const { code, stderr } = await clone.gitWith(without, ...args);
      return [code, stderr];
    };
    const [code, says] = await commit("require");
    assert.equal(code, 1);
    assert.match(
      says,
      /^holdfast: this repository has a lock policy, and the program that checks it does not run\n/,
    );
    assert.match(says, /^ {2}Install it, in a clone of Holdfast: npm ci && npm pack && npm i -g /m);
    assert.match(says, /^ {2}To go on without, this once: git -c holdfast\.lockPolicy=warn commit/m);
    assert.equal((await commit("nonsense"))[0], 1);
    assert.deepEqual(await commit("off"), [0, ""]);
    const [warned, warning] = await commit("warn");
    assert.equal(warned, 0);
    assert.match(
      warning,
      /^holdfast: locks were not checked: the program is neither at .* nor on the PATH\n$/,
    );
  });

  test("the policy is read without it, as far as it is plain to see", async () => {
    const clone = await guard.repository();
    const { copy, without } = await orphan(clone);
    rmSync(copy, { recursive: true });
    const codeWith = async (text: string, file = ".holdfast.toml"): Promise<number | null> => {
      clone.write(file, text);
      const { code } = await clone.gitWith(without, "commit", "-q", "--allow-empty", "-m", "x");
      rmSync(join(clone.dir, file));
      return code;
    };
    const rows: [text: string, code: number][] = [
      ['lock_policy = "require"\n', 1],
      ["  lock_policy='require' # all\r\n", 1],
      ['require = [\n  "src/**",\n]\nlock_policy = "require"', 1],
      ['"lock_policy" = "require"\n', 1],
      ["lock_policy = 1\n", 1],
      ['lock_policy = """require"""\n', 1],
      ['lock_policy = "warn"\n', 0],
      ['lock_policy = "off"\n', 0],
      ['# lock_policy = "require"\n', 0],
      ['authority = "local"\n', 0],
      ["", 0],
    ];
    for (const [text, code] of rows) {
      assert.equal(await codeWith(text), code, text);
      assert.equal(await codeWith(text, ".git/holdfast/config.toml"), code, text);
    }
  });

  test("a program that is broken: refused under require, passed over under warn", async () => {
    const clone = await strict();
    const { copy, without } = await orphan(clone);
    writeFileSync(join(copy, "dist/bin/holdfast.cjs"), "throw new Error('broken');\n");
    assert.equal((await clone.gitWith(without, "commit", "-qm", "x")).code, 1);
    const warned = await clone.gitWith(without, "-c", "holdfast.lockPolicy=warn", "commit", "-qm", "x");
    assert.equal(warned.code, 0);
    assert.match(warned.stderr, /locks were not checked/);
    assert.ok((statSync(join(hooksOf(clone), "pre-commit")).mode & 0o100) !== 0);
  });
});

test("config show and doctor tell which policy counts in this clone, and whether hooks heed it", async () => {
  const clone = await guard.repository();
  const checks = async (): Promise<{ check: string; status: string; message: string }[]> => {
    const { stdout } = await clone.holdfast("doctor", "--json");
    const { data, error } = JSON.parse(stdout) as Record<string, { checks: []; details: { checks: [] } }>;
    return (data?.checks ?? error?.details.checks ?? []).filter(({ check }) => check === "policy");
  };
  assert.deepEqual(await checks(), [], "there is neither");
  clone.policy("require", ["src/**"]);
  assert.match((await checks())[0]?.message ?? "", /is require .*no hook .* runs as pre-commit and pre-push/);
  await install(clone);
  const [installed] = await checks();
  assert.deepEqual([installed?.status, /hooks are installed/.test(installed?.message ?? "")], ["ok", true]);
  await clone.done("config", "holdfast.lockPolicy", "warn");
  const shown = await clone.holdfast("config", "show");
  assert.match(shown.stdout, /lock_policy +"warn" +git config holdfast\.lockPolicy/);
  assert.match(shown.stdout, /hooks +pre-commit installed, pre-push installed/);
  assert.doesNotMatch(shown.stdout, /"require" /);
  const { data } = JSON.parse((await clone.holdfast("config", "show", "--json")).stdout) as {
    data: { policy: Record<string, unknown>; hooks: unknown };
  };
  assert.deepEqual(data.policy["lock_policy"], { value: "warn", from: "git config holdfast.lockPolicy" });
  assert.deepEqual(data.hooks, { "pre-commit": "installed", "pre-push": "installed" });
  await clone.done("config", "holdfast.lockPolicy", "sometimes");
  assert.deepEqual(
    (await checks()).map(({ status }) => status),
    ["failed"],
  );
  assert.match((await clone.holdfast("config", "show")).stdout, /lock_policy +"require"/);
});
