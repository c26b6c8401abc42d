import assert from "node:assert/strict";
import { test } from "node:test";
import { spansOf } from "./spans.js";

test("the ancestors of a path are one span, other keys stay apart", () => {
  const path = ["p/a", "p/a/b", "p/a/b/c", "p/a/b/c/d"];
  assert.deepEqual(spansOf(["z", ...path.toReversed(), "f"], 3), [
    { first: "f", last: "f" },
    { first: "p/a", last: "p/a/b/c/d" },
    { first: "z", last: "z" },
  ]);
});

test("every key is covered, by no more spans than asked for, in the order of bytes", () => {
  const keys = Array.from({ length: 50 }, (_, i) => `k/${(i * 7919) % 50}/${i}`);
  const order = (a: string, b: string): boolean => Buffer.compare(Buffer.from(a), Buffer.from(b)) <= 0;
  // By code units the second would come before the first.
  for (const some of [keys, ["k/\uff5e", "k/🙂", "k/a"]])
    for (const most of [1, 2, 7, 50, 80]) {
      const spans = spansOf(some, most);
      assert.ok(spans.length <= most);
      for (const key of some)
        assert.ok(spans.some(({ first, last }) => order(first, key) && order(key, last)));
    }
});
