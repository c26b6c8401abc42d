import assert from "node:assert/strict";
import { test } from "node:test";
import { parseGlob } from "./globs.js";

const rows: readonly [pattern: string, matches: readonly string[], not: readonly string[]][] = [
  ["src/auth.rs", ["src/auth.rs", "src/auth.rs/below"], ["src/auth.rsx", "x/src/auth.rs", "src"]],
  ["src", ["src", "src/a", "src/a/b"], ["srcs", "lib/src"]],
  ["src/", ["src/a", "src/a/b"], ["srcs/a"]],
  ["/src", ["src/a"], ["lib/src/a"]],
  ["src/**", ["src/a", "src/a/b", "src/.hidden"], ["srcs/a", "lib/src/a"]],
  ["src/*", ["src/a", "src/.hidden"], ["src/a/b", "src"]],
  ["*.rs", ["a.rs", ".rs"], ["src/a.rs", "a.rsx"]],
  ["**/*.rs", ["a.rs", "src/a.rs", "src/x/a.rs"], ["a.rsx", "a.rs/b"]],
  ["**/migrations", ["migrations/1", "db/migrations/1", "a/b/migrations"], ["db/migrations2/1"]],
  ["a/**/b/**/c.*", ["a/b/c.x", "a/1/b/2/b/3/c.x", "a/b/b/c."], ["a/c.x", "a/b/c", "b/c.x"]],
  ["**", ["a", "a/b"], []],
  ["a**z", ["az", "abcz"], ["a/z"]],
  ["file?.txt", ["file1.txt", "fileé.txt", "file😀.txt"], ["file.txt", "file12.txt"]],
  ["[a-c]x[!0-9]", ["axy", "cx-"], ["dxy", "ax1", "ax"]],
  ["[]x]", ["]", "x"], ["["]],
  ["[*]", ["*"], ["a"]],
  ["{src,lib}/*.{ts,js}", ["src/a.ts", "lib/b.js"], ["src/a.rs", "bin/a.ts"]],
  ["a{,b}c", ["ac", "abc"], ["abbc"]],
  ["[{}]x", ["{x", "}x"], ["x"]],
  ["\\*", ["*", "*/a"], ["a"]],
  ["\\{a,b\\}", ["{a,b}"], ["a", "b"]],
  ["\\!x", ["!x"], ["x"]],
  ["cafe\u0301", ["café"], ["cafe"]],
  ["café", ["cafe\u0301"], ["cafe"]],
  ["a.b", ["a.b"], ["axb"]],
  ["a+(b)|^$", ["a+(b)|^$"], ["aab"]],
  ["with space/*", ["with space/x\ny"], ["with/x"]],
];

for (const [pattern, yes, no] of rows)
  test(`${pattern}`, () => {
    const parsed = parseGlob(pattern);
    assert.ok("glob" in parsed, JSON.stringify(parsed));
    assert.deepEqual(
      yes.filter((path) => !parsed.glob(path)),
      [],
      "should match",
    );
    assert.deepEqual(
      no.filter((path) => parsed.glob(path)),
      [],
      "should not",
    );
  });

const wrong: readonly [pattern: string, says: RegExp][] = [
  ["!src/**", /list what needs a lock/],
  ["", /empty/],
  ["a//b", /empty/],
  ["../a", /\.\. segments/],
  ["./a", /segments/],
  ["[a", /nothing that ends it/],
  ["a\\", /nothing that ends it/],
  ["{a,b", /belong together/],
  ["a}", /belong together/],
  ["a{b,[,]}", /nothing that ends it/],
  ["{a,{b,c}}", /belong together/],
  ["{a,b,c,d,e,f,g,h}{a,b,c,d,e,f,g,h}{a,b,c,d,e,f,g,h}", /more than 256/],
];

for (const [pattern, says] of wrong)
  test(`${JSON.stringify(pattern)} is refused`, () => {
    const parsed = parseGlob(pattern);
    assert.match("invalid" in parsed ? parsed.invalid : "accepted", says);
  });

test("a pattern made to be slow is not", () => {
  const parsed = parseGlob(`${"*a".repeat(40)}b/${"**/x*/".repeat(20)}y`);
  assert.ok("glob" in parsed);
  const begunAt = performance.now();
  assert.equal(parsed.glob(`${"a".repeat(4000)}/${"x/".repeat(1000)}z`), false);
  assert.ok(performance.now() - begunAt < 2000);
});
