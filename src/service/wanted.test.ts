import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { Wanted } from "./wanted.js";

const space = "default";

/** Offers that the test lets end, and the pause after a failure, which it lets pass. */
function lab() {
  const open = new Map<string, { pass: () => void; fail: (error: Error) => void }>();
  const begun: string[] = [];
  const told: unknown[] = [];
  const pauses: (() => void)[] = [];
  const stopping = new AbortController();
  const wanted = new Wanted(
    ({ name }) => {
      begun.push(name);
      return new Promise((pass, fail) => open.set(name, { pass, fail }));
    },
    stopping.signal,
    (_what, failure) => told.push(failure),
    (_ms, run) => {
      pauses.push(run);
      return () => undefined;
    },
  );
  const add = (...names: string[]): void => {
    for (const name of names) wanted.add({ space, name });
  };
  const ended = async (name: string, error?: Error): Promise<void> => {
    const { pass, fail } = open.get(name) ?? assert.fail(`${name} was not offered`);
    if (error === undefined) pass();
    else fail(error);
    await turn();
  };
  return { add, ended, begun, told, pauses, stopping };
}

test("one that takes long holds up no other", () => {
  const { add, begun } = lab();
  add("slow", "b", "c");
  assert.deepEqual(begun, ["slow", "b", "c"]);
});

test("what is freed again while it is offered is offered again: that step may have looked before", async () => {
  const { add, ended, begun } = lab();
  add("a");
  add("a");
  assert.deepEqual(begun, ["a", "a"]);
  await ended("a");
  assert.equal(begun.length, 2);
});

test("names that overlap are offered one after the other, in their order, beside the plain ones", async () => {
  const { add, ended, begun } = lab();
  add("path:a/x", "path:a/y", "path:a", "plain");
  assert.deepEqual(begun, ["path:a/x", "plain"]);
  await ended("path:a/x");
  assert.deepEqual(begun, ["path:a/x", "plain", "path:a/y"]);
  await ended("path:a/y");
  await ended("path:a");
  assert.deepEqual(begun, ["path:a/x", "plain", "path:a/y", "path:a"]);
});

test("far more than a store takes at once wait their turn, each once", async () => {
  const { add, ended, begun } = lab();
  const names = Array.from({ length: 400 }, (_, i) => `n-${i}`);
  add(...names, ...names.slice(300));
  assert.equal(begun.length, 256);
  for (const name of names) await ended(name);
  assert.deepEqual(begun, names);
});

test("after a failure all wait a moment, are tried again, and it is said when it is over", async () => {
  const { add, ended, begun, told, pauses } = lab();
  add("a", "b");
  const away = new Error("away");
  await ended("a", away);
  await ended("b", away);
  add("c");
  assert.deepEqual([begun, pauses.length, told], [["a", "b"], 1, [away, away]]);
  pauses[0]?.();
  assert.deepEqual(begun, ["a", "b", "a", "b", "c"]);
  await ended("c");
  assert.deepEqual(told, [away, away, null]);
});

test("a server that stops offers nothing more", async () => {
  const { add, ended, begun, told, pauses, stopping } = lab();
  add("a");
  await ended("a", new Error("away"));
  stopping.abort();
  pauses[0]?.();
  add("b");
  assert.deepEqual([begun, told.length], [["a"], 1]);
});
