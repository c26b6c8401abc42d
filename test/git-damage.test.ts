// Remotes that refuse or are not there, and records that somebody damaged: a clear error of the right kind, nothing
// taken, and every other lock goes on working.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { refOfLock } from "../src/engines/git/key-refs.js";
import type { StoreErrorKind } from "../src/store/store.js";
import { isStoreError } from "./conformance.js";
import { Asker, git, gitEnv, newRemote, newRepository, openAt } from "./git-lab.js";
import { scratch, space } from "./store-lab.js";

const refusal =
  (kind: StoreErrorKind, words: RegExp) =>
  (error: Error): boolean => {
    assert.ok(isStoreError(kind)(error), `${error.name}: ${error.message}`);
    assert.match(error.message, words);
    return true;
  };

const hookOf =
  (name: string) =>
  (bare: string): void => {
    const file = join(bare, "hooks", name);
    mkdirSync(join(bare, "hooks"), { recursive: true });
    // As a server that takes branches only.
    writeFileSync(
      file,
      name === "update"
        ? '#!/bin/sh\ncase "$1" in refs/holdfast/*) exit 1;; esac\n'
        : '#!/bin/sh\nif grep -q refs/holdfast; then echo "branches only" >&2; exit 1; fi\n',
    );
    chmodSync(file, 0o755);
  };

const refusing: Readonly<Record<string, (bare: string) => void>> = {
  "a pre-receive hook that declines them": hookOf("pre-receive"),
  "an update hook that declines them": hookOf("update"),
  "references that are hidden": (bare) => git(bare, "config", "receive.hideRefs", "refs/holdfast"),
};

for (const [name, refuse] of Object.entries(refusing))
  test(`${name}: said with what to do, at once, nothing taken`, async (t) => {
    const { bare, clones } = newRemote(scratch(t), 1);
    refuse(bare);
    const store = openAt(clones[0] ?? "", { authority: "origin" });
    t.after(() => store.close());
    const asker = new Asker(store, "one");
    const said = refusal("unavailable", /does not take lock references.*holdfast\.authority local/);
    for (const lock of ["plain", "path:a"]) await assert.rejects(asker.acquire(lock), said);
    await assert.rejects(store.probe(), said);
    assert.deepEqual(await asker.list(), []);
    assert.equal(git(bare, "for-each-ref", "refs/holdfast"), "");
    if (name.includes("pre-receive"))
      await assert.rejects(asker.acquire("plain"), refusal("unavailable", /it said: branches only/));
  });

test("a remote that changes references one by one only: said at once, nothing taken", async (t) => {
  const { bare, clones } = newRemote(scratch(t), 1);
  git(bare, "config", "receive.advertiseAtomic", "false");
  const store = openAt(clones[0] ?? "", { authority: "origin" });
  t.after(() => store.close());
  const asker = new Asker(store, "one");
  const said = refusal("unavailable", /several references in one step.*holdfast\.authority local/);
  for (const lock of ["plain", "path:a"]) await assert.rejects(asker.acquire(lock), said);
  await assert.rejects(store.probe(), said);
  assert.equal(git(bare, "for-each-ref", "refs/holdfast"), "");
});

test("a remote that takes references and does not show them is found out, and nothing is left there", async (t) => {
  const { bare, clones } = newRemote(scratch(t), 1);
  git(bare, "config", "uploadpack.hideRefs", "refs/holdfast");
  const store = openAt(clones[0] ?? "", { authority: "origin" });
  t.after(() => store.close());
  await assert.rejects(store.probe(), refusal("unavailable", /takes lock references and does not show them/));
  assert.equal(git(bare, "for-each-ref", "refs/holdfast"), "");
});

test("a remote that may be read and not written: said, nothing taken", async (t) => {
  const dir = scratch(t);
  const { bare, clones } = newRemote(dir, 1);
  const [clone = ""] = clones;
  const config = join(dir, "gitconfig");
  writeFileSync(config, "[safe]\n\tdirectory = *\n");
  const env = { ...gitEnv, GIT_CONFIG_GLOBAL: config, PATH: `${join(dir, "bin")}:${gitEnv["PATH"]}` };
  spawnSync("chmod", ["-R", "a-w,a+rX", bare]);
  if (process.getuid?.() === 0) {
    // Whom no permission stops lets git run as nobody, who has the clone.
    const nobody = 65534;
    spawnSync("chown", ["-R", `${nobody}`, clone]);
    chmodSync(dir, 0o755);
    mkdirSync(join(dir, "bin"));
    writeFileSync(
      join(dir, "bin/git"),
      `#!/bin/sh\nexec setpriv --reuid=${nobody} --clear-groups ${git(dir, "--exec-path")}/git "$@"\n`,
    );
    chmodSync(join(dir, "bin/git"), 0o755);
  }
  const store = openAt(clone, { authority: "origin", env });
  t.after(() => store.close());
  const asker = new Asker(store, "one");
  await assert.rejects(asker.acquire("plain"), refusal("unavailable", /denied|permission|unpacker error/i));
  await assert.rejects(store.probe(), isStoreError("unavailable"));
  assert.deepEqual(await asker.list(), []);
});

test("a remote that is not there, or not named: said, nothing taken, never a lock here instead", async (t) => {
  const { bare, clones } = newRemote(scratch(t), 1);
  const [clone = ""] = clones;
  for (const authority of ["nobody", "origin"]) {
    if (authority === "origin") rmSync(bare, { recursive: true });
    const asker = new Asker(openAt(clone, { authority }), "one");
    const said = refusal("unavailable", new RegExp(`remote ${authority} cannot be reached, and nothing was`));
    await assert.rejects(asker.acquire("plain"), said);
    await assert.rejects(asker.list(), said);
    await asker.store.close();
  }
  assert.equal(git(clone, "for-each-ref", "refs/holdfast"), "");
  for (const url of ["https://example.org/x", "-x", "--upload-pack=touch /tmp/x", "../x", "/tmp/x", ""])
    assert.throws(() => openAt(clone, { authority: url }), isStoreError("unsupported"), url);
});

interface Ground {
  readonly asker: Asker;
  /** One who knows nothing yet. */
  readonly fresh: () => Asker;
  readonly deciding: string;
}

function ground(t: TestContext, authority: string): Ground {
  const { bare, clones } = newRemote(scratch(t), 2);
  const [one = "", two = ""] = clones;
  const open = (dir: string, name: string): Asker => {
    const store = openAt(dir, { authority });
    t.after(() => store.close());
    return new Asker(store, name);
  };
  return {
    asker: open(one, "one"),
    fresh: () => open(authority === "local" ? one : two, "two"),
    deciding: authority === "local" ? one : bare,
  };
}

const blob = (dir: string, text: string): string => {
  const { stdout } = spawnSync("git", ["hash-object", "-w", "--stdin"], {
    cwd: dir,
    input: text,
    env: gitEnv,
  });
  return stdout.toString().trim();
};

const bad: Readonly<Record<string, (dir: string) => string>> = {
  "no JSON": (dir) => blob(dir, "\u0000\u0001 not a record"),
  nothing: (dir) => blob(dir, ""),
  "half a record": (dir) => blob(dir, '{"holdfast":1,"write_id":"x","space":"default","resource":"bad"}'),
  "a newer format": (dir) => blob(dir, '{"holdfast":99,"anything":true}'),
  "a commit": (dir) => git(dir, "rev-parse", "HEAD"),
  "a tree": (dir) => git(dir, "rev-parse", "HEAD^{tree}"),
  "a tag": (dir) => {
    git(dir, "tag", "--force", "--annotate", "--message=x", "x", "HEAD");
    return git(dir, "rev-parse", "x");
  },
  "five megabytes": (dir) => blob(dir, "x".repeat(5 * 1024 * 1024)),
};

for (const authority of ["local", "origin"])
  test(`damaged records stop nobody else, and are told of, ${authority}`, async (t) => {
    const { asker, fresh, deciding } = ground(t, authority);
    assert.equal(await asker.acquire("good"), 1);
    const good = asker.leaseId;
    for (const [i, make] of Object.values(bad).entries())
      git(deciding, "update-ref", refOfLock({ space, name: `bad-${i}` }), make(deciding));
    // Another's record in its place.
    git(
      deciding,
      "update-ref",
      refOfLock({ space, name: "moved" }),
      git(deciding, "rev-parse", refOfLock({ space, name: "good" })),
    );
    for (const one of [asker, fresh()]) {
      for (const name of [...Object.keys(bad).map((_, i) => `bad-${i}`), "moved"])
        await assert.rejects(
          one.acquire(name),
          refusal("corrupt", new RegExp(`record of ${name} (is damaged|cannot be read: a newer version)`)),
        );
      assert.deepEqual(await one.list(), ["good one 1"]);
      const troubles = await one.store.troubles();
      assert.equal(troubles.length, Object.keys(bad).length + 1);
      assert.equal(troubles.filter(({ what }) => what === "newer").length, 1);
    }
    asker.leaseId = good;
    assert.equal(await asker.renew("good"), "renewed");
    assert.equal(await asker.release("good"), "released");
    assert.equal(await fresh().acquire("path:good"), 1);
  });

for (const authority of ["local", "origin"])
  test(`a damaged guard: nothing is granted, and what is held goes on, ${authority}`, async (t) => {
    const { asker, fresh, deciding } = ground(t, authority);
    await asker.acquire("path:a");
    const other = fresh();
    const floors = [-1, Number.MAX_SAFE_INTEGER, "7", null].map((floor) => ({ default: floor }));
    const texts = floors.map((wrong) => JSON.stringify({ holdfast: 1, floors: wrong, grant: null }));
    for (const text of ["nonsense", ...texts]) {
      git(deciding, "update-ref", "refs/holdfast/guard", blob(deciding, text));
      for (const name of ["plain", "path:b"])
        await assert.rejects(other.acquire(name), refusal("corrupt", /refs\/holdfast\/guard is damaged/));
      assert.deepEqual(await other.list(), ["path:a one 1"]);
      assert.deepEqual(
        (await other.store.troubles()).map(({ what, ref }) => `${what} ${ref}`),
        ["damaged refs/holdfast/guard"],
      );
    }
    assert.equal(await asker.renew("path:a"), "renewed");
    assert.equal(await asker.release("path:a"), "released");
  });

test("what was damaged and is mended at the remote is not refused from memory", async (t) => {
  const { asker, deciding } = ground(t, "origin");
  for (const [name, ref] of [
    ["plain", refOfLock({ space, name: "plain" })],
    ["path:a", "refs/holdfast/guard"],
  ] as const) {
    git(deciding, "update-ref", ref, blob(deciding, "nonsense"));
    await asker.list();
    await assert.rejects(asker.acquire(name), isStoreError("corrupt"));
    git(deciding, "update-ref", "-d", ref);
    assert.equal(await asker.acquire(name), 1, name);
  }
});

const standstill = /does not change refs\/holdfast.*nobody else did.*unable to create.*\.lock.*File exists/i;

test("a lock file that a killed git left behind at a remote: said to be one, and named", async (t) => {
  const { bare, clones } = newRemote(scratch(t), 1);
  const asker = new Asker(openAt(clones[0] ?? "", { authority: "origin" }), "one");
  t.after(() => asker.store.close());
  await asker.acquire("plain");
  writeFileSync(join(bare, `${refOfLock({ space, name: "plain" })}.lock`), "");
  await assert.rejects(asker.renew("plain"), refusal("unavailable", standstill));
  assert.equal(await asker.acquire("other"), 1, "nobody else is stopped");
});

test("a lock file that a killed git left behind: named at once when it is old, after a while when it may be in use", async (t) => {
  const clone = newRepository(join(scratch(t), "clone"));
  const asker = new Asker(openAt(clone), "one");
  t.after(() => asker.store.close());
  await asker.acquire("plain");
  const file = join(clone, ".git", `${refOfLock({ space, name: "plain" })}.lock`);
  writeFileSync(file, "");
  await assert.rejects(asker.renew("plain"), refusal("unavailable", standstill));
  const longAgo = new Date(Date.now() - 120_000);
  utimesSync(file, longAgo, longAgo);
  await assert.rejects(asker.renew("plain"), refusal("unavailable", /left behind.*1[12]\d s ago.*remove it/));
  assert.equal(await asker.acquire("other"), 1, "nobody else is stopped");
  rmSync(file);
  asker.leaseId = "";
  assert.equal(await asker.acquire("plain"), "held by one");
});
