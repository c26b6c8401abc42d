// Pushes whose answer is lost, or that never arrive, or hang: the engine finds out what became of them. Never a false
// success, never a false refusal, exactly one grant; and where nobody can know, it says so.
import assert from "node:assert/strict";
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import type { StoreError } from "../src/store/store.js";
import { isStoreError } from "./conformance.js";
import { Asker, git, gitEnv, newRemote, type OpenOptions, openAt, processesIn } from "./git-lab.js";
import { recordAt } from "./git-races.js";
import type { Fate } from "./git-ssh.js";
import { claim, scratch, seeded, until } from "./store-lab.js";

const sshFile = fileURLToPath(new URL("./git-ssh.js", import.meta.url));

class Wire {
  readonly bare: string;
  readonly #clones: readonly string[];
  readonly #fates: string[];

  constructor(readonly t: TestContext) {
    const dir = scratch(t);
    const { bare, clones } = newRemote(dir, 2);
    this.bare = bare;
    this.#clones = clones;
    this.#fates = clones.map((_, i) => join(dir, `fates-${i}`));
    for (const clone of clones) git(clone, "remote", "set-url", "origin", `ssh://there${bare}`);
    for (const i of clones.keys()) this.next(i);
  }

  /** What becomes of the next connections of this clone. `*`: of all. */
  next(clone: number, ...fates: (Fate | `${Fate}*`)[]): void {
    writeFileSync(this.#fates[clone] ?? "", fates.join("\n"));
  }

  /** While the remote has done what the clone's last push asked for, and the clone does not know. */
  async meanwhile<Value>(clone: number, body: () => Promise<Value>): Promise<Value> {
    const file = this.#fates[clone] ?? "";
    await until(() => existsSync(`${file}.done`));
    const value = await body();
    writeFileSync(`${file}.go`, "");
    this.t.after(() => rmSync(`${file}.go`, { force: true }));
    return value;
  }

  dirOf(clone: number): string {
    return this.#clones[clone] ?? "";
  }

  asker(clone: number, options: OpenOptions = {}): Asker {
    const env = {
      ...gitEnv,
      GIT_SSH_COMMAND: `'${process.execPath}' '${sshFile}' '${this.#fates[clone]}'`,
      GIT_SSH_VARIANT: "simple",
    };
    const store = openAt(this.dirOf(clone), { authority: "origin", env, ...options });
    this.t.after(() => store.close());
    return new Asker(store, `clone-${clone}`);
  }
}

for (const fate of ["lose-reply", "cut", "kill"] as const)
  for (const name of ["plain", "path:a/b"])
    test(`${fate}, ${name}: acquire, renew and release are each done once, and said to be`, async (t) => {
      const wire = new Wire(t);
      const [one, two] = [wire.asker(0), wire.asker(1)];
      await one.list();
      wire.next(0, fate);
      assert.equal(await one.acquire(name), 1);
      assert.equal(recordAt(wire.bare, name).lease?.id, one.leaseId);
      assert.equal(await two.acquire(name), "held by clone-0");
      wire.next(0, fate, fate);
      assert.equal(await one.renew(name), "renewed");
      wire.next(0, fate);
      assert.equal(await one.release(name), "released");
      assert.equal(await two.acquire(name), 2);
    });

test("the answer is lost and then the remote: it is not known, and a repeat finds the one grant", async (t) => {
  const wire = new Wire(t);
  const asker = wire.asker(0);
  await asker.list();
  const wanted = claim("deploy", { principal: "clone-0", request: { id: "r-1", fingerprint: "f" } });
  wire.next(0, "lose-reply", "away*");
  await assert.rejects(asker.leases.acquire(wanted, null), isStoreError("unknown"));
  wire.next(0);
  const again = await asker.leases.acquire(wanted, null);
  assert.ok("granted" in again && again.granted.lock.token === 1, "not a second grant");
  assert.equal(recordAt(wire.bare, "deploy").lease?.id, wanted.leaseId);
});

test("a release whose answer was lost is done, though another holds the name by the next look", async (t) => {
  const wire = new Wire(t);
  const [one, two] = [wire.asker(0), wire.asker(1)];
  assert.equal(await one.acquire("deploy"), 1);
  wire.next(0, "late-loss");
  const released = one.release("deploy");
  assert.equal(await wire.meanwhile(0, () => two.acquire("deploy")), 2);
  assert.equal(await released, "released");
  assert.equal(recordAt(wire.bare, "deploy").lease?.owner, "clone-1");
});

test("nor is it told as not done, once others had the name and nothing tells who released it", async (t) => {
  const wire = new Wire(t);
  const [one, two] = [wire.asker(0), wire.asker(1)];
  assert.equal(await one.acquire("deploy"), 1);
  wire.next(0, "late-loss");
  const released = one.release("deploy");
  released.catch(() => undefined);
  await wire.meanwhile(0, async () => {
    assert.equal(await two.acquire("deploy"), 2);
    assert.equal(await two.release("deploy"), "released");
  });
  await assert.rejects(released, isStoreError("unknown"));
});

for (const fate of ["lose-reply", "cut"] as const)
  test(`a release of what another call has released, ${fate}, is not told as done`, async (t) => {
    const wire = new Wire(t);
    const one = wire.asker(0);
    assert.equal(await one.acquire("deploy"), 1);
    const twin = wire.asker(0);
    twin.leaseId = one.leaseId;
    assert.equal(await twin.renew("deploy"), "renewed");
    await one.list();
    assert.equal(await one.release("deploy"), "released");
    wire.next(0, fate);
    assert.equal(await twin.release("deploy"), "not_current");
  });

for (const hasId of [false, true])
  test(`a grant whose answer was lost, and that is over by the next look, is not told as never made, ${hasId ? "with" : "without"} a request id`, async (t) => {
    const wire = new Wire(t);
    const [one, two] = [wire.asker(0), wire.asker(1)];
    await one.list();
    wire.next(0, "late-loss");
    const request = hasId ? { id: "r-1", fingerprint: "f" } : null;
    const wanted = claim("deploy", { principal: "clone-0", ttlMs: 1000, request });
    const asked = one.leases.acquire(wanted, null).then(
      (outcome) => ("refused" in outcome ? outcome.refused : "granted"),
      (error: StoreError) => error.kind,
    );
    const other = claim("deploy", { principal: "clone-1", leaseId: "another" });
    const waits = { ms: 20_000, gone: new AbortController().signal };
    const took = await wire.meanwhile(0, () => two.leases.acquire(other, waits));
    assert.ok("granted" in took && took.granted.lock.token === 2);
    assert.equal(await asked, hasId ? "request_spent" : "unknown");
  });

test("nor where the step that is refused then ends another lease that is over", async (t) => {
  const wire = new Wire(t);
  const [one, two] = [wire.asker(0), wire.asker(1)];
  const beside = wire.asker(0);
  await one.list();
  wire.next(0, "late-loss");
  const asked = one.acquire("path:a", 1000);
  asked.catch(() => undefined);
  await wire.meanwhile(0, async () => {
    const waits = { ms: 20_000, gone: new AbortController().signal };
    const took = await two.leases.acquire(claim("path:a", { principal: "clone-1" }), waits);
    assert.ok("granted" in took && took.granted.lock.token === 2);
    two.leaseId = took.granted.lock.lease.id;
    assert.equal(await two.release("path:a"), "released");
    // The first of the two is over before the other looks.
    assert.equal(await beside.acquire("path:a/b", 1000), 1);
    const overAt = beside.store.now() + 1000;
    assert.equal(await two.acquire("path:a/c"), 1);
    await until(() => beside.store.now() > overAt);
  });
  await assert.rejects(asked, isStoreError("unknown"));
});

test("a push that did not reach the remote took nothing, in whatever words", async (t) => {
  const wire = new Wire(t);
  const asker = wire.asker(0);
  await asker.list();
  wire.next(0, "no-connect");
  await assert.rejects(asker.acquire("deploy"), (error: Error) => {
    assert.ok(isStoreError("unavailable")(error), `${error}`);
    assert.match(error.message, /nothing was taken.*Connection timed out/);
    return true;
  });
  assert.equal(await asker.acquire("deploy"), 1);
});

test("what a connection leaves in the background keeps nobody waiting", async (t) => {
  const wire = new Wire(t);
  const timeoutMs = 20_000;
  const asker = wire.asker(0, { timeoutMs });
  t.after(() => {
    for (const { pid, args } of processesIn(wire.dirOf(0)))
      if (args.startsWith("sleep 60")) process.kill(pid);
  });
  await asker.list();
  const from = performance.now();
  wire.next(0, "linger");
  assert.equal(await asker.acquire("deploy"), 1);
  assert.ok(performance.now() - from < timeoutMs / 2, `${performance.now() - from} ms`);
});

test("a push that never arrived, and then no remote: it is not known, and nothing was taken", async (t) => {
  const wire = new Wire(t);
  const [one, two] = [wire.asker(0), wire.asker(1)];
  await one.list();
  wire.next(0, "cut", "away*");
  await assert.rejects(one.acquire("deploy"), isStoreError("unknown"));
  assert.equal(await two.acquire("deploy"), 1);
});

test("a remote that cannot be reached: certainly nothing was taken, and it says so", async (t) => {
  const wire = new Wire(t);
  const asker = wire.asker(0);
  for (const hasLooked of [false, true]) {
    if (hasLooked) {
      wire.next(0);
      await asker.list();
    }
    wire.next(0, "away*");
    await assert.rejects(asker.acquire("deploy"), (error: Error) => {
      assert.ok(isStoreError("unavailable")(error), `${error}`);
      assert.match(error.message, /nothing was taken.*No route to host/);
      return true;
    });
    await assert.rejects(asker.store.ping(), isStoreError("unavailable"));
  }
});

test("a connection that hangs ends with an answer within its time, and leaves no process", async (t) => {
  const wire = new Wire(t);
  const timeoutMs = 1500;
  const asker = wire.asker(0, { timeoutMs });
  await asker.list();
  wire.next(0, "hang");
  const from = performance.now();
  assert.equal(await asker.acquire("deploy"), 1, "it was done, and a look shows it");
  wire.next(0, "hang*");
  const hung = asker.renew("deploy").then(
    (answer) => answer,
    (error: Error) => error,
  );
  assert.equal(await hung, "renewed");
  assert.ok(performance.now() - from < 6 * timeoutMs, `${performance.now() - from} ms`);
  await asker.store.close();
  await until(() => processesIn(wire.dirOf(0)).length === 0);
});

test("any of it in any order: one holder, one grant per token, and every answer true", async (t) => {
  const seed = Math.floor(Math.random() * 2 ** 31);
  t.diagnostic(`seed ${seed}`);
  const chance = seeded(seed);
  const wire = new Wire(t);
  const all = [wire.asker(0), wire.asker(1)];
  const fates: Fate[] = ["pass", "pass", "lose-reply", "cut", "away"];
  const tokens = new Set<number>();
  let holder = null as Asker | null;
  let unknown = 0;
  for (let step = 0; step < 30; step++) {
    const i = chance(2);
    const asker = all[i];
    if (asker === undefined) throw new Error("two askers");
    wire.next(i, ...Array.from({ length: 1 + chance(3) }, () => fates[chance(fates.length)] ?? "pass"));
    const isHolder: boolean = holder === asker;
    const what: "acquire" | "renew" | "release" = isHolder ? (chance(2) ? "renew" : "release") : "acquire";
    const answer = await asker[what]("deploy").catch((error: unknown) => {
      assert.ok(isStoreError("unknown")(error) || isStoreError("unavailable")(error), `${error}`);
      return isStoreError("unknown")(error) ? "unknown" : "unavailable";
    });
    const words: string = `step ${step}: ${what} of ${asker.principal} was answered ${answer}`;
    const { lease, token } = tryRecord(wire.bare) ?? { lease: null, token: 0 };
    if (answer === "unknown") {
      // Nobody knows, so whoever is there now decides.
      unknown++;
      holder = lease === null ? null : (all.find(({ principal }) => principal === lease.owner) ?? null);
      if (holder !== null && lease !== null) holder.leaseId = lease.id;
      if (holder !== null) tokens.add(token);
    } else if (typeof answer === "number") {
      assert.equal(holder, null, words);
      assert.ok(!tokens.has(answer), `${words}: a token twice`);
      tokens.add(answer);
      assert.equal(lease?.id, asker.leaseId, words);
      holder = asker;
    } else if (answer === "released") {
      assert.ok(isHolder && lease === null, words);
      holder = null;
    } else if (answer === "renewed") assert.ok(isHolder && lease?.id === asker.leaseId, words);
    else if (answer !== "unavailable") assert.ok(!isHolder && holder !== null, words);
    else assert.equal(lease?.owner ?? null, holder?.principal ?? null, `${words}: nothing was changed`);
  }
  t.diagnostic(`${tokens.size} grants, ${unknown} unknown`);
});

function tryRecord(bare: string): ReturnType<typeof recordAt> | null {
  try {
    return recordAt(bare, "deploy");
  } catch {
    return null;
  }
}
