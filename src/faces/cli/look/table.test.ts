import assert from "node:assert/strict";
import { test } from "node:test";
import { cut, tableLines, widthOf } from "./table.js";

const columns = [{ title: "NAME", widthMin: 4 }, { title: "AT" }, { title: "NOTE", widthMin: 4 }];
const rows = [
  ["deploy-main", "12:00", "a long note about it"],
  ["b", "7", ""],
];

test("columns are as wide as what stands in them", () => {
  assert.deepEqual(tableLines(columns, rows, null), [
    "NAME         AT     NOTE",
    "deploy-main  12:00  a long note about it",
    "b            7",
  ]);
});

test("too little room is taken from the last that can give, and no line is longer", () => {
  assert.deepEqual(tableLines(columns, rows, 28), [
    "NAME         AT     NOTE",
    "deploy-main  12:00  a long …",
    "b            7",
  ]);
  assert.deepEqual(tableLines(columns, rows, 20), [
    "NAME     AT     NOTE",
    "deploy…  12:00  a l…",
    "b        7",
  ]);
  for (let width = 1; width < 50; width++)
    for (const line of tableLines(columns, rows, width))
      assert.ok(widthOf(line) <= width, `${width}: ${line}`);
});

test("wide and combining characters count as a terminal shows them; what acts on it is made harmless", () => {
  assert.deepEqual([widthOf("漢字"), widthOf("e\u0301"), widthOf("plain")], [4, 1, 5]);
  assert.equal(cut("漢字漢字", 5), "漢字…");
  const [, line = ""] = tableLines([{ title: "X" }], [["\x1b[2Jgone\u202e"]], null);
  assert.equal(line, "\\u{1b}[2Jgone\\u{202e}");
});
