// Remotes that are not what they seem: pushed to elsewhere than fetched from, pushed to twice, written to and not shown.
// One place decides, and it is the one that is looked at; where that cannot be, nothing is taken and the reason is said.
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { type Clone, type GitLab, openGitLab } from "./cli-git-lab.js";
import { jsonOf } from "./cli-lab.js";
import type { Ended } from "./system-program.js";

const acquire = (clone: Clone, name: string, ...args: string[]): Promise<Ended> =>
  clone.holdfast(["lock", "acquire", name, ...args]);

/** Another bare repository, as a fork of the first. */
function fork(lab: GitLab, name: string): string {
  const dir = join(lab.dir, name);
  lab.at(lab.dir).git("init", "-q", "--bare", dir);
  return dir;
}

const refsOf = (lab: GitLab, dir: string): string => lab.at(dir).git("for-each-ref", "refs/holdfast");

test("where pushes go is where locks are looked at, and doctor says so", async () => {
  const lab = openGitLab();
  const shared = fork(lab, "shared.git");
  const [a, b] = [lab.clone("a"), lab.clone("b")];
  for (const clone of [a, b]) clone.git("remote", "set-url", "--push", "origin", shared);
  assert.equal((await acquire(a, "deploy")).code, 0);
  assert.notEqual(await a.holderOf("deploy"), null, "who took it sees it");
  assert.equal(await b.holderOf("deploy"), await a.holderOf("deploy"));
  assert.equal((await acquire(b, "deploy")).code, 4);
  assert.equal(refsOf(lab, lab.remote), "");
  const said = await a.holdfast(["doctor"]);
  assert.equal(said.code, 0, said.text);
  assert.match(said.stdout, /! pushes to origin go to .*shared\.git, .*locks are decided there/);
  // The run's keeper looks there, too.
  const ran = await b.script(`holdfast run job --ttl 10s -- holdfast lock status job`);
  assert.match(ran.stdout, /^ {2}job {2}/m);
});

test("an address that is rewritten for pushes is looked at as it is pushed to", async () => {
  const lab = openGitLab();
  const a = lab.clone("a");
  a.git("remote", "set-url", "origin", join(lab.dir, "mirror.git"));
  a.git("config", `url.${lab.remote}.pushInsteadOf`, join(lab.dir, "mirror.git"));
  assert.equal((await acquire(a, "deploy")).code, 0);
  assert.notEqual(await a.holderOf("deploy"), null);
  assert.equal((await acquire(lab.clone("b"), "deploy")).code, 4);
});

test("a remote that is pushed to at two addresses decides nothing: exit code 2, nothing taken", async () => {
  const lab = openGitLab();
  const second = fork(lab, "second.git");
  const a = lab.clone("a");
  for (const address of [lab.remote, second])
    a.git("remote", "set-url", "--add", "--push", "origin", address);
  const refused = await acquire(a, "deploy", "--json");
  assert.equal(refused.code, 2, refused.text);
  assert.match(refused.stderr, /origin is pushed to at 2 addresses.*git remote add/);
  assert.equal(jsonOf(refused).ok, false);
  assert.equal((await a.holdfast(["doctor"])).code, 2);
  for (const dir of [lab.remote, second]) assert.equal(refsOf(lab, dir), "");
});
