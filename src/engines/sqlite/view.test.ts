import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import fc from "fast-check";
import { marker, scratch } from "../../../test/store-lab.js";
import type { Range, Write } from "../../core/decision.js";
import { tokenKey } from "../../core/keys.js";
import { Ordered } from "../../store/ordered.js";
import { Backlog } from "./backlog.js";
import { openDatabase } from "./binding.js";
import { checksum } from "./checksum.js";
import { fromLines, parseLine, toLines } from "./lines.js";
import { Reader } from "./reader.js";
import { prepareSchema } from "./schema.js";
import { LayeredView, ReadCache } from "./view.js";

const sorts = ["a", "a!", "a/b", "aa", "ab", "b", "b%25", "c", "c~", "d"];
const range = (from: string, to: string, limit: number): Range => ({ index: "token", from, to, limit });

/** The engine without its threads: batches go into the log's backlog and the recent layer, slices into the file. */
class Layers {
  readonly path: string;
  readonly database;
  readonly reader: Reader;
  readonly recent = new Ordered();
  readonly cache = new ReadCache(3);
  backlog = new Backlog(0);
  log: { seq: number; writes: string }[] = [];
  lastSeq = 0;
  appliedSeq = 0;

  constructor(dir: string) {
    this.path = join(dir, "layers.db");
    this.database = openDatabase(this.path);
    this.database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF");
    prepareSchema(this.database, this.path);
    this.reader = new Reader(this.path);
  }

  get view(): LayeredView {
    return new LayeredView(0, this.recent, this.cache, this.reader);
  }

  commit(writes: readonly Write[]): void {
    const seq = ++this.lastSeq;
    const lines = toLines(writes);
    this.recent.apply(writes, seq);
    for (const { key } of writes) this.cache.delete(key);
    this.backlog.add(seq, lines);
    this.log.push({ seq, writes: lines });
  }

  /** Moves some keys into the file; the main thread hears of it now or, as over a thread's port, later. */
  apply(keys: number, hear: boolean): void {
    this.database.exec("BEGIN");
    for (const [key, value] of this.backlog.take(keys))
      if (value === null) this.database.prepare("DELETE FROM tree WHERE key = ?").run(key);
      else
        this.database
          .prepare("INSERT OR REPLACE INTO tree VALUES (?, ?, ?)")
          .run(key, value, checksum(key, value));
    this.database.exec("COMMIT");
    this.appliedSeq = this.backlog.appliedSeq;
    this.log = this.log.filter(({ seq }) => seq > this.appliedSeq);
    if (hear) this.hear();
  }

  hear(): void {
    this.reader.refresh();
    this.recent.forgetEntries(this.appliedSeq);
    this.recent.forgetRecords(this.appliedSeq, 2);
  }

  /** As after a crash: memory is made anew from the log. */
  recover(): void {
    this.reader.refresh();
    this.recent.clear();
    this.cache.clear();
    this.backlog = new Backlog(this.appliedSeq);
    for (const { seq, writes } of this.log) {
      this.backlog.add(seq, writes);
      for (const [key, value] of fromLines(writes)) this.recent.ingest(parseLine(key, value), seq);
    }
  }

  empty(): void {
    this.reader.refresh();
    this.database.exec("DELETE FROM tree");
    this.backlog = new Backlog(0);
    this.log = [];
    this.recent.clear();
    this.cache.clear();
    this.lastSeq = 0;
    this.appliedSeq = 0;
  }

  close(): void {
    this.reader.close();
    this.database.close();
  }
}

type Step =
  | {
      readonly do: "write";
      readonly changes: readonly { readonly sort: string; readonly owner: number | null }[];
    }
  | { readonly do: "apply"; readonly keys: number; readonly hear: boolean }
  | { readonly do: "recover" }
  | { readonly do: "look"; readonly from: string; readonly to: string; readonly limit: number };

const sort = fc.constantFrom(...sorts);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant("write" as const),
      changes: fc.array(fc.record({ sort, owner: fc.option(fc.integer({ min: 0, max: 2 })) }), {
        minLength: 1,
        maxLength: 4,
      }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant("apply" as const),
      keys: fc.integer({ min: 1, max: 12 }),
      hear: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("recover" as const) }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("look" as const),
      from: fc.oneof(
        fc.constant(""),
        sort,
        sort.map((text) => `${text}\0`),
      ),
      to: fc.oneof(sort, fc.constant("\x7f")),
      limit: fc.integer({ min: 0, max: 12 }),
    }),
  },
);

test("memory over file shows what was written, however far the file is behind", (t) => {
  const layers = new Layers(scratch(t));
  t.after(() => layers.close());
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      layers.empty();
      const model = new Map<string, string>();
      for (const one of steps) run(layers, model, one);
      look(layers, model, "", "\x7f", 100);
      for (const name of sorts)
        for (const owner of [0, 1, 2]) {
          const id = `${name}-${owner}`;
          assert.equal(layers.view.get(tokenKey(id)) === null, model.get(name) !== id, id);
        }
    }),
    { numRuns: 300 },
  );
});

function run(layers: Layers, model: Map<string, string>, one: Step): void {
  if (one.do === "write") {
    const writes: Write[] = [];
    for (const { sort: name, owner } of one.changes) {
      const entry = { index: "token" as const, sort: name };
      const had = model.get(name);
      if (had !== undefined) writes.push({ key: tokenKey(had), record: null, drop: [entry], add: [] });
      model.delete(name);
      if (owner === null) continue;
      const id = `${name}-${owner}`;
      writes.push({ key: tokenKey(id), record: marker(id, name), drop: [], add: [entry] });
      model.set(name, id);
    }
    layers.commit(writes);
  } else if (one.do === "apply") layers.apply(one.keys, one.hear);
  else if (one.do === "recover") layers.recover();
  else look(layers, model, one.from, one.to, one.limit);
}

function look(layers: Layers, model: Map<string, string>, from: string, to: string, limit: number): void {
  const expected = [...model.keys()]
    .filter((name) => name >= from && name < to)
    .toSorted()
    .slice(0, limit);
  assert.deepEqual(
    layers.view.range(range(from, to, limit)),
    expected.map((name) => ({ sort: name, key: tokenKey(model.get(name) ?? "") })),
  );
}

test("an answer knows the newest batch that it rests on, also when that batch took something away", (t) => {
  const layers = new Layers(scratch(t));
  t.after(() => layers.close());
  const write = (name: string, gone = false): Write => {
    const entry = [{ index: "token" as const, sort: name }];
    return {
      key: tokenKey(name),
      record: gone ? null : marker(name, name),
      drop: gone ? entry : [],
      add: gone ? [] : entry,
    };
  };
  layers.commit([write("a"), write("b")]);
  layers.apply(10, true);
  layers.commit([write("a", true)]);
  layers.commit([write("c")]);
  const seen = (body: (view: LayeredView) => unknown): number => {
    const { view } = layers;
    body(view);
    return view.newestSeq;
  };
  assert.equal(
    seen((view) => view.get(tokenKey("a"))),
    2,
  );
  assert.ok(seen((view) => view.get(tokenKey("b"))) <= 1);
  assert.equal(
    seen((view) => view.get(tokenKey("c"))),
    3,
  );
  assert.equal(
    seen((view) => view.range(range("", "b", 5))),
    2,
  );
  assert.equal(
    seen((view) => view.range(range("", "\x7f", 5))),
    3,
  );
  assert.equal(
    seen((view) => view.range(range("b", "c", 5))),
    0,
  );
});

test("a key that holds NUL is nobody's", (t) => {
  const layers = new Layers(scratch(t));
  t.after(() => layers.close());
  layers.commit([{ key: tokenKey("x"), record: marker("x", "x"), drop: [], add: [] }]);
  layers.apply(10, true);
  layers.recover();
  assert.equal(layers.view.get(tokenKey("x"))?.kind, "token");
  assert.equal(layers.view.get(tokenKey("x\0y")), null);
});
