import assert from "node:assert/strict";
import { test } from "node:test";
import { judgeVersion } from "./version.js";

const rows: readonly (readonly [version: string, verdict: "fine" | "warn" | "refuse", says?: RegExp])[] = [
  ["3.4.0", "fine"],
  ["3.4.23", "fine"],
  ["3.3.27", "refuse", /3\.4 or newer/],
  ["2.3.8", "refuse", /too old/],
  ["3.5.0", "warn", /3\.5\.33/],
  ["3.5.9", "warn", /3\.5\.33/],
  ["3.5.32", "warn"],
  ["3.5.33-rc.1", "warn"],
  ["3.5.33", "fine"],
  ["3.5.100", "fine"],
  ["v3.5.100", "fine"],
  ["3.6.0", "warn", /3\.6\.14/],
  ["3.6.13", "warn"],
  ["3.6.14", "fine"],
  ["3.7.0", "fine"],
  ["4.0.0", "fine"],
  ["10.1.0", "fine"],
  ["3.10.0", "fine"],
  ["not one", "warn", /"not one"/],
  ["", "warn"],
];

for (const [version, verdict, says] of rows)
  test(`etcd ${JSON.stringify(version)}: ${verdict}`, () => {
    const found = judgeVersion(version);
    assert.equal(found.verdict, verdict);
    if (says !== undefined) assert.match(found.verdict === "fine" ? "" : found.why, says);
  });
