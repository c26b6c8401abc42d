// Locks in a git repository, by the command line as people and scripts use it: two clones of one remote, fresh shells,
// worktrees, and what is kept where.
import assert from "node:assert/strict";
import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { actorOf, openGitLab } from "./cli-git-lab.js";
import { eventually, filesBelow, jsonOf } from "./cli-lab.js";

interface Locked {
  readonly lock: { readonly owner: string; readonly nonce: string; readonly token: number };
}

describe("two clones of one remote", () => {
  test("what one holds the other sees and is refused; after the release it gets it, with a higher token", async () => {
    const lab = openGitLab();
    const [a, b] = [lab.clone("a"), lab.clone("b")];
    const taken = await a.holdfast([
      "lock",
      "acquire",
      "issue:1",
      "--ttl",
      "30m",
      "--reason",
      "login",
      "--json",
    ]);
    assert.equal(taken.code, 0, taken.text);
    const { lock } = jsonOf<Locked>(taken).data;
    const seen = jsonOf<{ locks: Record<string, unknown>[]; conflicts: []; damaged: [] }>(
      await b.holdfast(["lock", "status", "--json"]),
    ).data;
    assert.equal(seen.locks.length, 1);
    assert.deepEqual(
      [seen.locks[0]?.["resource"], seen.locks[0]?.["owner"], seen.locks[0]?.["mine"]],
      ["issue:1", lock.owner, false],
    );
    assert.deepEqual([seen.conflicts, seen.damaged], [[], []]);
    const refused = await b.holdfast(["lock", "acquire", "issue:1"]);
    assert.equal(refused.code, 4, refused.text);
    assert.match(
      refused.stderr,
      new RegExp(`^Error: Lock conflict\\n[\\s\\S]*Owner: ${lock.owner}\\n[\\s\\S]*Reason: login`),
    );
    assert.equal((await b.holdfast(["lock", "release", "issue:1"])).code, 4, "not by who does not hold it");
    // The nonce is proof only in the worktree that took it.
    assert.equal((await b.holdfast(["lock", "release", "issue:1", "--nonce", lock.nonce])).code, 4);
    assert.equal((await a.holdfast(["lock", "release", "issue:1"])).code, 0);
    const next = await b.holdfast(["lock", "acquire", "issue:1", "--json"]);
    assert.equal(jsonOf<Locked>(next).data.lock.token, lock.token + 1);
    assert.equal((await a.holdfast(["lock", "release", "issue:1"])).code, 4);
  });

  test("paths below a held one are held; a remote named by --git decides alone", async () => {
    const lab = openGitLab();
    const [a, b] = [lab.clone("a"), lab.clone("b")];
    assert.equal((await a.holdfast(["lock", "acquire", "path:src"])).code, 0);
    const refused = await b.holdfast(["lock", "acquire", "path:src/auth.rs", "--git=origin"]);
    assert.equal(refused.code, 4, refused.text);
    assert.match(refused.stderr, /Overlaps: path:src/);
    assert.equal((await b.holdfast(["lock", "acquire", "path:src/auth.rs", "--git=local"])).code, 0);
  });

  test("one who disappears is followed after the TTL and the margin, and its late commands change nothing", async () => {
    const lab = openGitLab();
    const [a, b] = [lab.clone("a"), lab.clone("b")];
    const env = { HOLDFAST_SESSION: "gone" };
    const taken = jsonOf<Locked>(await a.holdfast(["lock", "acquire", "x", "--ttl", "1s", "--json"], env))
      .data.lock;
    const began = Date.now();
    const followed = await b.holdfast(["lock", "acquire", "x", "--wait", "20s", "--json"]);
    assert.equal(followed.code, 0, followed.text);
    assert.ok(Date.now() - began >= 2500, "not before the TTL and 2 s, counted from its first look");
    const { owner, token } = jsonOf<Locked>(followed).data.lock;
    assert.equal(token, taken.token + 1);
    for (const verb of ["renew", "release"]) {
      const late = await a.holdfast(["lock", verb, "x"], env);
      assert.equal(late.code, 4, late.text);
    }
    assert.equal(await a.holderOf("x"), owner);
  });

  test("nothing of it enters a clone, a fetch or a push", async () => {
    const lab = openGitLab();
    const [a, b] = [lab.clone("a"), lab.clone("b")];
    await a.holdfast(["lock", "acquire", "x"]);
    await b.holdfast(["lock", "status"]);
    b.git("fetch", "--quiet");
    for (const clone of [a, b, lab.clone("c")]) assert.equal(clone.git("for-each-ref", "refs/holdfast"), "");
    assert.equal(a.git("status", "--porcelain"), "");
  });
});

test("each command in a fresh shell: HOLDFAST_SESSION makes them one, and without it they are strangers", async () => {
  const { holdfast: _, ...a } = openGitLab().clone("a");
  const env = { HOLDFAST_SESSION: "agent-7" };
  const acquired = await a.script("holdfast lock acquire path:a.rs --ttl 30m --json | jq -e .ok", env);
  assert.equal(acquired.stdout, "true\n", acquired.text);
  const stranger = await a.script("holdfast lock renew path:a.rs");
  assert.equal(stranger.code, 4, stranger.text);
  assert.match(stranger.stderr, /HOLDFAST_SESSION=NAME holdfast lock renew --resource path:a\.rs/);
  assert.equal((await a.script("holdfast lock renew path:a.rs --ttl 1h", env)).code, 0);
  assert.equal(
    (await a.script("holdfast lock acquire path:a.rs", env)).code,
    0,
    "a named session asks twice",
  );
  assert.match(
    (await a.script("holdfast lock release --mine --all", env)).stdout,
    /Released 1 lock\n {2}path:a\.rs/,
  );
  const failed = await a.script("holdfast lock release path:a.rs --json | jq -e .ok", env);
  assert.equal(failed.stdout, "false\n");
});

test("lease ids are kept in the git directory, readable by their user alone, and go with the lease", async () => {
  const a = openGitLab().clone("a");
  const kept = (): string[] => filesBelow(join(a.dir, ".git", "holdfast", "leases"));
  await a.holdfast(["lock", "acquire", "x"]);
  assert.equal(kept().length, 1);
  for (const file of [...kept(), join(a.dir, ".git", "holdfast", "actor.json")])
    assert.equal(statSync(file).mode & 0o777, 0o600, file);
  assert.deepEqual(filesBelow(join(a.env["HOME"] ?? "", ".local")), []);
  await a.holdfast(["lock", "release", "x"]);
  assert.deepEqual(kept(), []);
});

test("every worktree is an actor of its own, and so is a copy of a clone", async () => {
  const lab = openGitLab();
  const a = lab.clone("a");
  a.git("commit", "-q", "--allow-empty", "-m", "first");
  a.git("worktree", "add", "-q", "../tree");
  cpSync(a.dir, join(lab.dir, "copy"), { recursive: true });
  const places = [a, lab.at(join(lab.dir, "tree")), lab.at(join(lab.dir, "copy"))];
  const actors: string[] = [];
  for (const place of places) actors.push(await actorOf(place, "--git=local"));
  assert.equal(new Set(actors).size, 3, actors.join());
  assert.equal(await actorOf(a), actors[0], "the same at every authority");
});

test("eight worktrees that ask at once: one gets it, the others are told who", async () => {
  const lab = openGitLab();
  const a = lab.clone("a");
  a.git("commit", "-q", "--allow-empty", "-m", "first");
  const trees = Array.from({ length: 8 }, (_, at) => {
    a.git("worktree", "add", "-q", "--detach", `../tree-${at}`);
    return lab.at(join(lab.dir, `tree-${at}`));
  });
  for (const authority of ["local", "origin"]) {
    const ended = await Promise.all(
      trees.map((tree) => tree.holdfast(["lock", "acquire", "repo:deploy", `--git=${authority}`, "--json"])),
    );
    const winners = ended.filter(({ code }) => code === 0);
    assert.equal(winners.length, 1, ended.map(({ text }) => text).join(""));
    const owner = jsonOf<Locked>(winners[0] ?? assert.fail()).data.lock.owner;
    for (const { code, stdout, text } of ended) {
      if (code === 0) continue;
      assert.equal(code, 4, text);
      assert.equal(JSON.parse(stdout).error.details.owner, owner);
    }
  }
});

test("two first commands at once are one actor", async () => {
  const a = openGitLab().clone("a");
  const ended = await Promise.all(
    Array.from({ length: 4 }, (_, at) => a.holdfast(["lock", "acquire", `n-${at}`, "--git=local", "--json"])),
  );
  assert.equal(new Set(ended.map((one) => jsonOf<Locked>(one).data.lock.owner)).size, 1);
});

describe("which authority", () => {
  const authorityOf = async (
    clone: ReturnType<ReturnType<typeof openGitLab>["clone"]>,
    ...flags: string[]
  ) => {
    const ended = await clone.holdfast(["config", "show", "--json", ...flags]);
    assert.equal(ended.code, 0, ended.text);
    const { authority } = jsonOf<{ authority: { value: string; from: string } | null }>(ended).data;
    return authority;
  };

  test("--git=NAME, else the project file, else git's configuration, else origin, else this clone", async () => {
    const lab = openGitLab();
    const a = lab.clone("a");
    a.git("remote", "add", "backup", lab.remote);
    assert.deepEqual(await authorityOf(a), {
      value: "origin",
      from: "the repository has a remote of that name",
      why: "no server is configured",
    });
    a.git("config", "holdfast.authority", "backup");
    assert.equal((await authorityOf(a))?.from, "git config holdfast.authority");
    writeFileSync(join(a.dir, ".holdfast.toml"), 'authority = "local"\n');
    assert.equal((await authorityOf(a))?.value, "local");
    assert.equal((await authorityOf(a, "--git"))?.value, "local");
    assert.equal((await authorityOf(a, "--git=backup"))?.value, "backup");
    mkdirSync(join(a.dir, "deep", "er"), { recursive: true });
    assert.equal((await authorityOf(lab.at(join(a.dir, "deep", "er"))))?.value, "local");
    a.git("init", "-q", "../plain");
    assert.equal((await authorityOf(lab.at(join(lab.dir, "plain"))))?.value, "local");
  });

  test("a server that is configured is used, and so is the usual one where there is a token", async () => {
    const a = openGitLab().clone("a");
    for (const env of [{ HOLDFAST_URL: "http://127.0.0.1:9" }, { HOLDFAST_TOKEN: "secret" }]) {
      const ended = await a.holdfast(["config", "show", "--json"], env);
      assert.equal(jsonOf<{ authority: unknown }>(ended).data.authority, null);
      const named = await a.holdfast(["lock", "acquire", `n-${Object.keys(env)}`, "--git"], env);
      assert.equal(named.code, 0, named.text);
    }
  });

  test("doctor says who decides and why, that it may be written to, and what is wrong", async () => {
    const lab = openGitLab();
    const a = lab.clone("a");
    const well = await a.holdfast(["doctor"]);
    assert.equal(well.code, 0, well.text);
    for (const text of [
      /✓ repository .*no server is configured/,
      /✓ git \d/,
      /git remote origin .*decides/,
      /✓ the remote origin answers/,
      /✓ lock references may be written/,
      /All is well/,
    ])
      assert.match(well.stdout, text);
    assert.equal(lab.at(lab.remote).git("for-each-ref"), "", "nothing is left of it");
    a.git("remote", "set-url", "origin", join(lab.dir, "nowhere"));
    const ill = await a.holdfast(["doctor"]);
    assert.equal(ill.code, 5, ill.text);
    assert.match(ill.stdout, /✗ the remote origin cannot be reached[\s\S]*→ try: git ls-remote origin/);
  });
});

test("gc ends what has expired, forgets what was long free, and keeps tokens rising", async () => {
  const a = openGitLab().clone("a");
  await a.holdfast(["lock", "acquire", "x", "--ttl", "1s"]);
  await a.holdfast(["lock", "acquire", "y", "--ttl", "30m"]);
  await eventually("x is over", async () => (await a.holderOf("x")) === null);
  const first = jsonOf(await a.holdfast(["lock", "gc", "--json"])).data;
  assert.deepEqual([first["removed"], first["kept"], first["expired"]], [0, 1, 1]);
  assert.match(
    (await a.holdfast(["lock", "gc"])).stdout,
    /^Ended 0 expired locks, removed 0 .*kept 1 that are held\n/,
  );
  const again = jsonOf<Locked>(await a.holdfast(["lock", "acquire", "x", "--json"])).data.lock;
  assert.equal(again.token, 2);
});

test("changes are told as they are seen", async () => {
  const lab = openGitLab();
  const [a, b] = [lab.clone("a"), lab.clone("b")];
  await a.holdfast(["lock", "acquire", "x"]);
  const file = join(lab.dir, "events.txt");
  const watching = b.script(`
holdfast watch --json > events.json & trap "kill $!" EXIT
until grep -q '"y"' events.json; do jq -r '[.event, .name // "-"] | join(" ")' events.json > '${file}'; sleep 0.2; done
jq -r '[.event, .name // "-"] | join(" ")' events.json
`);
  const seen = (): string => (existsSync(file) ? readFileSync(file, "utf8") : "");
  await eventually("the snapshot", () => seen().includes("synced"));
  await a.holdfast(["lock", "release", "x"]);
  await eventually("the release", () => seen().includes("released"));
  await a.holdfast(["lock", "acquire", "y"]);
  assert.equal((await watching).stdout, "snapshot x\nsynced -\nreleased x\nacquired y\n");
});

test("policy require: a commit to a path that another clone holds is refused until it is free", async () => {
  const lab = openGitLab();
  const [a, b] = [lab.clone("a"), lab.clone("b")];
  await a.holdfast(["lock", "acquire", "path:config/settings.json", "--ttl", "15m", "--reason", "new port"]);
  const commit = "git add -A && git commit -qm 'Update settings'";
  const refused = await b.script(`
holdfast guard install && echo 'lock_policy = "require"' > .holdfast.toml
mkdir config && echo {} > config/settings.json
${commit}
`);
  assert.notEqual(refused.code, 0, refused.text);
  assert.match(refused.stderr, /config\/settings\.json is held by [0-9a-f]{32}.*new port/);
  await a.holdfast(["lock", "release", "path:config/settings.json"]);
  const done = await b.script(`holdfast lock acquire path:config/settings.json && ${commit}`);
  assert.equal(done.code, 0, done.text);
});

test("a clone that was moved is the same holder, in the same session", async () => {
  const lab = openGitLab();
  const env = { HOLDFAST_SESSION: "agent-7" };
  const a = lab.clone("a");
  assert.equal((await a.holdfast(["lock", "acquire", "x"], env)).code, 0);
  renameSync(a.dir, join(lab.dir, "moved"));
  const moved = lab.at(join(lab.dir, "moved"));
  for (const verb of ["renew", "release"]) {
    const ended = await moved.holdfast(["lock", verb, "x"], env);
    assert.equal(ended.code, 0, ended.text);
  }
});
