// Repositories as people have them: shallow, bare, packed, with worktrees, submodules, hooks and odd settings. A lock
// works in all of them as in a plain clone, and nothing of it enters a clone.
import assert from "node:assert/strict";
import { chmodSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { test } from "node:test";
import {
  Asker,
  git,
  gitEnv,
  newClone,
  newRemote,
  newRepository,
  type OpenOptions,
  openAt,
  tryGit,
} from "./git-lab.js";
import { scratch } from "./store-lab.js";

interface Place {
  /** Where the lock is asked for. */
  readonly dir: string;
  /** Another place that must see it. */
  readonly other: string;
  readonly authority: string;
  readonly env?: NodeJS.ProcessEnv;
}

/** A holder here, one who wants it there; taken, refused, renewed, given back, taken over there; by two kinds of name. */
async function useLocks({ dir, other, authority, env = gitEnv }: Place): Promise<void> {
  const options: OpenOptions = { authority, env };
  const one = new Asker(openAt(dir, options), "one");
  const two = new Asker(openAt(other, options), "two");
  try {
    for (const name of ["plain", "path:src/auth.rs"]) {
      assert.equal(await one.acquire(name), 1);
      assert.equal(await two.acquire(name), "held by one");
      assert.deepEqual(await two.list(name), [`${name} one 1`]);
      assert.equal(await one.renew(name), "renewed");
      assert.equal(await one.release(name), "released");
      assert.equal(await two.acquire(name), 2);
      assert.equal(await one.acquire(name), "held by two");
      // More than a few, so that standing processes are used as well.
      for (let i = 0; i < 3; i++) assert.equal(await two.renew(name), "renewed");
      assert.equal(await two.release(name), "released");
    }
    await one.store.probe();
    assert.deepEqual(await two.store.troubles(), []);
  } finally {
    await Promise.all([one.store.close(), two.store.close()]);
  }
}

const places: Readonly<Record<string, (dir: string) => Place>> = {
  "a shallow clone": (dir) => {
    const { bare, clones } = newRemote(dir, 1);
    const shallow = newClone(`file://${bare}`, join(dir, "shallow"), "--depth=1");
    return { dir: shallow, other: clones[0] ?? "", authority: "origin" };
  },
  "a clone without blobs": (dir) => {
    const { bare, clones } = newRemote(dir, 1);
    git(bare, "config", "uploadpack.allowFilter", "true");
    const partial = newClone(`file://${bare}`, join(dir, "partial"), "--filter=blob:none");
    return { dir: clones[0] ?? "", other: partial, authority: "origin" };
  },
  "a bare repository": (dir) => {
    const { bare } = newRemote(dir, 1);
    return { dir: bare, other: bare, authority: "local" };
  },
  "a mirror": (dir) => {
    const { bare, clones } = newRemote(dir, 1);
    const mirror = newClone(bare, join(dir, "mirror"), "--mirror");
    return { dir: mirror, other: clones[0] ?? "", authority: "origin" };
  },
  "a worktree": (dir) => {
    const clone = newRepository(join(dir, "clone"));
    git(clone, "worktree", "add", "--quiet", join(dir, "deep/er/tree"));
    return { dir: join(dir, "deep/er/tree"), other: clone, authority: "local" };
  },
  "a submodule": (dir) => {
    const { bare, clones } = newRemote(dir, 1);
    const whole = newRepository(join(dir, "whole"));
    git(whole, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", bare, "part");
    return { dir: join(whole, "part"), other: clones[0] ?? "", authority: "origin" };
  },
  "SHA-256, by its own references": (dir) => {
    const clone = newRepository(join(dir, "clone"), "--object-format=sha256");
    return { dir: clone, other: clone, authority: "local" };
  },
  "SHA-256, by a remote": (dir) => {
    const { clones } = newRemote(dir, 2, "--object-format=sha256");
    return { dir: clones[0] ?? "", other: clones[1] ?? "", authority: "origin" };
  },
  "a remote with a relative address": (dir) => {
    const { bare, clones } = newRemote(dir, 1);
    const [clone = ""] = clones;
    git(clone, "remote", "set-url", "origin", `../${basename(bare)}`);
    git(clone, "worktree", "add", "--quiet", join(dir, "deep/er/tree"));
    return { dir: join(dir, "deep/er/tree"), other: clone, authority: "origin" };
  },
  "a user who trusts no bare repository": (dir) => {
    const { clones } = newRemote(dir, 2);
    const file = join(dir, "gitconfig");
    writeFileSync(file, "[safe]\n\tbareRepository = explicit\n");
    const env = { ...gitEnv, GIT_CONFIG_GLOBAL: file };
    return { dir: clones[0] ?? "", other: clones[1] ?? "", authority: "origin", env };
  },
  "a directory with a line break and quotes in its name": (dir) => {
    const clone = newRepository(join(dir, 'one "of\n\\ these'));
    git(clone, "worktree", "add", "--quiet", join(dir, "tree"));
    return { dir: clone, other: join(dir, "tree"), authority: "local" };
  },
  "a remote with a slash in its name": (dir) => {
    const { clones } = newRemote(dir, 2);
    for (const clone of clones) git(clone, "remote", "rename", "origin", "team/main");
    return { dir: clones[0] ?? "", other: clones[1] ?? "", authority: "team/main" };
  },
};

for (const [name, make] of Object.entries(places))
  test(`${name}: locks work`, async (t) => {
    await useLocks(make(scratch(t)));
  });

/** A program that fails, and says so where it was run. */
function failing(file: string): void {
  writeFileSync(file, `#!/bin/sh\necho ran >> "${file}.ran"\nexit 1\n`);
  chmodSync(file, 0o755);
}

for (const authority of ["local", "origin"])
  test(`a user's hooks and settings change nothing, ${authority}`, async (t) => {
    const dir = scratch(t);
    const { bare, clones } = newRemote(dir, 2);
    const hooks = join(dir, "hooks");
    mkdirSync(hooks);
    for (const hook of ["reference-transaction", "pre-push", "post-checkout", "update"])
      failing(join(hooks, hook));
    const settings = {
      "core.hooksPath": hooks,
      "push.followTags": "true",
      "push.gpgSign": "true",
      "push.pushOption": "ci.skip",
      "push.negotiate": "true",
      "push.useForceIfIncludes": "true",
      "push.recurseSubmodules": "check",
      "push.default": "nothing",
      "submodule.recurse": "true",
      "fetch.prune": "true",
      "fetch.pruneTags": "true",
      "fetch.writeCommitGraph": "true",
      "remote.pushDefault": "elsewhere",
      "gc.auto": "1",
      "core.logAllRefUpdates": "always",
      "core.autocrlf": "true",
      "core.safecrlf": "true",
      "filter.shout.clean": "tr a-z A-Z",
      "core.bigFileThreshold": "1",
      "transfer.fsckObjects": "true",
      "protocol.version": "0",
      "color.ui": "always",
    };
    for (const clone of clones) {
      git(clone, "tag", "v1", "--message=one");
      writeFileSync(join(clone, ".git/info/attributes"), "* filter=shout text\n");
      for (const [key, value] of Object.entries(settings)) git(clone, "config", key, value);
    }
    git(bare, "config", "receive.denyNonFastForwards", "true");
    git(bare, "config", "receive.fsckObjects", "true");
    const [one = "", two = ""] = clones;
    await useLocks({ dir: one, other: authority === "local" ? one : two, authority });
    for (const hook of ["reference-transaction", "pre-push"])
      assert.ok(!existsSync(join(hooks, `${hook}.ran`)), `${hook} ran`);
    assert.equal(git(bare, "tag"), "", "no tag went with a lock");
    assert.ok(!existsSync(join(one, ".git/logs/refs/holdfast")), "no log of locks");
  });

for (const authority of ["local", "origin"])
  test(`packed references and clean-ups while locks are held, ${authority}`, async (t) => {
    const { bare, clones } = newRemote(scratch(t), 2);
    const [one = "", two = ""] = clones;
    const [holder, other] = [one, authority === "local" ? one : two].map(
      (dir, i) => new Asker(openAt(dir, { authority }), `asker-${i}`),
    );
    assert.ok(holder && other);
    t.after(() => Promise.all([holder.store.close(), other.store.close()]));
    const deciding = authority === "local" ? one : bare;
    for (let i = 1; i <= 4; i++) {
      assert.equal(await holder.acquire("plain"), 2 * i - 1);
      const plain = holder.leaseId;
      assert.equal(await holder.acquire("path:a"), 2 * i - 1);
      for (const dir of [deciding, one, two])
        git(dir, ...(i % 2 ? ["gc", "--quiet", "--prune=now"] : ["pack-refs", "--all", "--prune"]));
      assert.equal(await holder.renew("path:a"), "renewed");
      assert.equal(await other.acquire("path:a/b"), "held by asker-0");
      assert.equal(await holder.release("path:a"), "released");
      holder.leaseId = plain;
      git(deciding, "pack-refs", "--all");
      assert.equal(await other.acquire("plain"), "held by asker-0");
      assert.equal(await holder.release("plain"), "released");
      for (const name of ["plain", "path:a"]) {
        assert.equal(await other.acquire(name), 2 * i);
        assert.equal(await other.release(name), "released");
      }
    }
    assert.equal(tryGit(deciding, "fsck", "--strict").code, 0, tryGit(deciding, "fsck", "--strict").said);
    // A new process, to whom everything is new.
    const late = new Asker(openAt(authority === "local" ? one : two, { authority }), "late");
    assert.equal(await late.acquire("plain"), 9);
    await late.store.close();
  });

test("nothing of a remote's locks enters a clone, and nothing of a clone's own leaves it", async (t) => {
  const dir = scratch(t);
  const { bare, clones } = newRemote(dir, 2);
  const [one = "", two = ""] = clones;
  const state = (clone: string): string => git(clone, "for-each-ref");
  const before = clones.map(state);
  const askers = clones.map((clone, i) => new Asker(openAt(clone, { authority: "origin" }), `asker-${i}`));
  for (const asker of askers) for (const name of ["plain", "path:a", "repo:x"]) await asker.acquire(name);
  for (const asker of askers) await asker.list();
  assert.deepEqual(clones.map(state), before);
  for (const clone of clones)
    for (const file of ["FETCH_HEAD", "ORIG_HEAD"]) assert.ok(!existsSync(join(clone, ".git", file)), file);
  assert.equal(git(bare, "for-each-ref", "refs/holdfast").split("\n").length, 4);
  // What people do with their clones all day.
  writeFileSync(join(two, "more"), "more\n");
  git(two, "add", ".");
  git(two, "commit", "--quiet", "--message=more");
  git(two, "push", "--quiet", "--all");
  git(two, "push", "--quiet", "--tags");
  git(one, "fetch", "--quiet", "--all", "--tags", "--prune");
  git(one, "pull", "--quiet");
  newClone(bare, join(dir, "late"));
  for (const clone of [one, two, join(dir, "late")]) assert.doesNotMatch(state(clone), /holdfast/);
  // Locks of a clone's own stay there.
  const own = new Asker(openAt(one, { authority: "local" }), "own");
  await own.acquire("path:mine");
  git(one, "push", "--quiet", "--all");
  git(one, "push", "--quiet", "--tags");
  assert.equal(git(bare, "for-each-ref", "refs/holdfast").split("\n").length, 4);
  assert.equal(git(one, "status", "--porcelain"), "");
  await Promise.all([...askers, own].map(({ store }) => store.close()));
});

test("a clean-up that takes a directory of objects away just then costs a second try", async (t) => {
  const dir = scratch(t);
  const clone = newRepository(join(dir, "clone"));
  const program = join(dir, "git");
  writeFileSync(
    program,
    `#!/bin/sh
case "$*" in *hash-object*)
  if mkdir '${dir}/failed' 2>/dev/null; then
    echo 'error: unable to create temporary file: No such file or directory' >&2
    exit 128
  fi ;;
esac
exec ${git(dir, "--exec-path")}/git "$@"
`,
    { mode: 0o755 },
  );
  const asker = new Asker(openAt(clone, { env: { ...gitEnv, PATH: `${dir}:${gitEnv["PATH"]}` } }), "one");
  t.after(() => asker.store.close());
  assert.equal(await asker.acquire("deploy"), 1);
});
