// Cleaning up: what was free for long enough goes, by compare-and-swap, and no token ever comes again; not for those
// either who have not looked since. Time is moved by the clock that the store is given.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { policyDefault } from "../src/core/limits.js";
import { type MachineClock, machineClock } from "../src/engines/git/machine-clock.js";
import { Asker, git, newClone, newRemote, openAt } from "./git-lab.js";
import { scratch, space, until } from "./store-lab.js";

const hourMs = 3_600_000;

/** The machine's clock, that a test may turn on for all who have it. */
class TurnedClock implements MachineClock {
  readonly #machine = machineClock();
  aheadMs = 0;
  readonly boot = this.#machine.boot;
  readonly now = (): number => this.#machine.now() + this.aheadMs;
  readonly wall = (): number => this.#machine.wall() + this.aheadMs;
}

interface Stage {
  readonly one: Asker;
  readonly two: Asker;
  readonly clock: TurnedClock;
  readonly refs: () => string[];
  readonly late: () => Asker;
}

function stage(t: TestContext, authority: string): Stage {
  const dir = scratch(t);
  const { bare, clones } = newRemote(dir, 2);
  const [first = "", second = ""] = clones;
  const clock = new TurnedClock();
  const open = (at: string, name: string): Asker => {
    // A floor need not stand for seconds here: nothing stands still between two looks.
    const store = openAt(at, { authority, clock, lookTrustedMs: 50 });
    t.after(() => store.close());
    return new Asker(store, name);
  };
  const deciding = authority === "local" ? first : bare;
  return {
    one: open(first, "one"),
    two: open(authority === "local" ? first : second, "two"),
    clock,
    refs: () => git(deciding, "for-each-ref", "refs/holdfast/locks").split("\n").filter(Boolean),
    late: () => open(authority === "local" ? first : newClone(bare, `${dir}/late`), "late"),
  };
}

for (const authority of ["local", "origin"]) {
  test(`old free records go, young and held ones stay, tokens go on, ${authority}`, async (t) => {
    const { one, two, clock, refs, late } = stage(t, authority);
    for (const name of ["old", "path:old", "held"])
      for (let i = 1; i <= 3; i++) {
        assert.equal(await one.acquire(name, 48 * hourMs), i);
        if (name !== "held" || i < 3) assert.equal(await one.release(name), "released");
      }
    await two.list();
    clock.aheadMs += 25 * hourMs;
    assert.equal(await one.acquire("young"), 1);
    assert.equal(await one.release("young"), "released");
    assert.equal(refs().length, 4);
    assert.deepEqual(await one.leases.clean(space), { settled: 0, removed: 2 });
    assert.equal(refs().length, 2, "what is held, and what was freed just now");
    assert.deepEqual(await one.leases.clean(space), { settled: 0, removed: 0 });
    // One who looked before, one who did the cleaning, and one who was never here.
    assert.equal(await two.acquire("old"), 4);
    assert.equal(await one.acquire("path:old"), 4);
    assert.ok(Number(await late().acquire("new")) > 3, "the floor holds for every name");
  });

  test(`what was made, freed and removed since another's last look does not begin again, ${authority}`, async (t) => {
    const { one, two, clock } = stage(t, authority);
    await two.list();
    for (let i = 1; i <= 3; i++) {
      assert.equal(await one.acquire("brief"), i);
      assert.equal(await one.release("brief"), "released");
    }
    clock.aheadMs += 25 * hourMs;
    assert.deepEqual(await one.leases.clean(space), { settled: 0, removed: 1 });
    assert.equal(await two.acquire("brief"), 4);
  });

  test(`a lease that is over is settled first, and counts from then, ${authority}`, async (t) => {
    const { one, two, clock, refs } = stage(t, authority);
    assert.equal(await one.acquire("over", 60_000), 1);
    await two.list();
    clock.aheadMs += 30 * hourMs;
    assert.deepEqual(await two.list(), [], "it is over");
    assert.deepEqual(await two.leases.clean(space), { settled: 1, removed: 0 });
    assert.equal(refs().length, 1);
    clock.aheadMs += 25 * hourMs;
    assert.deepEqual(await two.leases.clean(space), { settled: 0, removed: 1 });
    assert.equal(await one.renew("over"), "not_current");
    assert.equal(await one.acquire("over"), 2);
  });

  test(`what was removed is not made again by those who take names like it, ${authority}`, async (t) => {
    const { one, clock, refs } = stage(t, authority);
    assert.equal(await one.acquire("path:gone"), 1);
    assert.equal(await one.release("path:gone"), "released");
    clock.aheadMs += 25 * hourMs;
    assert.deepEqual(await one.leases.clean(space), { settled: 0, removed: 1 });
    assert.equal(await one.acquire("path:next"), 2);
    assert.equal(refs().length, 1);
  });

  test(`cleaning beside those who take the same names: no token twice, ${authority}`, async (t) => {
    const { one, two, clock } = stage(t, authority);
    const policy = { ...policyDefault, recordRetentionMs: 0 };
    const asker = new Asker(two.store, "two", policy);
    let last = 0;
    for (let round = 0; round < 10; round++) {
      clock.aheadMs += 2 * hourMs;
      const [answer] = await Promise.all([asker.acquire("busy"), one.leases.clean(space)]);
      assert.ok(typeof answer === "number" && answer > last, `round ${round}: ${answer} after ${last}`);
      last = answer;
      assert.equal(await asker.release("busy"), "released");
    }
  });
}

test("a look that a clean-up goes through, between the floor and the locks, lets no token come again", async (t) => {
  const { clones } = newRemote(scratch(t), 2);
  const [first = "", second = ""] = clones;
  // It stops where it would open the directory of locks, and has read the guard, which lies above it.
  const dir = "refs/holdfast/locks/";
  const spelt = [dir, `./${dir}`].flatMap((name) => ["-P", name]).join(" ");
  const program = join(second, "..", "upload-pack");
  const stopping = `strace -f -o ${program}.trace ${spelt} -e trace=openat -e inject=openat:signal=STOP:when=1`;
  writeFileSync(
    program,
    `#!/bin/sh\nif rm "$0.stop" 2>/dev/null; then exec ${stopping} git-upload-pack "$@"; fi\nexec git-upload-pack "$@"\n`,
    { mode: 0o755 },
  );
  git(second, "config", "remote.origin.uploadpack", program);
  const clock = new TurnedClock();
  const [one, two] = [first, second].map((at) => {
    const store = openAt(at, { authority: "origin", clock, lookTrustedMs: 200 });
    t.after(() => store.close());
    return new Asker(store, at);
  }) as [Asker, Asker];
  assert.equal(await one.acquire("path:other", 48 * hourMs), 1);
  for (let i = 1; i <= 3; i++) {
    assert.equal(await one.acquire("brief"), i);
    assert.equal(await one.release("brief"), "released");
  }
  // It has the records; what it knows of the references is too old by then.
  await two.list();
  clock.aheadMs += 25 * hourMs;
  writeFileSync(`${program}.stop`, "");
  const granted = two.acquire("brief");
  const stopped = () => /^(\d+) +--- stopped by SIGSTOP/m.exec(tryRead(`${program}.trace`))?.[1];
  await until(() => stopped() !== undefined);
  assert.deepEqual(await one.leases.clean(space), { settled: 0, removed: 1 });
  process.kill(Number(stopped()), "SIGCONT");
  assert.equal(await granted, 4);
});

function tryRead(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}

test("a remote that became another one: what is known of the old one does not count", async (t) => {
  const [dir, elsewhere] = [scratch(t), scratch(t)];
  const [clone = ""] = newRemote(dir, 1).clones;
  const other = newRemote(elsewhere, 1);
  const clock = new TurnedClock();
  const asker = (at: string): Asker => {
    const store = openAt(at, { authority: "origin", clock, lookTrustedMs: 50 });
    t.after(() => store.close());
    return new Asker(store, "one");
  };
  // There the name was granted before, and forgotten: only the floor remembers.
  const there = asker(other.clones[0] ?? "");
  for (let i = 1; i <= 3; i++) {
    assert.equal(await there.acquire("deploy"), i);
    assert.equal(await there.release("deploy"), "released");
  }
  clock.aheadMs += 25 * hourMs;
  assert.deepEqual(await there.leases.clean(space), { settled: 0, removed: 1 });
  await asker(clone).list();
  git(clone, "remote", "set-url", "origin", other.bare);
  assert.equal(await asker(clone).acquire("deploy"), 4);
});
