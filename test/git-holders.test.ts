// One holder after the other, from clone to clone: given back, or lost to a kill -9 and taken over, whatever the wall
// clocks say; and processes that are killed at any moment while others go on.
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { refOfLock } from "../src/engines/git/key-refs.js";
import { type Lived, monotonicMs } from "./git-child.js";
import { Asker, git, newRemote, newRepository, openAt } from "./git-lab.js";
import { GitChild } from "./git-process.js";
import { scratch, seeded, space, until } from "./store-lab.js";
import { wallClock } from "./system-wall-clock.js";

/** What a busy machine may add to a measured time, in ms. */
const slackMs = 6000;
/** What another machine's contender adds to a short lease, in ms. */
const marginMs = 2000;

function askers(t: TestContext): { one: Asker; two: Asker; clones: readonly string[]; bare: string } {
  const { clones, bare } = newRemote(scratch(t), 2);
  const [one, two] = clones.map(
    (dir, i) => new Asker(openAt(dir, { authority: "origin" }), `clone-${i + 1}`),
  );
  assert.ok(one && two);
  t.after(() => Promise.all([one.store.close(), two.store.close()]));
  return { one, two, clones, bare };
}

/** Asks again and again until it is granted; how long that took from the first sight, in ms. */
async function takeover(ask: () => Promise<unknown>, seenAt: number): Promise<number> {
  for (;;) {
    if (typeof (await ask()) === "number") return monotonicMs() - seenAt;
    assert.ok(monotonicMs() - seenAt < 60_000, "nobody takes it over");
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

test("what one clone holds the other sees, is refused, and gets after it was given back", async (t) => {
  const { one, two } = askers(t);
  assert.equal(await one.acquire("deploy"), 1);
  assert.deepEqual(await two.list(), ["deploy clone-1 1"]);
  assert.equal(await two.acquire("deploy"), "held by clone-1");
  assert.equal(await two.release("deploy"), "not_current", "nobody gives back what another holds");
  assert.equal(await one.renew("deploy"), "renewed");
  assert.equal(await one.release("deploy"), "released");
  assert.deepEqual(await two.list(), []);
  assert.equal(await two.acquire("deploy"), 2);
  assert.equal(await one.acquire("deploy"), "held by clone-2");
});

test("who ends an old lease in the same step is not refused for one that was given back before it asked", async (t) => {
  const { one, two } = askers(t);
  const ttlMs = 1000;
  assert.equal(await one.acquire("path:a/b", ttlMs), 1);
  const overAt = monotonicMs() + ttlMs;
  assert.equal(await two.acquire("path:a/c"), 1);
  assert.deepEqual(await one.list(), ["path:a/b clone-1 1", "path:a/c clone-2 1"]);
  assert.equal(await two.release("path:a/c"), "released");
  await until(() => monotonicMs() > overAt);
  assert.equal(await one.acquire("path:a"), 1);
});

test("a killed holder's lock is taken over after TTL and margin, and its late calls change nothing", async (t) => {
  const { one, two, clones, bare } = askers(t);
  const ttlMs = 1000;
  const holder = await GitChild.start(clones[0] ?? "", "origin", "clone-1");
  const { answer, leaseId = "" } = await holder.ask({ what: "acquire", name: "deploy", ttlMs });
  assert.equal(answer, 1);
  await holder.kill();
  const seenAt = monotonicMs();
  assert.equal(await two.acquire("deploy"), "held by clone-1");
  const tookMs = await takeover(() => two.acquire("deploy"), seenAt);
  assert.ok(tookMs >= ttlMs + marginMs, `taken over after ${tookMs} ms`);
  assert.ok(tookMs < ttlMs + marginMs + slackMs, `taken over after ${tookMs} ms`);
  assert.equal(two.token, 2);
  const ref = refOfLock({ space, name: "deploy" });
  const standing = git(bare, "rev-parse", ref);
  one.leaseId = leaseId;
  assert.equal(await one.renew("deploy"), "not_current");
  assert.equal(await one.release("deploy"), "not_current");
  assert.equal(git(bare, "rev-parse", ref), standing);
  assert.deepEqual(await one.list(), ["deploy clone-2 2"]);
});

test("wall clocks ten minutes apart: nobody takes over early, whichever is ahead", async (t) => {
  const { clones } = newRemote(scratch(t), 2);
  const ttlMs = 1500;
  const ahead = wallClock();
  ahead.step(600_000);
  const [right, fast] = await Promise.all([
    GitChild.start(clones[0] ?? "", "origin", "right"),
    GitChild.start(clones[1] ?? "", "origin", "fast", ahead.env),
  ]);
  const rows: [string, GitChild, GitChild][] = [
    ["held-by-right", right, fast],
    ["held-by-fast", fast, right],
  ];
  for (const [name, holder, other] of rows) {
    const from = monotonicMs();
    assert.equal((await holder.ask({ what: "acquire", name, ttlMs })).answer, 1);
    const tookMs = await takeover(
      async () => (await other.ask({ what: "acquire", name, ttlMs: 60_000 })).answer,
      from,
    );
    assert.ok(tookMs >= ttlMs + marginMs, `${name}: taken over after ${tookMs} ms`);
    assert.ok(tookMs < ttlMs + marginMs + slackMs, `${name}: taken over after ${tookMs} ms`);
  }
  // A renewal counts anew, though both clocks disagree on when it was. On a busy machine a push takes a second.
  const name = "renewed";
  const longMs = 5000;
  assert.equal((await fast.ask({ what: "acquire", name, ttlMs: longMs })).answer, 1);
  assert.match(String((await right.ask({ what: "acquire", name })).answer), /^held/);
  await new Promise((resolve) => setTimeout(resolve, longMs * 0.3));
  const renewedAt = monotonicMs();
  assert.equal((await fast.ask({ what: "renew", name })).answer, "renewed");
  const tookMs = await takeover(async () => (await right.ask({ what: "acquire", name })).answer, renewedAt);
  assert.ok(tookMs >= longMs + marginMs, `${name}: taken over ${tookMs} ms after its renewal`);
  await Promise.all([right.end(), fast.end()]);
});

interface Held {
  readonly name: string;
  readonly token: number;
  readonly principal: string;
  readonly askedAt: number;
  readonly grantedAt: number;
  /** Until then nobody else may be granted it. */
  untilAt: number;
}

/** What processes said of their lives, against the rules: one holder at a time, tokens that rise. */
function judge(lives: readonly (Lived & { principal: string })[], ttlMs: number): Held[] {
  const holds = new Map<string, Held>();
  for (const { what, name, token, principal, from, to } of lives) {
    const id = `${name} ${token}`;
    const hold = holds.get(id);
    if (what === "granted") {
      assert.equal(hold, undefined, `token ${token} of ${name} was granted twice`);
      holds.set(id, { name, token, principal, askedAt: from, grantedAt: to, untilAt: from + ttlMs });
    } else if (hold !== undefined && what === "renewed") hold.untilAt = Math.max(hold.untilAt, from + ttlMs);
    else if (hold !== undefined && what === "releasing") hold.untilAt = Math.min(hold.untilAt, from);
  }
  const all = [...holds.values()].toSorted((a, b) => a.grantedAt - b.grantedAt);
  for (const one of all)
    for (const other of all) {
      if (one === other || one.name !== other.name || one.token > other.token) continue;
      const words = `${one.name}: ${one.token} of ${one.principal}, ${other.token} of ${other.principal}`;
      assert.ok(other.grantedAt > one.untilAt, `${words}: granted ${one.untilAt - other.grantedAt} ms early`);
      assert.ok(one.askedAt < other.grantedAt, `${words}: a later grant has the lower token`);
    }
  return all;
}

for (const [where, authority, kills] of [
  ["in one clone", "local", 12],
  ["in clones of one remote", "origin", 8],
] as const)
  test(`kill -9 at any moment, ${where}: one holder at a time, tokens rise, the next goes on`, async (t) => {
    const seed = Math.floor(Math.random() * 2 ** 31);
    t.diagnostic(`seed ${seed}`);
    const chance = seeded(seed);
    const ttlMs = 1000;
    const names = ["n-0", "path:a", "path:a/b", "n-1"];
    const clone = authority === "local" ? newRepository(`${scratch(t)}/clone`) : "";
    const dirs = authority === "local" ? [clone, clone, clone] : newRemote(scratch(t), 3).clones;
    const lives: (Lived & { principal: string })[] = [];
    const failures: string[] = [];
    let born = 0;
    const begin = async (dir: string): Promise<GitChild> => {
      const child = await GitChild.start(dir, authority, `life-${born++}`);
      child.order({ what: "live", names, ttlMs, seed: chance(2 ** 31) });
      void (async () => {
        for (;;) {
          const line = await child.next<Lived>();
          if (line === null) return;
          if (line.what === "failed") failures.push(line.message ?? "");
          lives.push({ ...line, principal: child.principal });
        }
      })();
      return child;
    };
    const living = await Promise.all(dirs.map(begin));
    for (let kill = 0; kill < kills; kill++) {
      await new Promise((resolve) => setTimeout(resolve, 200 + chance(600)));
      const at = chance(living.length);
      await living[at]?.kill();
      living[at] = await begin(dirs[at] ?? "");
    }
    const before = lives.filter(({ what }) => what === "granted").length;
    // No state of the killed stands in the way of those who come after.
    const deadline = monotonicMs() + 30_000;
    const fresh = (): number => lives.filter(({ what }) => what === "granted").length - before;
    while (fresh() < 8) {
      assert.ok(monotonicMs() < deadline, `${fresh()} grants after the last kill: ${failures.slice(-3)}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    await Promise.all(living.map((child) => child.kill()));
    const holds = judge(lives, ttlMs);
    t.diagnostic(`${holds.length} grants, ${kills} kills, ${failures.length} failures ${failures[0] ?? ""}`);
    assert.deepEqual(failures, [], "nothing fails because another was killed");
    const overlapping = holds.filter(({ name }) => name.startsWith("path:"));
    for (const one of overlapping)
      for (const other of overlapping)
        assert.ok(
          one === other || one.grantedAt > other.untilAt || other.grantedAt > one.untilAt,
          `${one.name} of ${one.principal} and ${other.name} of ${other.principal} at once`,
        );
  });
