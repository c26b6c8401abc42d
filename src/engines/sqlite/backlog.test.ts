import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { Backlog } from "./backlog.js";
import { fromLines } from "./lines.js";

/** Pairs of lines as a batch has them; an empty value deletes. */
const lines = (writes: readonly (readonly [key: string, value: string])[]): string =>
  writes.map(([key, value]) => `${key}\n${value}\n`).join("");

test("keys are taken in order, the newest value of each; what comes in meanwhile waits for the next pass", () => {
  const backlog = new Backlog(6);
  const first = lines([
    ["c", "1"],
    ["a", "1"],
    ["b", "1"],
  ]);
  backlog.add(7, first);
  assert.deepEqual(backlog.take(1), [["a", "1"]]);
  assert.equal(backlog.appliedSeq, 6);
  const second = lines([
    ["c", ""],
    ["a", "2"],
    ["bb", "2"],
  ]);
  backlog.add(8, second);
  assert.equal(backlog.bytes, first.length + second.length);
  // `c` is still to come in this pass and goes with its new value; `a` has gone and comes again.
  assert.deepEqual(backlog.take(9), [
    ["b", "1"],
    ["c", null],
  ]);
  assert.equal(backlog.appliedSeq, 7);
  assert.equal(backlog.bytes, second.length);
  assert.deepEqual(backlog.take(9), [
    ["a", "2"],
    ["bb", "2"],
  ]);
  assert.equal(backlog.appliedSeq, 8);
  assert.deepEqual([backlog.size, backlog.bytes], [0, 0]);
});

test("a batch that writes nothing holds nothing up", () => {
  const backlog = new Backlog(0);
  backlog.add(1, "");
  assert.deepEqual([backlog.size, backlog.appliedSeq], [0, 1]);
});

test("at every moment the tree, with the batches after the mark, makes the newest values", () => {
  const write = fc.tuple(fc.constantFrom("a", "b", "c", "d", "e", "f"), fc.constantFrom("", "1", "2", "3"));
  const step = fc.oneof(
    fc.record({ writes: fc.array(write, { maxLength: 4 }) }),
    fc.record({ take: fc.integer({ min: 1, max: 4 }) }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const backlog = new Backlog(0);
      const log: string[] = [];
      const newest = new Map<string, string | null>();
      const tree = new Map<string, string | null>();
      for (const one of steps) {
        if ("take" in one) for (const [key, value] of backlog.take(one.take)) tree.set(key, value);
        else {
          log.push(lines(one.writes));
          backlog.add(log.length, lines(one.writes));
          for (const [key, value] of one.writes) newest.set(key, value === "" ? null : value);
        }
        const recovered = new Map(tree);
        for (const writes of log.slice(backlog.appliedSeq))
          for (const [key, value] of fromLines(writes)) recovered.set(key, value);
        assert.deepEqual(new Map([...recovered].sort()), new Map([...newest].sort()));
      }
    }),
    { numRuns: 500 },
  );
});
