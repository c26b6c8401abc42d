import assert from "node:assert/strict";
import { test } from "node:test";
import { isOlder, openDatabase, sqliteVersion } from "./binding.js";

test("only SQLite 3.51.3 and later will do", () => {
  const rows: [version: string, older: boolean][] = [
    ["3.51.3", false],
    ["3.51.2", true],
    ["3.51.4", false],
    ["3.51.10", false],
    ["3.51", true],
    ["3.50.9", true],
    ["3.9.9", true],
    ["3.52.0", false],
    ["3.53", false],
    ["3.100.0", false],
    ["4.0.0", false],
    ["2.99.99", true],
    ["3", true],
  ];
  for (const [version, older] of rows) assert.equal(isOlder(version), older, version);
});

test("the library in use is one of those", () => {
  const database = openDatabase(":memory:");
  assert.equal(isOlder(sqliteVersion(database)), false, sqliteVersion(database));
  database.close();
});
