/** How decisions ask, and how they write: each record once, with exactly the index entries that changed. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { LoadedView } from "../store/rounds.js";
import type { Range } from "./decision.js";
import { deciding } from "./draft.js";
import { InvariantError } from "./invariants.js";
import { floorKey, lockKey, sessionKey } from "./keys.js";
import { policyDefault } from "./limits.js";
import type { FloorRecord, LockRecord } from "./records.js";

const key = lockKey("default", "k");
const free: LockRecord = {
  kind: "lock",
  space: "default",
  name: "k",
  token: 1,
  attempts: 0,
  lease: null,
  previous: null,
  outcome: null,
  availableAt: 0,
  dueAt: 0,
  gcAt: 50,
};
const floor: FloorRecord = { kind: "floor", space: "default", token: 1, ttlHighMs: 0, quietUntil: 0 };
const range: Range = { index: "due", from: "", to: "9", limit: 1 };

function viewOf(...records: [string, LockRecord | FloorRecord | null][]): LoadedView {
  const view = new LoadedView(10);
  for (const [name, record] of records) view.addRecord(name, record);
  return view;
}

describe("a draft", () => {
  test("asks for what is not loaded, and takes null for an answer", () => {
    const ask = (view: LoadedView) => deciding(view, policyDefault, (draft) => draft.get(key));
    assert.deepEqual(ask(viewOf()), { need: [key] });
    assert.deepEqual(ask(viewOf([key, null])), { reply: null, writes: [], events: [] });
  });

  test("asks for everything missing at once", () => {
    const other = floorKey("default");
    const decision = deciding(viewOf([key, free]), policyDefault, (draft) =>
      draft.require([key, other, sessionKey("default", "s")], [range]),
    );
    assert.deepEqual(decision, { need: [other, "session/default/s", range] });
  });

  test("asks once for all items of a list, and goes on to the first that gives a result", () => {
    const keys = [lockKey("default", "x"), key, lockKey("default", "y")];
    const look = (view: LoadedView) =>
      deciding(view, policyDefault, (draft) => draft.first(keys, (one) => draft.get(one) ?? undefined));
    assert.deepEqual(look(viewOf()), { need: keys });
    assert.deepEqual(look(viewOf([key, free])), { need: [keys[0]] }, "nothing is wanted beyond the result");
    const all = look(viewOf([keys[0] ?? "", null], [key, free]));
    assert.ok("reply" in all && all.reply === free);
  });

  test("does not swallow errors of the rules", () => {
    const broken = () =>
      deciding(viewOf(), policyDefault, (draft) =>
        draft.first([1], () => {
          throw new InvariantError("broken");
        }),
      );
    assert.throws(broken, InvariantError);
  });

  test("writes a record once, as it was last, with the index entries that changed", () => {
    const decision = deciding(viewOf([key, free]), policyDefault, (draft) => {
      draft.put(key, { ...free, gcAt: 60 });
      draft.put(key, { ...free, gcAt: 70 });
      return draft.get(key)?.gcAt;
    });
    assert.deepEqual(decision, {
      reply: 70,
      writes: [
        {
          key,
          record: { ...free, gcAt: 70 },
          drop: [{ index: "gc", sort: "0000000000000050/lock/default/k" }],
          add: [{ index: "gc", sort: "0000000000000070/lock/default/k" }],
        },
      ],
      events: [],
    });
  });

  test("drops all index entries of what it deletes and none of what stays", () => {
    const decision = deciding(viewOf([key, free]), policyDefault, (draft) => draft.put(key, null));
    assert.ok("writes" in decision);
    assert.deepEqual(decision.writes[0]?.drop, [{ index: "gc", sort: "0000000000000050/lock/default/k" }]);
    const same = deciding(viewOf([key, free]), policyDefault, (draft) =>
      draft.put(key, { ...free, token: 2 }),
    );
    assert.ok("writes" in same);
    assert.deepEqual([same.writes[0]?.drop, same.writes[0]?.add], [[], []]);
  });

  test("shows what it changed", () => {
    deciding(viewOf([key, free], [floorKey("default"), floor]), policyDefault, (draft) => {
      assert.deepEqual([...draft.changed()], []);
      draft.put(floorKey("default"), { ...floor, token: 9 });
      draft.put(key, null);
      assert.deepEqual([...draft.changed()], [{ ...floor, token: 9 }, null]);
      assert.equal(draft.writeCount, 2);
      assert.equal(draft.get(key), null);
    });
  });
});
