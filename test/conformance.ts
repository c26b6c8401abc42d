// The contract of a Store as tests, the same for every engine, over two handles on the same data. What an engine
// alone promises (durability, recovery, its clock) is tested beside it; the feed's half is in conformance-feed.ts.
// An engine that by its stated facts cannot do something leaves those tests out by name, each with its reason.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Decide, Range } from "../src/core/decision.js";
import { afterPrefix, type Key, lockKey, sortable } from "../src/core/keys.js";
import { roundsMax } from "../src/core/limits.js";
import type { AnyRecord, LockRecord } from "../src/core/records.js";
import { type Store, StoreError } from "../src/store/store.js";
import { Choice, type Differences } from "./conformance-choice.js";
import { feedConformance } from "./conformance-feed.js";
import { lockMarks, type Marks, tokenMarks } from "./conformance-marks.js";
import { bump, drafting, everything, free, get, held, put, putLock, space, tokenOf } from "./store-lab.js";

export interface Handles {
  readonly one: Store;
  readonly two: Store;
  close(): Promise<void>;
}

export type OpenHandles = () => Promise<Handles>;

/** Runs `body` on fresh data. */
export const onHandles = (open: OpenHandles, body: (one: Store, two: Store) => Promise<void>) => async () => {
  const handles = await open();
  try {
    await body(handles.one, handles.two);
  } finally {
    await handles.close();
  }
};

export const isStoreError =
  (kind: StoreError["kind"]) =>
  (error: unknown): boolean =>
    error instanceof StoreError && error.kind === kind && error.message.length > 10;

const key = (name: string): Key<LockRecord> => lockKey(space, name);
const times = <T>(count: number, make: (i: number) => T): T[] =>
  Array.from({ length: count }, (_, i) => make(i));

/** An instant that is told anew at every look may bring the same entry on two pages. */
const unique = (entries: readonly string[]): string[] => [...new Set(entries)];

/** The sort strings in a range, without what all of them begin with. */
async function sorts(store: Store, { start }: Marks, range: Range): Promise<string[]> {
  const rows = await store.transact(
    [],
    drafting((draft) => draft.range(range)),
  );
  return rows.map((row) => row.sort.slice(start.length));
}

export function conformance(name: string, open: OpenHandles, differences: Differences = {}): void {
  describe(`${name} keeps the contract of a store`, () => {
    const choice = new Choice(differences);
    const on: On = (what, body) => choice.offer(what, () => void test(what, onHandles(open, body)));
    const suite: Suite = {
      on,
      marks: differences.keepsOnlyLocks ? lockMarks : tokenMarks,
      many: (count) => Math.max(Math.min(count, 8), Math.ceil(count * (differences.effort ?? 1))),
      timeless: differences.translatesClocks ? withoutInstants : (value) => value,
    };
    steps(suite);
    conflicts(suite);
    indexEntries(suite);
    bounds(suite);
    feedConformance(open, choice, suite.marks, suite.many);
    choice.tellWhatIsLeftOut(name);
  });
}

type On = (what: string, body: (one: Store, two: Store) => Promise<void>) => void;

interface Suite {
  readonly on: On;
  readonly marks: Marks;
  /** How often something is done that others do `count` times. */
  readonly many: (count: number) => number;
  readonly timeless: <Value>(value: Value) => Value;
}

/** Instants of a record and in sort strings, as none. */
function withoutInstants<Value>(value: Value): Value {
  if (typeof value === "string") return value.replace(/^(due|gc)\/\d+\//, "$1/-/") as Value;
  return JSON.parse(
    JSON.stringify(value, (name, part) =>
      /^(since|at|.*At)$/.test(name) && typeof part === "number" ? Math.sign(part) : part,
    ),
  );
}

function steps({ on, marks, many }: Suite): void {
  on("what one handle wrote, the other reads as soon as the write has resolved", async (one, two) => {
    for (let i = 1; i <= many(20); i++) {
      assert.equal(await bump(i % 2 ? one : two, "a"), i);
      assert.equal(await tokenOf(i % 2 ? two : one, "a"), i);
    }
    assert.equal(await get(one, key("never")), null);
  });

  on("all writes of a decision appear together", async (one, two) => {
    const both = (store: Store): Promise<void> =>
      store.transact(
        [key("a"), key("b")],
        drafting((draft) => {
          const token = (draft.get(key("a"))?.token ?? 0) + 1;
          draft.put(key("a"), held("a", token));
          draft.put(key("b"), held("b", token));
        }),
      );
    const look = (store: Store): Promise<readonly [number, number]> =>
      store.transact(
        [key("b"), key("a")],
        drafting((draft) => [draft.get(key("b"))?.token ?? 0, draft.get(key("a"))?.token ?? 0] as const),
      );
    const seen = await Promise.all(
      times(200, async (i) => {
        await both(i % 2 ? one : two);
        return look(i % 2 ? two : one);
      }),
    );
    for (const [b, a] of seen) assert.equal(b, a);
    assert.equal(await tokenOf(two, "b"), 200);
  });

  on("a decision sees one state however often it looks", async (one, two) => {
    await marks.put(one, "m");
    const others = times(many(50), () => bump(two, "a"));
    const twice = await one.transact(
      [key("a"), marks.key("m")],
      drafting((draft) => {
        const look = () => [draft.get(key("a")), draft.range(marks.range()), draft.now];
        return [look(), look()] as const;
      }),
    );
    assert.deepEqual(twice[0], twice[1]);
    await Promise.all(others);
  });

  on("an exception in a decision rejects with itself and writes nothing", async (one, two) => {
    await bump(one, "a");
    const bug = new Error("a bug in a rule");
    let promise: Promise<unknown> | undefined;
    assert.doesNotThrow(() => {
      promise = one.transact([key("a")], () => {
        throw bug;
      });
    }, "a store rejects; it never throws at once");
    await assert.rejects(promise ?? Promise.resolve(), (error) => error === bug);
    assert.equal(await tokenOf(two, "a"), 1);
    assert.equal(await bump(two, "a"), 2);
  });

  on("a request that was cancelled before it began does nothing", async (one, two) => {
    let calls = 0;
    const decide: Decide<void> = (view) => {
      calls++;
      return drafting((draft) => draft.put(key("a"), held("a", 1)))(view);
    };
    await assert.rejects(one.transact([key("a")], decide, AbortSignal.abort()), isStoreError("unavailable"));
    assert.equal(calls, 0);
    assert.equal(await tokenOf(two, "a"), 0);
  });

  on("a request that is cancelled on its way either happened or certainly did not", async (one, two) => {
    for (let round = 0; round < 10; round++) {
      const before = await tokenOf(two, "a");
      const abort = new AbortController();
      const pending = bump(one, "a", abort.signal);
      abort.abort();
      const done = await pending.then(
        () => true,
        (error) => assert.ok(isStoreError("unavailable")(error)),
      );
      assert.equal(await tokenOf(two, "a"), done === true ? before + 1 : before);
    }
  });

  on("a decision may ask for more, round after round", async (one, two) => {
    const chain = times(roundsMax, (i) => `link-${i}`);
    for (const [i, link] of chain.entries()) await marks.put(one, link, chain[i + 1] ?? "end");
    await putLock(one, held("x", 7));
    let asked = 0;
    const last = await two.transact([marks.key("link-0")], (view) => {
      let at = "link-0";
      for (;;) {
        const record = view.get<AnyRecord>(marks.key(at));
        if (record === undefined) {
          asked++;
          return { need: [marks.key(at), key("x")] };
        }
        const note = record === null ? "end" : marks.noteOf(record);
        if (note === "end") break;
        at = note;
      }
      return { reply: `${at} ${view.get(key("x"))?.token ?? "unasked"}`, writes: [], events: [] };
    });
    assert.match(last, new RegExp(`^link-${roundsMax - 1} (7|unasked)$`));
    assert.ok(asked < roundsMax);
  });

  on("records and ranges can be asked for at once", async (one, two) => {
    await marks.put(one, "m");
    await putLock(one, held("x", 7));
    const found = await two.transact([], (view) => {
      const record = view.get(key("x"));
      const rows = view.range(marks.range());
      if (record === undefined || rows === undefined) return { need: [key("x"), marks.range()] };
      return { reply: [record?.token, rows.map((row) => row.key)], writes: [], events: [] };
    });
    assert.deepEqual(found, [7, [marks.key("m")]]);
  });

  on("a decision that never has enough is refused and writes nothing", async (one, two) => {
    let calls = 0;
    const endless: Decide<void> = () => ({ need: [key(`more-${calls++}`)] });
    await assert.rejects(one.transact([key("a")], endless), isStoreError("unsupported"));
    assert.ok(calls <= roundsMax);
    assert.equal((await everything(two)).size, 0);
  });

  on("a record can be deleted and come back; the last of several writes counts", async (one, two) => {
    await putLock(one, held("a", 1));
    await put(two, key("a"), null);
    assert.equal(await get(one, key("a")), null);
    await putLock(one, held("a", 2));
    assert.equal(await tokenOf(two, "a"), 2);
    await one.transact([key("a")], () => ({
      reply: undefined,
      events: [],
      writes: [3, 4].map((token) => ({ key: key("a"), record: held("a", token), drop: [], add: [] })),
    }));
    assert.equal(await tokenOf(two, "a"), 4);
  });
}

function conflicts({ on, marks, many }: Suite): void {
  on("concurrent increments over two handles lose nothing and repeat nothing", async (one, two) => {
    const count = many(200);
    const replies = await Promise.all(times(count, (i) => bump(i % 2 ? one : two, "counter")));
    assert.deepEqual(
      replies.toSorted((a, b) => a - b),
      times(count, (i) => i + 1),
    );
    assert.equal(await tokenOf(one, "counter"), count);
  });

  on("a step that began after another had resolved comes after it", async (one, two) => {
    let last = 0;
    const runners = times(8, async (runner) => {
      for (let i = 0; i < many(160) / 8; i++) {
        const before = last;
        const token = await bump((runner + i) % 2 ? one : two, "clock");
        assert.ok(token > before, `${token} after ${before}`);
        last = Math.max(last, token);
      }
    });
    await Promise.all(runners);
  });

  on("a range that was read is guarded against what others insert", async (one, two) => {
    const claim = (store: Store, id: string): Promise<boolean> =>
      store.transact(
        [marks.key(id)],
        drafting((draft) => {
          draft.get(marks.key(id));
          if (draft.range(marks.range()).length > 0) return false;
          draft.put(marks.key(id), marks.record(id));
          return true;
        }),
      );
    for (let round = 0; round < 5; round++) {
      const won = await Promise.all(times(20, (i) => claim(i % 2 ? one : two, `${round}-${i}`)));
      assert.equal(won.filter(Boolean).length, 1);
      const [row] = await sorts(one, marks, marks.range());
      await put(two, marks.key(row ?? ""), null);
    }
  });

  on("two steps that read both names and write one each do not both go through", async (one, two) => {
    const claim = (store: Store, mine: string, other: string): Promise<boolean> =>
      store.transact(
        [key(mine), key(other)],
        drafting((draft) => {
          if (draft.get(key(mine)) !== null || draft.get(key(other)) !== null) return false;
          draft.put(key(mine), held(mine, 1));
          return true;
        }),
      );
    for (let round = 0; round < many(20); round++) {
      const [a, b] = [`${marks.guarded}a${round}`, `${marks.guarded}b${round}`];
      const won = await Promise.all([claim(one, a, b), claim(two, b, a)]);
      assert.equal(won.filter(Boolean).length, 1);
    }
  });
}

function indexEntries({ on, marks, many, timeless }: Suite): void {
  on("a range comes in order, from its start up to but not including its end", async (one, two) => {
    const names = ["b", "a", "aa", "a/b", "a-b", "a.b", "c", "~", "Z", "0", "a b", "a!", "b/"];
    for (const name of names) await marks.put(one, name);
    const ordered = names.toSorted();
    const found = (range: Range) => sorts(two, marks, range);
    assert.deepEqual(await found(marks.range()), ordered);
    const some = ordered.slice(0, many(ordered.length));
    for (const from of some)
      for (const to of some)
        assert.deepEqual(
          await found({ ...marks.range(), from: marks.start + from, to: marks.start + to }),
          ordered.filter((name) => name >= from && name < to),
          `from ${from} to ${to}`,
        );
    for (const limit of [1, 2, names.length - 1, names.length, names.length + 1])
      assert.deepEqual(await found(marks.range("", limit)), ordered.slice(0, limit));
    assert.deepEqual(await found(marks.range("a/")), ["a/b"]);
  });

  on("an index entry comes, moves and goes with its record, and indexes stay apart", async (one, two) => {
    const entries = async (store: Store) => unique([...(await everything(store)).keys()].map(timeless));
    const expected = (...names: string[]) => names.map(padded).map(timeless);
    await putLock(one, held("a", 1));
    const standing = [`held/${space}/a`, `due/4000000000000/lock/${space}/a`];
    assert.deepEqual(await entries(two), expected(...standing));
    await putLock(two, held("a", 1, { dueAt: 5 }));
    assert.deepEqual(await entries(one), expected(`held/${space}/a`, `due/5/lock/${space}/a`));
    await putLock(one, free("a", 1));
    assert.deepEqual(await entries(two), expected(`gc/4000000000000/lock/${space}/a`));
    await put(two, key("a"), null);
    assert.deepEqual(await entries(one), []);
    await putLock(one, held("a", 2));
    assert.equal((await everything(two)).get(`held/${space}/a`)?.kind, "lock");
  });

  on("one step may drop an entry and give it to another record", async (one, two) => {
    await put(one, marks.key("old"), marks.record("old", "", "same"));
    await two.transact(
      [marks.key("old"), marks.key("new")],
      drafting((draft) => {
        for (const id of ["old", "new"]) draft.get(marks.key(id));
        draft.put(marks.key("old"), null);
        draft.put(marks.key("new"), marks.record("new", "", "same"));
      }),
    );
    const rows = await one.list(marks.range());
    assert.deepEqual(
      rows.map(({ record }) => marks.idOf(record)),
      ["new"],
    );
  });

  on("deleted entries do not use up a limit", async (one, two) => {
    const ids = times(many(60), (i) => `m-${String(i).padStart(3, "0")}`);
    await Promise.all(ids.map((id) => marks.put(one, id)));
    const gone = ids.filter((_, i) => i % 3 !== 0);
    await Promise.all(gone.map((id) => put(two, marks.key(id), null)));
    const left = ids.filter((id) => !gone.includes(id));
    for (const limit of [1, left.length - 1, left.length, left.length + 1])
      assert.deepEqual(await sorts(one, marks, marks.range("m-", limit)), left.slice(0, limit));
    await Promise.all(gone.slice(0, 10).map((id) => marks.put(one, id)));
    const now = [...left, ...gone.slice(0, 10)].toSorted();
    assert.deepEqual(await sorts(two, marks, marks.range("m-")), now);
    assert.deepEqual(await sorts(two, marks, marks.range("m-", 7)), now.slice(0, 7));
  });

  on("odd names are names like others", async (one, two) => {
    const names = [
      "path:100%.txt",
      "path:100%25.txt",
      "path:%",
      "path:größe/ü",
      "path:日本/語",
      "path:日本",
      "path:🙂",
      'path:"quoted" \\ back',
      "path:it's",
      `path:${"x".repeat(251)}`,
      `path:${"é".repeat(125)}x`,
      `path:${"%".repeat(251)}`,
      "a:b@c+d-e_f.g/h",
    ];
    for (const [i, name] of names.entries()) await putLock(i % 2 ? one : two, held(name, i + 1));
    for (const [i, name] of names.entries())
      assert.deepEqual(timeless(await get(i % 2 ? two : one, key(name))), timeless(held(name, i + 1)));
    const from = `${space}/path:日本`;
    const below = await one.list({
      index: "held",
      from: sortable(from),
      to: afterPrefix(sortable(from)),
      limit: 9,
    });
    assert.deepEqual(below.map(({ record }) => record.kind === "lock" && record.name).toSorted(), [
      "path:日本",
      "path:日本/語",
    ]);
    assert.equal(unique([...(await everything(two)).keys()].map(timeless)).length, 2 * names.length);
    for (const name of names) await put(one, key(name), null);
    assert.equal((await everything(two)).size, 0);
  });

  on("list brings records in order, page after page, none twice", async (one, two) => {
    const ids = times(many(157), (i) => `m-${String(i).padStart(3, "0")}`);
    await Promise.all(ids.map((id, i) => marks.put(i % 2 ? one : two, id)));
    for (const pageSize of [1, 10, ids.length, ids.length + 43]) {
      const found: string[] = [];
      for (let { from } = marks.range(); ; ) {
        const page = await two.list({ ...marks.range(), from, limit: pageSize });
        assert.ok(page.length <= pageSize);
        found.push(...page.map(({ record }) => marks.idOf(record)));
        const last = page.at(-1);
        if (last === undefined) break;
        from = `${last.sort}\u0000`;
      }
      assert.deepEqual(found, ids, `pages of ${pageSize}`);
    }
  });
}

/** Instants in sort strings have a fixed width. */
const padded = (entry: string): string =>
  entry.replace(/^(due|gc)\/(\d+)\//, (_, index, at) => `${index}/${String(at).padStart(16, "0")}/`);

function bounds({ on, marks, many }: Suite): void {
  on("time is in whole milliseconds and never goes back", async (one, two) => {
    const latest = new Map<Store, number>();
    for (let i = 0; i < many(200); i++) {
      const store = i % 2 ? one : two;
      // Handles of a cluster hear of the time one after the other.
      const teller = store.facts.order === "cluster" ? store : one;
      const last = latest.get(teller) ?? 0;
      const now =
        i % 3
          ? store.now()
          : await store.transact([], (view) => ({ reply: view.now, writes: [], events: [] }));
      assert.ok(Number.isSafeInteger(now) && now >= last, `${now} after ${last}`);
      latest.set(teller, now);
    }
  });

  on("a store tells what it is and that it is well", async (one, two) => {
    for (const store of [one, two]) {
      await store.ping();
      const { engine, location, order, keysMax } = store.facts;
      assert.ok(
        engine.length > 0 && location.length > 0 && ["node", "cluster"].includes(order) && keysMax > 0,
      );
      for (const [gauge, value] of Object.entries(await store.gauges()))
        assert.ok(Number.isFinite(value), gauge);
    }
  });

  on("a closed handle refuses everything, and closing twice is harmless", async (one) => {
    await bump(one, "a");
    const head = await one.head();
    const waiting = one.changes(undefined, new AbortController().signal)[Symbol.asyncIterator]().next();
    const followerEnds = assert.rejects(waiting, isStoreError("closed"));
    await one.close();
    await followerEnds;
    await assert.rejects(bump(one, "a"), isStoreError("closed"));
    await assert.rejects(one.list(marks.range()), isStoreError("closed"));
    await assert.rejects(one.ping(), isStoreError("closed"));
    await assert.rejects(one.head(), isStoreError("closed"));
    const later = one.changes(head, new AbortController().signal)[Symbol.asyncIterator]();
    await assert.rejects(later.next(), isStoreError("closed"));
    await one.close();
  });

  on("what resolved before a close stays, what did not is refused for certain", async (one, two) => {
    const sent = times(many(50), (i) =>
      bump(one, `n-${i}`).then(
        () => true,
        (error) => assert.ok(isStoreError("closed")(error)),
      ),
    );
    await Promise.all([one.close(), ...sent]);
    const done = await Promise.all(sent);
    if (two !== one)
      for (const [i, ok] of done.entries()) assert.equal(await tokenOf(two, `n-${i}`), ok === true ? 1 : 0);
  });
}
