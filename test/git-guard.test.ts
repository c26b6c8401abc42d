// Names that overlap others change two references, the guard and the lock, and git changes one after the other. Here a
// writer is slowed down between the two, so that others look, and ask, exactly then.
import assert from "node:assert/strict";
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { Asker, git, gitEnv, newRemote, newRepository, openAt, processesIn } from "./git-lab.js";
import { scratch, until } from "./store-lab.js";

/** How long a slowed git stands between two renames, in ms: time enough for another's whole step. */
const slowMs = 1200;

/** A program that runs git with every rename slowed down, where its arguments hold the word. */
function slowGit(dir: string, word: string): string {
  mkdirSync(dir, { recursive: true });
  const file = join(dir, "git");
  const real = git(dir, "--exec-path");
  writeFileSync(
    file,
    `#!/bin/sh
case "$*" in
*${word}*) exec strace -f -qq -o /dev/null -e trace=rename -e inject=rename:delay_exit=${slowMs * 1000} ${real}/git "$@" ;;
esac
exec ${real}/git "$@"
`,
  );
  chmodSync(file, 0o755);
  return file;
}

const guardOf = (dir: string): string => {
  try {
    return readFileSync(join(dir, "refs/holdfast/guard"), "utf8");
  } catch {
    return "";
  }
};

interface Stage {
  /** Slow between guard and lock. */
  readonly slow: Asker;
  readonly other: Asker;
  readonly gitDir: string;
}

function local(t: TestContext): Stage {
  const dir = scratch(t);
  const clone = newRepository(join(dir, "clone"));
  slowGit(join(dir, "bin"), "update-ref");
  const env = { ...gitEnv, PATH: `${join(dir, "bin")}:${gitEnv["PATH"]}` };
  const stores = [openAt(clone, { env }), openAt(clone)] as const;
  t.after(() => Promise.all(stores.map((store) => store.close())));
  return {
    slow: new Asker(stores[0], "slow"),
    other: new Asker(stores[1], "other"),
    gitDir: join(clone, ".git"),
  };
}

function remote(t: TestContext): Stage {
  const dir = scratch(t);
  const { bare, clones } = newRemote(dir, 2);
  const [one = "", two = ""] = clones;
  // The receiving side is slow, and only for one of the two.
  const program = slowGit(join(dir, "bin"), "receive-pack");
  git(one, "config", "remote.origin.receivepack", `${program} receive-pack`);
  const stores = [openAt(one, { authority: "origin" }), openAt(two, { authority: "origin" })] as const;
  t.after(() => Promise.all(stores.map((store) => store.close())));
  return { slow: new Asker(stores[0], "slow"), other: new Asker(stores[1], "other"), gitDir: bare };
}

for (const [where, stage] of [
  ["a clone", local],
  ["a remote", remote],
] as const) {
  test(`${where}: who looks between the guard and the lock of another's grant does not pass it by`, async (t) => {
    const { slow, other, gitDir } = stage(t);
    // A name of each kind is there before, so that the references exist; the guard is one that others know.
    await other.acquire("path:elsewhere");
    const before = guardOf(gitDir);
    const granted = slow.acquire("path:a/b");
    await until(() => guardOf(gitDir) !== before);
    const answers = await Promise.all([other.acquire("path:a"), granted]);
    assert.deepEqual(
      answers.filter((answer) => typeof answer === "number").length,
      1,
      `exactly one of two overlapping grants: ${answers}`,
    );
    const held = await other.list("path:a");
    assert.equal(held.length, 1, held.join());
  });

  test(`${where}: a name beside a grant on its way waits for it, and is granted`, async (t) => {
    const { slow, other, gitDir } = stage(t);
    await other.acquire("path:elsewhere");
    const before = guardOf(gitDir);
    const granted = slow.acquire("path:a/b");
    await until(() => guardOf(gitDir) !== before);
    assert.equal(typeof (await other.acquire("path:c")), "number");
    assert.equal(typeof (await granted), "number");
    assert.equal((await other.list("path:")).length, 3);
  });
}

test("a writer that is ended between the two blocks nobody, and its grant never arrives", async (t) => {
  const { slow, other, gitDir } = local(t);
  await other.acquire("path:elsewhere");
  const before = guardOf(gitDir);
  const granted = slow.acquire("path:a/b");
  await until(() => guardOf(gitDir) !== before);
  // git itself, not what slows it: it takes its lock files away on this signal, and not the guard.
  const [writer] = processesIn(join(gitDir, "..")).filter(({ args }) => /^\S*\/git .*update-ref/.test(args));
  assert.ok(writer);
  process.kill(writer.pid, "SIGTERM");
  const answers = await Promise.all([other.acquire("path:a"), granted]);
  // The slow one tries again, so either may be first; neither may wait for what never comes.
  assert.equal(answers.filter((answer) => typeof answer === "number").length, 1, `${answers}`);
  assert.equal((await other.list("path:a")).length, 1);
});
