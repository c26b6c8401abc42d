// What is remembered of a remote between processes, and when it may be trusted.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { scratch } from "../../../test/store-lab.js";
import { guardRef, lockPrefix } from "./authority.js";
import { lookMaxAgeMs, Snapshot } from "./snapshot.js";

const oid = (nth: number): string => nth.toString(16).padStart(40, "0");
const [a, b] = [`${lockPrefix}a`, `${lockPrefix}b`];

function clone(t: TestContext): {
  at: { ms: number };
  file: string;
  open: (boot?: string, settings?: string) => Snapshot;
} {
  const at = { ms: 1_000_000 };
  const file = join(scratch(t), "deep/er/refs");
  return {
    at,
    file,
    open: (boot = "this one", settings = "as ever") =>
      new Snapshot(file, { now: () => at.ms, wall: () => at.ms, boot }, settings),
  };
}

test("a look at all is known to the next process, for as long as it is recent", (t) => {
  const { at, open } = clone(t);
  assert.ok(!open().isRecent && !open().isWhole, "nothing was looked at yet");
  open().replace(new Map([[a, oid(1)]]), at.ms);
  at.ms += lookMaxAgeMs - 1;
  const next = open();
  assert.ok(next.isRecent && next.isWhole);
  assert.deepEqual([...next.refs()], [[a, oid(1)]]);
  at.ms += 1;
  assert.ok(!next.isRecent && !open().isRecent, "too long ago to say what is not there");
});

test("another start of the machine, other settings and a damaged file are as no look", (t) => {
  const { at, file, open } = clone(t);
  open().replace(new Map([[a, oid(1)]]), at.ms);
  assert.ok(!open("another").isRecent);
  assert.ok(!open("this one", "another remote").isRecent);
  at.ms -= 10;
  assert.ok(!open().isRecent, "a look in the future is another clock's");
  at.ms += 10;
  for (const text of ["", "this one as ever\n", "this one as ever\nNaN\nwhole\n", "\u0000"]) {
    writeFileSync(file, text);
    assert.ok(!open().isRecent, JSON.stringify(text));
    assert.equal(open().get(a), undefined);
  }
});

test("a guard that was seen to change alone: the locks under it are not known, until all are looked at", (t) => {
  const { at, open } = clone(t);
  const snapshot = open();
  snapshot.replace(new Map([[guardRef, oid(1)]]), at.ms);
  snapshot.see([
    [guardRef, oid(1)],
    [a, oid(2)],
  ]);
  assert.ok(snapshot.isWhole, "the guard is as it was");
  snapshot.see([[guardRef, oid(3)]]);
  assert.ok(snapshot.isRecent && !snapshot.isWhole && !open().isWhole);
  snapshot.replace(new Map([[guardRef, oid(3)]]), at.ms);
  assert.ok(snapshot.isWhole && open().isWhole);
});

test("what we changed ourselves is known as such: the guard with it", (t) => {
  const { at, open } = clone(t);
  const snapshot = open();
  snapshot.replace(new Map([[guardRef, oid(1)]]), at.ms);
  snapshot.set([
    [guardRef, oid(2)],
    [a, oid(3)],
    [b, oid(4)],
  ]);
  snapshot.set([[b, null]]);
  assert.ok(snapshot.isWhole);
  assert.deepEqual(
    [...open().refs()],
    [
      [guardRef, oid(2)],
      [a, oid(3)],
    ],
  );
});

test("without a look nothing is kept, and without a file nothing is written", (t) => {
  const { at, file, open } = clone(t);
  open().set([[a, oid(1)]]);
  assert.throws(() => readFileSync(file), /ENOENT/);
  const clock = { now: () => at.ms, wall: () => at.ms, boot: "b" };
  const none = new Snapshot(null, clock, "");
  none.replace(new Map([[a, oid(1)]]), at.ms);
  assert.ok(none.isWhole);
  // Where it cannot be written, only speed is lost.
  const nowhere = new Snapshot("/dev/null/nowhere/refs", clock, "");
  nowhere.replace(new Map([[a, oid(1)]]), at.ms);
  assert.equal(nowhere.get(a), oid(1));
});
