// The contract of a Store as tests, the same for every engine, over two handles on the same data. What an engine
// alone promises (durability, recovery, its clock) is tested beside it; the feed's half is in conformance-feed.ts.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Decide, Range } from "../src/core/decision.js";
import { afterPrefix, type Key, lockKey, sortable, tokenKey } from "../src/core/keys.js";
import { roundsMax } from "../src/core/limits.js";
import type { LockRecord } from "../src/core/records.js";
import { type Store, StoreError } from "../src/store/store.js";
import { feedConformance } from "./conformance-feed.js";
import {
  bump,
  drafting,
  everything,
  free,
  get,
  held,
  marker,
  put,
  putLock,
  putMarker,
  space,
  tokenOf,
} from "./store-lab.js";

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
const tokens = (prefix = "", limit = 128): Range => {
  const from = `${space}/${prefix}`;
  return { index: "token", from, to: afterPrefix(from), limit };
};

/** The sort strings in a range, without the space. */
async function sorts(store: Store, range: Range): Promise<string[]> {
  const rows = await store.transact(
    [],
    drafting((draft) => draft.range(range)),
  );
  return rows.map((row) => row.sort.slice(space.length + 1));
}

export function conformance(name: string, open: OpenHandles): void {
  describe(`${name} keeps the contract of a store`, () => {
    const on = (what: string, body: (one: Store, two: Store) => Promise<void>) =>
      test(what, onHandles(open, body));
    steps(on);
    conflicts(on);
    indexEntries(on);
    bounds(on);
    feedConformance(open);
  });
}

type On = (what: string, body: (one: Store, two: Store) => Promise<void>) => void;

function steps(on: On): void {
  on("what one handle wrote, the other reads as soon as the write has resolved", async (one, two) => {
    for (let i = 1; i <= 20; i++) {
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
    await putMarker(one, marker("m", "m"));
    const others = times(50, () => bump(two, "a"));
    const twice = await one.transact(
      [key("a"), tokenKey("m")],
      drafting((draft) => {
        const first = [draft.get(key("a")), draft.range(tokens()), draft.now];
        return [first, [draft.get(key("a")), draft.range(tokens()), draft.now]] as const;
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
    for (const [i, link] of chain.entries())
      await putMarker(one, { ...marker(link, link), createdBy: chain[i + 1] ?? "end" });
    await putLock(one, held("x", 7));
    let asked = 0;
    const last = await two.transact([tokenKey("link-0")], (view) => {
      let at = "link-0";
      for (;;) {
        const record = view.get(tokenKey(at));
        if (record === undefined) {
          asked++;
          return { need: [tokenKey(at), key("x")] };
        }
        if (record === null || record.createdBy === "end") break;
        at = record.createdBy;
      }
      return { reply: `${at} ${view.get(key("x"))?.token ?? "unasked"}`, writes: [], events: [] };
    });
    assert.match(last, new RegExp(`^link-${roundsMax - 1} (7|unasked)$`));
    assert.ok(asked < roundsMax);
  });

  on("records and ranges can be asked for at once", async (one, two) => {
    await putMarker(one, marker("m", "m"));
    await putLock(one, held("x", 7));
    const found = await two.transact([], (view) => {
      const record = view.get(key("x"));
      const rows = view.range(tokens());
      if (record === undefined || rows === undefined) return { need: [key("x"), tokens()] };
      return { reply: [record?.token, rows.map((row) => row.key)], writes: [], events: [] };
    });
    assert.deepEqual(found, [7, [tokenKey("m")]]);
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

function conflicts(on: On): void {
  on("concurrent increments over two handles lose nothing and repeat nothing", async (one, two) => {
    const replies = await Promise.all(times(200, (i) => bump(i % 2 ? one : two, "counter")));
    assert.deepEqual(
      replies.toSorted((a, b) => a - b),
      times(200, (i) => i + 1),
    );
    assert.equal(await tokenOf(one, "counter"), 200);
  });

  on("a step that began after another had resolved comes after it", async (one, two) => {
    let last = 0;
    const runners = times(8, async (runner) => {
      for (let i = 0; i < 20; i++) {
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
        [tokenKey(id)],
        drafting((draft) => {
          draft.get(tokenKey(id));
          if (draft.range(tokens()).length > 0) return false;
          draft.put(tokenKey(id), marker(id, id));
          return true;
        }),
      );
    for (let round = 0; round < 5; round++) {
      const won = await Promise.all(times(20, (i) => claim(i % 2 ? one : two, `${round}-${i}`)));
      assert.equal(won.filter(Boolean).length, 1);
      const [row] = await sorts(one, tokens());
      await put(two, tokenKey(row ?? ""), null);
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
    for (let round = 0; round < 20; round++) {
      const [a, b] = [`a${round}`, `b${round}`];
      const won = await Promise.all([claim(one, a, b), claim(two, b, a)]);
      assert.equal(won.filter(Boolean).length, 1);
    }
  });
}

function indexEntries(on: On): void {
  on("a range comes in order, from its start up to but not including its end", async (one, two) => {
    const names = ["b", "a", "aa", "a/b", "a-b", "a.b", "c", "~", "Z", "0", "a b", "a!", "b/"];
    for (const name of names) await putMarker(one, marker(name, name));
    const ordered = names.toSorted();
    assert.deepEqual(await sorts(two, tokens()), ordered);
    for (const from of ordered)
      for (const to of ordered)
        assert.deepEqual(
          await sorts(two, { index: "token", from: `${space}/${from}`, to: `${space}/${to}`, limit: 128 }),
          ordered.filter((name) => name >= from && name < to),
          `from ${from} to ${to}`,
        );
    for (const limit of [1, 2, names.length - 1, names.length, names.length + 1])
      assert.deepEqual(await sorts(two, tokens("", limit)), ordered.slice(0, limit));
    assert.deepEqual(await sorts(two, tokens("a/")), ["a/b"]);
  });

  on("an index entry comes, moves and goes with its record, and indexes stay apart", async (one, two) => {
    await putLock(one, held("a", 1));
    assert.deepEqual(
      [...(await everything(two)).keys()],
      [`held/${space}/a`, `due/4000000000000/lock/${space}/a`].map(padded),
    );
    await putLock(two, held("a", 1, { dueAt: 5 }));
    assert.deepEqual(
      [...(await everything(one)).keys()],
      [`held/${space}/a`, `due/5/lock/${space}/a`].map(padded),
    );
    await putLock(one, free("a", 1));
    assert.deepEqual([...(await everything(two)).keys()], [`gc/4000000000000/lock/${space}/a`].map(padded));
    await put(two, key("a"), null);
    assert.deepEqual([...(await everything(one)).keys()], []);
    await putLock(one, held("a", 2));
    assert.equal((await everything(two)).get(`held/${space}/a`)?.kind, "lock");
  });

  on("one step may drop an entry and give it to another record", async (one, two) => {
    await putMarker(one, marker("old", "same"));
    await two.transact(
      [tokenKey("old"), tokenKey("new")],
      drafting((draft) => {
        for (const id of ["old", "new"]) draft.get(tokenKey(id));
        draft.put(tokenKey("old"), null);
        draft.put(tokenKey("new"), marker("new", "same"));
      }),
    );
    const rows = await one.list(tokens());
    assert.deepEqual(
      rows.map(({ record }) => record.kind === "token" && record.id),
      ["new"],
    );
  });

  on("deleted entries do not use up a limit", async (one, two) => {
    const ids = times(60, (i) => `m-${String(i).padStart(3, "0")}`);
    await Promise.all(ids.map((id) => putMarker(one, marker(id, id))));
    const gone = ids.filter((_, i) => i % 3 !== 0);
    await Promise.all(gone.map((id) => put(two, tokenKey(id), null)));
    const left = ids.filter((id) => !gone.includes(id));
    for (const limit of [1, 5, 19, 20, 21])
      assert.deepEqual(await sorts(one, tokens("m-", limit)), left.slice(0, limit));
    await Promise.all(gone.slice(0, 10).map((id) => putMarker(one, marker(id, id))));
    const now = [...left, ...gone.slice(0, 10)].toSorted();
    assert.deepEqual(await sorts(two, tokens("m-")), now);
    assert.deepEqual(await sorts(two, tokens("m-", 7)), now.slice(0, 7));
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
      assert.deepEqual(await get(i % 2 ? two : one, key(name)), held(name, i + 1));
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
    assert.equal((await everything(two)).size, 2 * names.length);
    for (const name of names) await put(one, key(name), null);
    assert.equal((await everything(two)).size, 0);
  });

  on("list brings records in order, page after page, none twice", async (one, two) => {
    const ids = times(157, (i) => `m-${String(i).padStart(3, "0")}`);
    await Promise.all(ids.map((id, i) => putMarker(i % 2 ? one : two, marker(id, id))));
    for (const pageSize of [1, 10, 157, 200]) {
      const found: string[] = [];
      for (let from = `${space}/`; ; ) {
        const page = await two.list({ ...tokens(), from, limit: pageSize });
        assert.ok(page.length <= pageSize);
        for (const { record } of page) if (record.kind === "token") found.push(record.id);
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

function bounds(on: On): void {
  on("time is in whole milliseconds and never goes back", async (one, two) => {
    let last = 0;
    for (let i = 0; i < 200; i++) {
      const store = i % 2 ? one : two;
      const now =
        i % 3
          ? store.now()
          : await store.transact([], (view) => ({ reply: view.now, writes: [], events: [] }));
      assert.ok(Number.isSafeInteger(now) && now >= last, `${now} after ${last}`);
      last = now;
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
    await assert.rejects(one.list(tokens()), isStoreError("closed"));
    await assert.rejects(one.ping(), isStoreError("closed"));
    await assert.rejects(one.head(), isStoreError("closed"));
    const later = one.changes(head, new AbortController().signal)[Symbol.asyncIterator]();
    await assert.rejects(later.next(), isStoreError("closed"));
    await one.close();
  });

  on("what resolved before a close stays, what did not is refused for certain", async (one, two) => {
    const sent = times(50, (i) =>
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
