/** Which names there are, in which one form, and which of them overlap (rules 12 and 13). */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { nameBytesMax } from "./limits.js";
import { hasOverlap, overlapOf, overlaps, parseName } from "./names.js";

const parsed = (raw: string): string => {
  const result = parseName(raw);
  return "name" in result ? result.name : `refused: ${result.invalid}`;
};
const isRefused = (raw: string): boolean => "invalid" in parseName(raw);

describe("plain names", () => {
  for (const name of [
    "deploy-main",
    "issue:8057324b",
    "repo:deploy",
    "node:task-api",
    "A.b_c:d/e@f+g-h",
    "a",
    "...",
    "a/.b/..c",
    "x".repeat(nameBytesMax),
  ])
    test(`${name.slice(0, 20)} is taken as it is`, () => assert.equal(parsed(name), name));

  const refused: Record<string, string> = {
    empty: "",
    "a character that only paths may hold": "invalid!name",
    "a space": "a b",
    "outside ASCII": "naïve",
    "a percent sign": "a%2Fb",
    "a backslash": "a\\b",
    "a new line at the end": "a\n",
    "a zero byte": "a\0b",
    "an empty segment": "a//b",
    "a leading slash": "/a",
    "a trailing slash": "a/",
    "a dot": ".",
    "a dot segment": "a/./b",
    "two dots": "..",
    "a parent segment": "a/../b",
    "one byte too many": "x".repeat(nameBytesMax + 1),
  };
  for (const [why, name] of Object.entries(refused))
    test(`refused: ${why}`, () => assert.ok(isRefused(name), name));
});

describe("paths", () => {
  const rows: [raw: string, name: string][] = [
    ["path:src/auth.rs", "path:src/auth.rs"],
    ["path:app/[slug]/page.tsx", "path:app/[slug]/page.tsx"],
    ["path:a b/c (1)!.txt", "path:a b/c (1)!.txt"],
    ["path:./src/./auth.rs", "path:src/auth.rs"],
    ["path:src//auth.rs", "path:src/auth.rs"],
    ["path:src/", "path:src"],
    ["path:src/.", "path:src"],
    ["path:.github/..x/.y.", "path:.github/..x/.y."],
    ["path:cafe\u0301", "path:caf\u00e9"],
    ["path:\u212b", "path:\u00c5"],
    ["path:日本語/ファイル", "path:日本語/ファイル"],
    ["path:a%2Fb", "path:a%2Fb"],
  ];
  for (const [raw, name] of rows)
    test(`${JSON.stringify(raw)} is ${JSON.stringify(name)}`, () => assert.equal(parsed(raw), name));

  const refused: Record<string, string> = {
    empty: "path:",
    "nothing but dots and slashes": "path:.//./",
    "an absolute path": "path:/etc/passwd",
    "a parent segment": "path:src/../secret",
    "a parent segment at the end": "path:src/..",
    "a tab": "path:a\tb",
    "a zero byte": "path:a\0b",
    "a new line": "path:a\n",
    delete: "path:a\x7fb",
    "a C1 control": "path:a\u0085b",
    "right-to-left override": "path:a\u202egpj.exe",
    "a bidi isolate": "path:a\u2066b",
    "a zero-width space": "path:a\u200bb",
    "a zero-width joiner": "path:a\u200db",
    "a word joiner": "path:a\u2060b",
    "a byte order mark": "path:a\ufeffb",
    "a soft hyphen": "path:a\u00adb",
    "an invisible annotation mark": "path:a\ufff9b",
    "a format character that shows": "path:a\u0600b",
    "a Hangul filler": "path:a\u3164b",
    "a variation selector": "path:a\ufe0fb",
    "a tag character": "path:a\u{e0041}b",
    "a line separator": "path:a\u2028b",
    "a lone surrogate": "path:a\ud800b",
    "private use": "path:a\ue000b",
  };
  for (const [why, raw] of Object.entries(refused))
    test(`refused: ${why}`, () => assert.ok(isRefused(raw), JSON.stringify(raw)));

  test("256 bytes of UTF-8 are the most, counted in the normal form", () => {
    const room = nameBytesMax - "path:".length;
    assert.ok(!isRefused(`path:${"x".repeat(room)}`));
    assert.ok(isRefused(`path:${"x".repeat(room + 1)}`));
    assert.ok(isRefused(`path:${"é".repeat(126)}`), "two bytes each");
    assert.ok(!isRefused(`path:${"é".repeat(125)}`));
    assert.ok(!isRefused(`path:${"e\u0301".repeat(125)}`), "shorter in its normal form");
    assert.ok(!isRefused(`path:./././${"x".repeat(room)}`), "shorter in its normal form");
  });

  test("a name that was parsed is in its one form", () => {
    const segment = fc.oneof(fc.constantFrom("a", "b", ".", "..", "", "é", "e\u0301", "x y"), fc.string());
    fc.assert(
      fc.property(
        fc.array(segment, { maxLength: 5 }),
        fc.constantFrom("path:", "", "repo:"),
        (parts, prefix) => {
          const once = parseName(prefix + parts.join("/"));
          if ("invalid" in once) return;
          assert.deepEqual(parseName(once.name), once);
          assert.ok(new TextEncoder().encode(once.name).length <= nameBytesMax);
        },
      ),
    );
  });
});

describe("rule 12: which names overlap", () => {
  const rows: [one: string, other: string, overlap: boolean][] = [
    ["path:a", "path:a", true],
    ["path:a", "path:a/b", true],
    ["path:a", "path:a/b/c", true],
    ["path:a/b", "path:a/b/c", true],
    ["path:a/b", "path:a/c", false],
    ["path:a", "path:ab", false],
    ["path:a", "path:a.b", false],
    ["path:a", "path:b/a", false],
    ["path:a", "repo:global", true],
    ["repo:deploy", "repo:global", true],
    ["repo:deploy", "repo:deploy/x", false],
    ["repo:deploy", "path:deploy", false],
    ["repo:global", "deploy", false],
    ["repo:global", "issue:1", false],
    ["repo:global", "node:1", false],
    ["a", "a/b", false],
    ["issue:1", "issue:1/2", false],
    ["a", "a", true],
  ];
  for (const [one, other, overlap] of rows)
    test(`${one} ${overlap ? "overlaps" : "leaves alone"} ${other}`, () => {
      assert.equal(overlaps(one, other), overlap);
      assert.equal(overlaps(other, one), overlap);
    });

  test("overlapOf names those above and the space below", () => {
    assert.deepEqual(overlapOf("path:a/b/c"), {
      names: ["repo:global", "path:a", "path:a/b"],
      prefixes: ["path:a/b/c/"],
    });
    assert.deepEqual(overlapOf("repo:global"), { names: [], prefixes: ["path:", "repo:"] });
    assert.deepEqual(overlapOf("repo:x"), { names: ["repo:global"], prefixes: [] });
    assert.deepEqual(overlapOf("x/y"), { names: [], prefixes: [] });
  });

  test("only names that may overlap say so", () => {
    const name = fc.constantFrom(
      "a",
      "a/b",
      "issue:1",
      "path:a",
      "path:a/b",
      "path:b",
      "repo:x",
      "repo:global",
    );
    fc.assert(
      fc.property(name, name, (one, other) => {
        if (one !== other && overlaps(one, other)) assert.ok(hasOverlap(one) && hasOverlap(other));
        assert.equal(overlaps(one, other), overlaps(other, one));
      }),
    );
  });
});
