import assert from "node:assert/strict";
import { test } from "node:test";
import { held } from "../../test/store-lab.js";
import type { Ask, Range } from "../core/decision.js";
import { roundsMax } from "../core/limits.js";
import { decideInRounds, LoadedView } from "./rounds.js";
import { StoreError } from "./store.js";

const range = (from: string, limit = 5): Range => ({ index: "held", from, to: "\x7f", limit });

test("a view shows exactly what was loaded: the record, that there is none, or nothing at all", () => {
  const view = new LoadedView(7);
  view.addRecord("there", held("there", 1));
  view.addRecord("gone", null);
  view.addRange(range("a"), [{ sort: "a", key: "there" }]);
  assert.equal(view.now, 7);
  assert.equal(view.get("there")?.kind, "lock");
  assert.equal(view.get("gone"), null);
  assert.equal(view.get("other"), undefined);
  assert.deepEqual(view.range(range("a")), [{ sort: "a", key: "there" }]);
  assert.equal(view.range(range("b")), undefined);
  assert.equal(view.range(range("a", 6)), undefined);
});

test("a decision is run again with what it asked for, and no more often than it may", () => {
  for (const wanted of [0, 1, roundsMax - 1, roundsMax]) {
    const view = new LoadedView(0);
    const loaded: Ask[] = [];
    const run = () =>
      decideInRounds(
        view,
        ["first"],
        () => {
          const missing = Array.from({ length: wanted }, (_, i) => `k${i}`).find(
            (key) => view.get(key) === undefined,
          );
          return missing === undefined ? { reply: "done", writes: [], events: [] } : { need: [missing] };
        },
        (ask) => {
          loaded.push(ask);
          if (typeof ask === "string") view.addRecord(ask, null);
        },
      );
    if (wanted < roundsMax) {
      assert.equal(run().reply, "done");
      assert.deepEqual(loaded, ["first", ...Array.from({ length: wanted }, (_, i) => `k${i}`)]);
    } else assert.throws(run, (error) => error instanceof StoreError && error.kind === "unsupported");
  }
});
