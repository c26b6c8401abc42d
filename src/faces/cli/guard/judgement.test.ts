import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { overlaps } from "../../../core/names.js";
import { parseGlob } from "./globs.js";
import { type Findings, type HeldLock, judge, LockIndex } from "./judgement.js";

const lock = (name: string, principal = "bob"): HeldLock => ({
  name,
  principal,
  owner: null,
  since: null,
  expiresAt: null,
  metadata: null,
});

const demand = (pattern: string) => {
  const parsed = parseGlob(pattern);
  assert.ok("glob" in parsed);
  return { pattern, glob: parsed.glob };
};

const of = (paths: string[], locks: HeldLock[], patterns: string[] = []): Findings =>
  judge({ paths, noText: [], locks, me: "alice", demands: patterns.map(demand) });

test("the index finds exactly what core says excludes a name", () => {
  const segment = fc.constantFrom("a", "b", "ab", "a.b", "a-", "ä");
  const path = fc.array(segment, { minLength: 1, maxLength: 4 }).map((parts) => `path:${parts.join("/")}`);
  const name = fc.oneof(path, fc.constantFrom("repo:global", "repo:deploy", "issue:1", "plain"));
  fc.assert(
    fc.property(fc.uniqueArray(name), path, (names, asked) => {
      const found = new LockIndex(names.map((one) => lock(one))).excluding(asked);
      assert.deepEqual(
        found.map((one) => one.name).sort(),
        names.filter((one) => overlaps(asked, one)).sort(),
      );
    }),
  );
});

const rows: [what: string, locks: HeldLock[], held: string[], required: string[]][] = [
  ["nothing is held", [], [], ["src/a"]],
  ["another holds it", [lock("path:src/a")], ["src/a"], []],
  ["another holds what it lies in", [lock("path:src")], ["src/a"], []],
  ["another holds a neighbour", [lock("path:src/ab"), lock("path:sr")], [], ["src/a"]],
  ["I hold it", [lock("path:src/a", "alice")], [], []],
  ["I hold what it lies in", [lock("path:src", "alice")], [], []],
  ["I hold everything", [lock("repo:global", "alice")], [], []],
  ["I hold only a part of it", [lock("path:src/a/b", "alice")], [], ["src/a"]],
  ["another holds a part of it", [lock("path:src/a/b")], ["src/a"], []],
  ["other kinds of names", [lock("issue:src"), lock("repo:deploy")], [], ["src/a"]],
];

for (const [what, locks, held, required] of rows)
  test(what, () => {
    const found = of(["src/a"], locks, ["src/**"]);
    assert.deepEqual(
      [found.held.map(({ path }) => path), found.required.map(({ path }) => path)],
      [held, required],
    );
  });

test("names are compared in their one normal form, and shown as they are", () => {
  const { held } = of(["cafe\u0301"], [lock("path:caf\u00e9")]);
  assert.deepEqual(
    held.map(({ path, name }) => [path, name]),
    [["cafe\u0301", "path:caf\u00e9"]],
  );
});

const odd: [what: string, locks: HeldLock[], held: string[], demanded: string | null, above: string][] = [
  ["nothing is held", [], [], "src/**", "path:src"],
  ["another holds what it lies in", [lock("path:src")], ["src/a\nb"], null, "path:src"],
  ["another holds everything", [lock("repo:global")], ["src/a\nb"], null, "path:src"],
  ["another holds its neighbour", [lock("path:src/a")], [], "src/**", "path:src"],
  ["I hold what it lies in", [lock("path:src", "alice")], [], null, "path:src"],
];

for (const [what, locks, held, demanded, above] of odd)
  test(`a path that cannot be locked by its name: ${what}`, () => {
    const found = of(["src/a\nb"], locks, ["src/**"]);
    assert.deepEqual(
      found.held.map(({ path }) => path),
      held,
    );
    assert.deepEqual(
      found.unlockable.map((one) => [one.pattern, one.above]),
      [[demanded, above]],
    );
  });

test("at the top of the repository only the repository is above", () => {
  const { unlockable } = judge({
    paths: ["a\nb", "x".repeat(300)],
    noText: ["\ufffd"],
    locks: [],
    me: "alice",
    demands: [demand("a*")],
  });
  assert.deepEqual(
    unlockable.map(({ path, pattern, above }) => [path.slice(0, 3), pattern, above]),
    [
      ["a\nb", "a*", "repo:global"],
      ["xxx", null, "repo:global"],
      ["\ufffd", null, "repo:global"],
    ],
  );
});
