// What a push says of each reference.
import assert from "node:assert/strict";
import { test } from "node:test";
import { statusesIn } from "./remote.js";

const lock = `refs/holdfast/locks/${"a".repeat(64)}`;

test("a push's words are read by reference", () => {
  const said = statusesIn(
    [
      "To ssh://there/x.git",
      `*\t${"1".repeat(40)}:refs/holdfast/guard\t[new reference]`,
      `+\t${"2".repeat(40)}:${lock}\t1111111...2222222 (forced update)`,
      "-\t:refs/holdfast/locks/b\t[deleted]",
      `!\t${"3".repeat(40)}:refs/holdfast/locks/c\t[rejected] (stale info)`,
      `=\t${"4".repeat(40)}:refs/holdfast/locks/d\t[up to date]`,
      " \tx:refs/holdfast/locks/e\t1..2",
      "Done",
      "",
    ].join("\n"),
  );
  assert.deepEqual(
    [...said].map(([ref, { flag, text }]) => [ref.replace("refs/holdfast/", ""), flag, text]),
    [
      ["guard", "*", "[new reference]"],
      [lock.replace("refs/holdfast/", ""), "+", "1111111...2222222 (forced update)"],
      ["locks/b", "-", "[deleted]"],
      ["locks/c", "!", "[rejected] (stale info)"],
      ["locks/d", "=", "[up to date]"],
      ["locks/e", " ", "1..2"],
    ],
  );
});

test("what is not about a reference says nothing of one", () => {
  for (const text of ["", "Everything up-to-date", "remote: *\tx:refs/y\tz", "Done", "fatal: *"])
    assert.equal(statusesIn(text).size, 0, JSON.stringify(text));
});
