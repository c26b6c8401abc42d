// What a push touches, by the pre-push hook of a real `git push` to a bare remote, by `--range` as a CI asks, and by the
// pre-receive hook of the remote itself.
import assert from "node:assert/strict";
import { chmodSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, afterEach, before, describe, test } from "node:test";
import { type Clone, checkedIn, type GuardLab, heldPaths, openGuardLab, withInput } from "./guard-lab.js";
import { mainFile, temporaryDir } from "./server.js";

let guard: GuardLab;
before(async () => {
  guard = await openGuardLab();
});
after(() => guard[Symbol.asyncDispose]());
afterEach(() => guard.freeAll());

const none = "0".repeat(40);
const idOf = async (clone: Clone, revision: string): Promise<string> =>
  (await clone.done("rev-parse", revision)).trim();

/** A clone whose every path is held by another, so that a refusal names all that a push touches. */
async function allHeld(): Promise<{ clone: Clone; remote: string }> {
  const made = await guard.withRemote();
  await made.clone.done("config", "holdfast.lockPolicy", "require");
  const ended = await made.clone.holdfast("guard", "install");
  assert.equal(ended.code, 0, ended.text);
  await guard.take("bob", "repo:global");
  return made;
}

/** The paths that the hook refused, and that nothing arrived. */
async function refused(clone: Clone, remote: string, ...args: string[]): Promise<string[]> {
  const before = await guard.at(remote).done("for-each-ref");
  const { code, stderr } = await clone.git("push", "-q", ...args);
  assert.equal(code, 1, stderr);
  assert.match(stderr, /must not be pushed: lock_policy is require/);
  assert.equal(await guard.at(remote).done("for-each-ref"), before);
  return [...stderr.matchAll(/^ {2}(\S+) is held by runner-2/gm)].map(([, path = ""]) => path).sort();
}

async function passes(clone: Clone, ...args: string[]): Promise<string> {
  const { code, stderr } = await clone.git("push", "-q", ...args);
  assert.equal(code, 0, stderr);
  return stderr;
}

describe("git push", () => {
  test("the whole range since the remote's tip: what was changed and changed back, renamed and deleted", async () => {
    const { clone, remote } = await allHeld();
    await clone.commit("back-and-forth", "1");
    await clone.commit("renamed-from", "a long enough text\n".repeat(20));
    await clone.done("rm", "-q", "back-and-forth");
    await clone.done("commit", "-q", "--no-verify", "-m", "back");
    await clone.done("mv", "renamed-from", "renamed-to");
    await clone.done("rm", "-q", "README");
    await clone.done("commit", "-q", "--no-verify", "-m", "renamed");
    const all = ["README", "back-and-forth", "renamed-from", "renamed-to"];
    assert.deepEqual(await refused(clone, remote, "origin", "main"), all);
    await guard.freeAll();
    await passes(clone, "origin", "main");
    await guard.take("bob", "repo:global");
    await passes(clone, "origin", "main");
    await clone.commit("next", "1");
    assert.deepEqual(await refused(clone, remote, "origin", "main"), ["next"]);
  });

  test("a merge brings what it changes; one that drops the other side's work brings that, too", async () => {
    const { clone, remote } = await allHeld();
    await clone.done("checkout", "-qb", "side");
    await clone.commit("of-side", "1");
    await clone.done("checkout", "-q", "main");
    await clone.commit("of-main", "1");
    await clone.done("merge", "-q", "--no-verify", "-m", "merge", "side");
    assert.deepEqual(await refused(clone, remote, "origin", "main"), ["of-main", "of-side"]);
    await guard.freeAll();
    await passes(clone, "origin", "main", "side");
    await clone.done("checkout", "-qb", "other", "HEAD~2");
    await clone.commit("of-other", "1");
    await clone.done("merge", "-q", "--no-verify", "-s", "ours", "-m", "drops all", "main");
    await guard.take("bob", "repo:global");
    assert.deepEqual(await refused(clone, remote, "origin", "other:main"), [
      "of-main",
      "of-other",
      "of-side",
    ]);
  });

  test("a new branch counts by what the remote does not have; several refs together; a deletion touches nothing", async () => {
    const { clone, remote } = await allHeld();
    await clone.done("checkout", "-qb", "one");
    await clone.commit("of-one", "1");
    await clone.done("checkout", "-qb", "two", "main");
    await clone.commit("of-two", "1");
    assert.deepEqual(await refused(clone, remote, "origin", "one"), ["of-one"]);
    assert.deepEqual(await refused(clone, remote, "origin", "one", "two"), ["of-one", "of-two"]);
    await clone.done("tag", "-m", "annotated", "v1", "two");
    assert.deepEqual(await refused(clone, remote, "origin", "v1"), ["of-two"]);
    await clone.done("tag", "blob", await idOf(clone, "two:of-two"));
    await passes(clone, "origin", "main:refs/heads/same", "blob");
    await guard.freeAll();
    await passes(clone, "origin", "one");
    await guard.take("bob", "repo:global");
    await passes(clone, "origin", ":one");
    await passes(clone, "--delete", "origin", "same");
  });

  test("the first push to an empty remote is all there is", async () => {
    const { clone } = await allHeld();
    await clone.commit("second", "1");
    const empty = await guard.bare();
    await clone.done("remote", "add", "empty", empty);
    assert.deepEqual(await refused(clone, empty, "empty", "main"), ["README", "second"]);
  });

  test("a forced push counts what it adds and what it takes away", async () => {
    const { clone, remote } = await allHeld();
    await guard.freeAll();
    await clone.commit("dropped", "1");
    await clone.commit("kept", "1");
    await passes(clone, "origin", "main");
    await clone.done("reset", "-q", "--hard", "HEAD~2");
    await clone.commit("kept", "1");
    await clone.commit("added", "1");
    await guard.take("bob", "repo:global");
    assert.deepEqual(await refused(clone, remote, "--force", "origin", "main"), ["added", "dropped", "kept"]);
  });

  test("a tip that was never fetched: compared with what was, and said so", async () => {
    const { clone, remote } = await allHeld();
    const other = guard.at(temporaryDir("holdfast-other-"));
    await other.done("clone", "-q", remote, ".");
    await other.commit("unseen", "1");
    await passes(other, "origin", "main");
    await clone.commit("mine", "1");
    assert.deepEqual(await refused(clone, remote, "--force", "origin", "main"), ["mine"]);
    const { stderr } = await clone.git("push", "-q", "--force", "origin", "main");
    assert.match(
      stderr,
      /refs\/heads\/main stands at [0-9a-f]{12} at origin, which is not here: compared with all/,
    );
    assert.match(stderr, /git fetch makes it exact/);
    // By its address, nothing is known of it.
    assert.deepEqual(await refused(clone, remote, remote, "main:refs/heads/new"), ["README", "mine"]);
    assert.match((await clone.git("push", "-q", remote, "main:new")).stderr, /every commit of it counts/);
  });

  test("refs of locks are no files; --no-verify passes the hook by", async () => {
    const { clone } = await allHeld();
    await clone.commit("a", "1");
    await passes(clone, "origin", "main:refs/holdfast/locks/x");
    assert.equal(await passes(clone, "--no-verify", "origin", "main"), "");
  });

  test("from a work tree of its own, and with warn", async () => {
    const { clone } = await allHeld();
    const tree = guard.at(join(temporaryDir("holdfast-tree-"), "tree"));
    await clone.done("worktree", "add", "-q", "-b", "side", tree.dir);
    await tree.commit("in-tree", "1");
    await clone.done("config", "holdfast.lockPolicy", "warn");
    assert.match(await passes(tree, "origin", "side"), /^ {2}in-tree is held by runner-2 with repo:global/m);
  });

  test("lines that git never writes are wrong use", async () => {
    const { clone } = await allHeld();
    const args = ["guard", "check", "--pre-push", "origin", "url"];
    for (const input of ["x\n", `refs/heads/a ${none} refs/heads/a\n`, `a ${none.slice(1)} b ${none}\n`])
      assert.equal((await withInput(clone, guard.lab.env, args, input)).code, 2, input);
    assert.equal((await withInput(clone, guard.lab.env, args, "")).code, 0);
  });
});

describe("guard check --range", () => {
  const range = async (clone: Clone, text: string) => clone.check("--range", text);

  test("the commits of B that are not in A", async () => {
    const { clone } = await allHeld();
    await clone.done("checkout", "-qb", "side");
    await clone.commit("a", "1");
    await clone.commit("b", "1");
    await clone.commit("a", "2");
    assert.deepEqual(heldPaths(await range(clone, "main..side")), ["a", "b"]);
    assert.deepEqual(heldPaths(await range(clone, "HEAD~1..")), ["a"]);
    assert.deepEqual(heldPaths(await range(clone, "..HEAD")), []);
    await clone.done("checkout", "-q", "main");
    await clone.commit("of-main", "1");
    assert.deepEqual(heldPaths(await range(clone, "main..side")), ["a", "b"], "main went on by itself");
    const checked = await range(clone, `${none}..side`);
    assert.deepEqual([heldPaths(checked), checked.notes.length], [["README", "a", "b"], 1]);
    assert.equal((await range(clone, `main..${none}`)).touched, 0);
  });

  test("what is no range is wrong use", async () => {
    const { clone } = await allHeld();
    for (const text of [
      "main",
      "main...side",
      "--all..main",
      "nothing..main",
      "main..HEAD:README",
      "a..b..c",
    ]) {
      const { code, stderr } = await clone.holdfast("guard", "check", `--range=${text}`);
      assert.equal(code, 2, `${text}: ${stderr}`);
    }
  });

  test("in a shallow clone, from where it was cut", async () => {
    const { clone, remote } = await allHeld();
    await clone.commit("a", "1");
    await clone.commit("b", "1");
    await clone.done("push", "-q", "--no-verify", "origin", "main");
    const shallow = guard.at(temporaryDir("holdfast-shallow-"));
    await shallow.done("clone", "-q", "--depth", "2", `file://${remote}`, ".");
    assert.deepEqual(heldPaths(await shallow.check("--policy", "require", "--range", "HEAD~1..HEAD")), ["b"]);
    const missing = await shallow.holdfast("guard", "check", "--policy=require", "--range", "HEAD~2..HEAD");
    assert.equal(missing.code, 2);
    assert.match(missing.stderr, /git fetch --unshallow/);
  });
});

describe("guard check --pre-receive", () => {
  test("in the remote's own hook nobody passes it by; the policy is the default branch's", async () => {
    const { clone, remote } = await guard.withRemote();
    await clone.commit(".holdfast.toml", 'lock_policy = "require"\nrequire = ["src/**"]\n');
    await passes(clone, "origin", "main");
    const hook = join(remote, "hooks", "pre-receive");
    writeFileSync(
      hook,
      `#!/bin/sh\nexec '${process.execPath}' '${mainFile}' guard check --pre-receive --as "$PUSHER"\n`,
    );
    chmodSync(hook, 0o755);
    await guard.take("bob", "path:src");
    await clone.commit("src/a", "1");
    const as = (name: string) =>
      clone.gitWith({ PUSHER: name }, "push", "-q", "--no-verify", "origin", "main");
    const alice = await as("runner-1");
    assert.equal(alice.code, 1);
    assert.match(alice.stderr, /src\/a is held by runner-2 with path:src/);
    assert.equal((await as("runner-2")).code, 0);
    // A new branch there has nothing new; a policy that comes with the push does not count yet.
    assert.equal((await clone.gitWith({ PUSHER: "x" }, "push", "-q", "origin", "main:new", ":main")).code, 1);
    assert.equal((await clone.gitWith({ PUSHER: "x" }, "push", "-q", "origin", "main:new")).code, 0);
    await clone.commit("src/a", "2");
    await clone.commit(".holdfast.toml", 'lock_policy = "off"\n');
    assert.equal((await as("runner-1")).code, 1);
    rmSync(hook);
  });

  test("--json there, too", async () => {
    const { clone } = await allHeld();
    await clone.commit("a", "1");
    const line = `${await idOf(clone, "HEAD~1")} ${await idOf(clone, "HEAD")} refs/heads/x\n`;
    const ended = await withInput(clone, guard.lab.env, ["guard", "check", "--pre-receive", "--json"], line);
    assert.deepEqual([ended.code, heldPaths(checkedIn(ended))], [4, ["a"]]);
  });
});
