// The contract of a Store's change feed: every event once, in order, resumable, or the word `reset`.
import assert from "node:assert/strict";
import { test } from "node:test";
import { lockKey } from "../src/core/keys.js";
import type { Change, Store } from "../src/store/store.js";
import { type OpenHandles, onHandles } from "./conformance.js";
import type { Choice } from "./conformance-choice.js";
import type { Marks } from "./conformance-marks.js";
import { bump, follow, get, take, told } from "./store-lab.js";

type Body = (one: Store, two: Store, signal: AbortSignal) => Promise<void>;

export function feedConformance(
  open: OpenHandles,
  choice: Choice,
  marks: Marks,
  many: (count: number) => number,
): void {
  const on: On = (what, body) =>
    choice.offer(`feed: ${what}`, () => {
      test(`feed: ${what}`, async () => {
        const over = new AbortController();
        try {
          await onHandles(open, (one, two) => body(one, two, over.signal))();
        } finally {
          over.abort();
        }
      });
    });
  const tellAll = async (store: Store, words: readonly string[]): Promise<void> => {
    for (const word of words) await marks.tell(store, word);
  };
  following(on, marks, many);
  leaving(on, marks, tellAll);
  resuming(on, marks, tellAll);
}

type On = (what: string, body: Body) => void;
type TellAll = (store: Store, words: readonly string[]) => Promise<void>;

function following(on: On, { tell }: Marks, many: (count: number) => number): void {
  on("from now on means from the call", async (one, two, signal) => {
    await tell(one, "before");
    const changes = follow(two, undefined, signal);
    await tell(one, "after");
    await tell(two, "later");
    const first = await take(changes, 1);
    const isEarly = told(first[0] as Change) === "before";
    assert.ok(!isEarly || two.facts.order === "cluster", "only where others write may it begin earlier");
    const words = [...(isEarly ? [] : first), ...(await take(changes, isEarly ? 2 : 1))].map(told);
    assert.deepEqual(words, ["after", "later"]);
  });

  on("a follower that waits is woken by either handle", async (one, two, signal) => {
    const changes = follow(one, undefined, signal);
    for (const [i, store] of [one, two, two, one].entries()) {
      const next = changes.next();
      await tell(store, `word-${i}`);
      const { value } = await next;
      assert.equal(told(value as Change), `word-${i}`);
    }
  });

  on(
    "followers on both handles see every event once, in the order of the steps",
    async (one, two, signal) => {
      const count = 3 * many(100);
      const followers = [one, two].map((store) => take(follow(store, undefined, signal), count));
      await Promise.all(Array.from({ length: count }, (_, i) => bump(i % 2 ? one : two, `n${i % 3}`)));
      const [seen = [], other = []] = await Promise.all(followers);
      assert.deepEqual(seen, other);
      for (const name of ["n0", "n1", "n2"]) {
        const own = seen.map(told).filter((word) => word.startsWith(name));
        assert.deepEqual(
          own,
          Array.from({ length: count / 3 }, (_, i) => `${name}=${i + 1}`),
        );
      }
      assert.equal(new Set(seen.map((change) => change.cursor)).size, count);
    },
  );

  on(
    "events of one step keep their order, and an event is told only when its write can be read",
    async (one, two, signal) => {
      const changes = follow(two, undefined, signal);
      const words = ["c", "a", "b"];
      await one.transact([], () => ({
        reply: undefined,
        writes: [],
        events: words.map((id) => ({ type: "token", space: "default", id })),
      }));
      assert.deepEqual((await take(changes, 3)).map(told), words);
      const pending = changes.next();
      const written = bump(one, "n");
      assert.equal(told((await pending).value as Change), "n=1");
      assert.equal((await get(two, lockKey("default", "n")))?.token, 1);
      await written;
    },
  );

  on("a step that failed tells nothing", async (one, two, signal) => {
    const changes = follow(two, await two.head(), signal);
    const bug = one.transact([], () => {
      throw new Error("a bug in a rule");
    });
    await assert.rejects(bug);
    await assert.rejects(bump(one, "n", AbortSignal.abort()));
    await tell(one, "done");
    assert.deepEqual((await take(changes, 1)).map(told), ["done"]);
  });
}

function leaving(on: On, { tell }: Marks, tellAll: TellAll): void {
  on("abort ends a follower, whether it waits or not", async (one, two) => {
    const early = new AbortController();
    const waiting = follow(one, undefined, early.signal);
    const next = waiting.next();
    early.abort();
    assert.equal((await next).done, true);
    const head = await two.head();
    await tellAll(two, ["a", "b", "c"]);
    const late = new AbortController();
    const reading = follow(two, head, late.signal);
    assert.equal(told((await reading.next()).value as Change), "a");
    late.abort();
    assert.equal((await reading.next()).done, true);
    assert.equal((await follow(two, head, AbortSignal.abort()).next()).done, true);
  });

  on("a consumer that leaves ends its follower", async (one, two, signal) => {
    await tell(one, "seen");
    const head = await two.head();
    await tellAll(two, ["a", "b"]);
    for await (const change of two.changes(head, signal)) {
      assert.equal(told(change), "a");
      break;
    }
    await tell(one, "c");
  });
}

function resuming(on: On, { tell }: Marks, tellAll: TellAll): void {
  on("resuming after any cursor gives exactly the rest", async (one, two, signal) => {
    const start = await one.head();
    const words = Array.from({ length: 40 }, (_, i) => `word-${i}`);
    await Promise.all([tellAll(one, words.slice(0, 20))]);
    await tellAll(two, words.slice(20));
    const all = await take(follow(one, start, signal), 40);
    assert.deepEqual(all.map(told), words);
    for (const i of [0, 1, 19, 20, 38]) {
      const rest = await take(follow(two, all[i]?.cursor, signal), 39 - i);
      assert.deepEqual(rest, all.slice(i + 1));
    }
  });

  on("the head is the place after everything that has resolved", async (one, two, signal) => {
    await tellAll(one, ["a", "b"]);
    const head = await two.head();
    assert.equal(await one.head(), head);
    const changes = follow(one, head, signal);
    await tell(two, "c");
    const [change] = await take(changes, 1);
    assert.equal(change && told(change), "c");
    assert.equal(await two.head(), change?.cursor);
  });

  on("a cursor that is not known gets `reset`, then what comes", async (one, two, signal) => {
    await tellAll(one, ["a", "b"]);
    const head = await one.head();
    const [epoch = "", number = ""] = head.split("-");
    const unknown = [
      "",
      "x",
      "0",
      "nonsense-1",
      // Numbers need not be without gaps: a place that none has by the end of this test.
      `${epoch}-${Number(number) + 1e9}`,
      `${epoch}-`,
      `x${epoch}-1`,
      `${head}\n`,
    ];
    unknown.push(`${epoch}--1`, `${epoch}-1e3`, `${epoch}-${"9".repeat(30)}`, "💥");
    for (const [i, cursor] of unknown.entries()) {
      const changes = follow(two, cursor, signal);
      assert.deepEqual(
        await take(changes, 1),
        [{ cursor: await two.head(), reset: true }],
        JSON.stringify(cursor),
      );
      await tell(one, `next-${i}`);
      assert.deepEqual((await take(changes, 1)).map(told), [`next-${i}`]);
    }
  });

  on("two followers at different places do not disturb each other", async (one, two, signal) => {
    const start = await one.head();
    await tellAll(one, ["a", "b"]);
    const behind = follow(one, start, signal);
    const ahead = follow(two, undefined, signal);
    assert.deepEqual((await take(behind, 1)).map(told), ["a"]);
    await tell(two, "c");
    const words = (await take(ahead, 1)).map(told);
    // Where others write, what was told shortly before may come first.
    while (two.facts.order === "cluster" && words.at(-1) !== "c")
      words.push(...(await take(ahead, 1)).map(told));
    assert.deepEqual(words, ["a", "b", "c"].slice(-words.length));
    assert.deepEqual((await take(behind, 2)).map(told), ["b", "c"]);
  });
}
