// What a lock costs in processes and connections, counted from git's own trace; overlapping names from several clones at
// once; and what is left when a store is closed.
import assert from "node:assert/strict";
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { overlaps } from "../src/core/names.js";
import { monotonicMs } from "./git-child.js";
import { Asker, gitEnv, newRemote, newRepository, openAt, processesIn } from "./git-lab.js";
import { GitChild } from "./git-process.js";
import { scratch, seeded, until } from "./store-lab.js";

/** What git was started for, by us and not by itself. */
class Trace {
  readonly #file: string;
  readonly env: NodeJS.ProcessEnv;

  constructor(dir: string) {
    this.#file = join(dir, "trace");
    this.env = { ...gitEnv, GIT_TRACE2_EVENT: this.#file };
  }

  /** The commands since the last call, as `push`, `ls-remote`, `fetch`. */
  take(): string[] {
    let text = "";
    try {
      text = readFileSync(this.#file, "utf8");
    } catch {
      // nothing was started
    }
    rmSync(this.#file, { force: true });
    return text
      .split("\n")
      .filter((line) => line.includes('"event":"start"'))
      .map((line) => JSON.parse(line) as { sid: string; argv: string[] })
      .filter(({ sid }) => !sid.includes("/"))
      .map(
        ({ argv }) =>
          argv.slice(1).find((word, i, words) => !/^-|=/.test(word) && words[i - 1] !== "-c") ?? "",
      );
  }
}

function traced(t: TestContext): { mine: Asker; other: Asker; trace: Trace; again: () => Asker } {
  const dir = scratch(t);
  const { clones } = newRemote(dir, 2);
  const trace = new Trace(dir);
  const open = (i: number, env: NodeJS.ProcessEnv): Asker => {
    const store = openAt(clones[i] ?? "", { authority: "origin", env });
    t.after(() => store.close());
    return new Asker(store, `clone-${i}`);
  };
  return {
    mine: open(0, trace.env),
    other: open(1, gitEnv),
    trace,
    again: () => open(0, trace.env),
  };
}

const connections = (commands: readonly string[]): string[] =>
  commands.filter((command) => ["push", "ls-remote", "fetch"].includes(command));

test("a plain name is one push, and no look when the last one is recent, also in the next process", async (t) => {
  const { mine, other, trace, again } = traced(t);
  await mine.list();
  trace.take();
  assert.equal(await mine.acquire("a"), 1);
  assert.deepEqual(connections(trace.take()), ["push"]);
  assert.equal(await mine.renew("a"), "renewed");
  assert.deepEqual(connections(trace.take()), ["push"]);
  assert.equal(await mine.release("a"), "released");
  assert.deepEqual(connections(trace.take()), ["push"]);
  const next = again();
  assert.equal(await next.acquire("a"), 2);
  assert.deepEqual(trace.take(), ["hash-object", "push"], "nothing else is started");
  // What another did is found out by losing: one look, and its record is fetched.
  await other.acquire("b");
  assert.equal(await next.acquire("b"), "held by clone-1");
  assert.deepEqual(connections(trace.take()), ["push", "ls-remote", "fetch"]);
});

test("a path is one push when nobody took an overlapping kind since, else one fetch more", async (t) => {
  const { mine, other, trace } = traced(t);
  await mine.list();
  trace.take();
  assert.equal(await mine.acquire("path:a"), 1);
  assert.deepEqual(connections(trace.take()), ["push"]);
  assert.equal(await mine.acquire("path:b"), 1);
  assert.deepEqual(connections(trace.take()), ["push"]);
  await other.acquire("plain");
  assert.equal(await mine.acquire("path:c"), 1);
  assert.deepEqual(connections(trace.take()), ["push"], "a plain name is none of its business");
  assert.equal(await other.acquire("path:d"), 1);
  assert.equal(await mine.acquire("path:e"), 1);
  assert.deepEqual(connections(trace.take()), ["push", "ls-remote", "fetch", "push"]);
});

test("in a clone, a process that lives on starts git a few times and not again for every lock", async (t) => {
  const dir = scratch(t);
  const trace = new Trace(dir);
  const store = openAt(newRepository(join(dir, "clone")), { env: trace.env });
  const asker = new Asker(store, "one");
  for (let i = 0; i < 50; i++) {
    assert.equal(await asker.acquire("a"), i + 1);
    assert.equal(await asker.release("a"), "released");
  }
  await store.close();
  const started = trace.take();
  assert.ok(started.length <= 8, started.join(" "));
});

test("a thousand locks: a look reads them once, and one more lock does not cost a thousand", async (t) => {
  const dir = scratch(t);
  const store = openAt(newRepository(join(dir, "clone")));
  t.after(() => store.close());
  const asker = new Asker(store, "one");
  for (let i = 0; i < 1000; i++) await asker.acquire(`n-${i}`);
  const timed = async (body: () => Promise<unknown>): Promise<number> => {
    const from = performance.now();
    await body();
    return performance.now() - from;
  };
  const plainMs = await timed(() => asker.acquire("one-more"));
  const pathMs = await timed(() => asker.acquire("path:one-more"));
  const listMs = await timed(async () => assert.equal((await asker.list()).length, 1002));
  const other = new Asker(openAt(join(dir, "clone")), "two");
  const coldMs = await timed(() => other.list());
  await other.store.close();
  t.diagnostic(`plain ${plainMs} ms, path ${pathMs} ms, list ${listMs} ms, of a new process ${coldMs} ms`);
  assert.ok(plainMs < 500 && pathMs < 2000 && listMs < 5000 && coldMs < 5000);
});

test("names that overlap, from several clones at once: never two holders", async (t) => {
  const seed = Math.floor(Math.random() * 2 ** 31);
  t.diagnostic(`seed ${seed}`);
  const chance = seeded(seed);
  const names = ["path:a", "path:a/b", "repo:global", "repo:x", "path:a/b/c", "path:z"];
  const { clones } = newRemote(scratch(t), 4);
  const racers = await Promise.all(clones.map((dir, i) => GitChild.start(dir, "origin", `clone-${i}`)));
  for (let round = 0; round < 12; round++) {
    const at = monotonicMs() + 25;
    const asked = racers.map(() => names[chance(names.length)] ?? "");
    const answers = await Promise.all(
      racers.map((racer, i) => racer.ask({ what: "acquire", name: asked[i] ?? "", at })),
    );
    const won = asked.filter((_, i) => typeof answers[i]?.answer === "number");
    const words = `round ${round}: ${asked.map((name, i) => `${name} ${answers[i]?.answer ?? answers[i]?.message}`)}`;
    assert.ok(won.length > 0, words);
    for (const [i, one] of won.entries())
      for (const other of won.slice(i + 1)) assert.ok(!overlaps(one, other), words);
    for (const { error } of answers) assert.equal(error, undefined, words);
    await Promise.all(
      racers.map((racer, i) =>
        typeof answers[i]?.answer === "number" ? racer.ask({ what: "release", name: asked[i] ?? "" }) : null,
      ),
    );
  }
  await Promise.all(racers.map((racer) => racer.end()));
});

test("a closed store leaves no process, and one that has nothing to do keeps nobody alive", async (t) => {
  const dir = scratch(t);
  const clone = newRepository(join(dir, "clone"));
  const store = openAt(clone);
  const asker = new Asker(store, "one");
  const over = new AbortController();
  const following = store.changes(undefined, over.signal)[Symbol.asyncIterator]().next();
  for (let i = 0; i < 5; i++) await asker.acquire(`n-${i}`);
  await following;
  const waiting = assert.rejects(
    store.changes(undefined, over.signal)[Symbol.asyncIterator]().next(),
    /closed/,
  );
  assert.ok(processesIn(clone).length > 0, "some stand by");
  await store.close();
  await waiting;
  await until(() => processesIn(clone).length === 0, 3000);
  over.abort();
  // Not closed, and nothing to do: it ends by itself, and what stood by ends with it.
  const child = await GitChild.start(clone, "local", "idle");
  for (let i = 0; i < 5; i++) await child.ask({ what: "acquire", name: `m-${i}` });
  const from = performance.now();
  await child.end();
  assert.ok(performance.now() - from < 3000, "nothing keeps it alive");
  await until(() => processesIn(clone).length === 0, 3000);
});
