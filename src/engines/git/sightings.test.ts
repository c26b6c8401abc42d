import assert from "node:assert/strict";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Sightings } from "./sightings.js";

const name = "a".repeat(64);
const oid = (nth: number): string => nth.toString(16).padStart(40, "0");

/** Processes of one clone, on a machine whose clock the test sets. */
function clone(): { readonly at: { ms: number }; readonly process: () => Sightings } {
  const dir = mkdtempSync(join(tmpdir(), "holdfast-seen-"));
  const at = { ms: 1_000_000 };
  const clock = { now: () => at.ms, wall: () => at.ms, boot: "this one" };
  return { at, process: () => new Sightings(dir, clock) };
}

test("what another process wrote is known here, however much this one has noted before", () => {
  const { at, process } = clone();
  const [one, other] = [process(), process()];
  for (let nth = 0; nth < 100; nth++) one.see(name, oid(nth));
  other.willWrite(name, oid(1000), at.ms);
  at.ms += 500;
  assert.deepEqual(one.see(name, oid(1000)), { oid: oid(1000), at: at.ms - 500, wrote: true });
});

test("what stands there is remembered while others try in vain to take its place", () => {
  const { at, process } = clone();
  const [holder, other] = [process(), process()];
  const from = at.ms;
  holder.willWrite(name, oid(0), from);
  for (let nth = 1; nth < 100; nth++) {
    at.ms += 10;
    assert.equal(other.see(name, oid(0)).at, from);
    other.willWrite(name, oid(nth), at.ms);
  }
  assert.equal(process().see(name, oid(0)).at, from);
});

test("a look that does not find a lock forgets it, unless it is about to be made", () => {
  const { at, process } = clone();
  const [writer, looker] = [process(), process()];
  const from = at.ms;
  writer.willWrite(name, oid(1), from);
  looker.keepOnly(new Set());
  writer.keepOnly(new Set());
  at.ms += 1000;
  for (const sightings of [writer, looker, process()])
    assert.deepEqual(sightings.of(name, oid(1)), { oid: oid(1), at: from, wrote: true });
  at.ms += 3_600_000;
  looker.keepOnly(new Set());
  assert.equal(process().of(name, oid(1)), null);
});
