import assert from "node:assert/strict";
import { test } from "node:test";
import { updatesIn } from "./updates.js";

const [none, one, two] = ["0".repeat(40), "1".repeat(40), "2".repeat(40)];

test("the lines of both hooks, whose fields stand in another order", () => {
  const pushed = `refs/heads/a ${one} refs/heads/b ${two}\n(delete) ${none} refs/heads/c ${two}\n`;
  assert.deepEqual(updatesIn(pushed, "pre-push"), [
    { ref: "refs/heads/b", from: two, to: one },
    { ref: "refs/heads/c", from: two, to: null },
  ]);
  const received = `${none} ${one} refs/heads/a\n${"0".repeat(64)} ${"3".repeat(64)} refs/heads/long\n`;
  assert.deepEqual(updatesIn(received, "pre-receive"), [
    { ref: "refs/heads/a", from: null, to: one },
    { ref: "refs/heads/long", from: null, to: "3".repeat(64) },
  ]);
});

test("refs of locks are left out, and a push of nothing is none", () => {
  assert.deepEqual(updatesIn(`x ${one} refs/holdfast/locks/1 ${none}\n`, "pre-push"), []);
  assert.deepEqual(updatesIn("", "pre-push"), []);
});

test("a name that stands for an id, or a line of another form, is wrong use", () => {
  for (const line of [
    `a HEAD b ${one}`,
    `a ${one} b`,
    `${one} ${two}`,
    `a ${one} b --all`,
    `a ${one} b ${two} c`,
  ])
    for (const hook of ["pre-push", "pre-receive"] as const)
      assert.throws(() => updatesIn(line, hook), /standard input has a line/, `${hook} ${line}`);
});
