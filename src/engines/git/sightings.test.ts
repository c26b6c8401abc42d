import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Sightings } from "./sightings.js";

const name = "a".repeat(64);
const oid = (nth: number): string => nth.toString(16).padStart(40, "0");

/** Processes of one clone, on a machine whose clock the test sets. */
function clone(): {
  readonly at: { ms: number };
  readonly dir: string;
  readonly process: (boot?: string) => Sightings;
} {
  const dir = mkdtempSync(join(tmpdir(), "holdfast-seen-"));
  const at = { ms: 1_000_000 };
  const process = (boot = "this one"): Sightings =>
    new Sightings(dir, { now: () => at.ms, wall: () => at.ms, boot });
  return { at, dir, process };
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

test("what one process saw the next one knows, in files that are nobody else's", () => {
  const { at, dir, process } = clone();
  const from = at.ms;
  assert.deepEqual(process().see(name, oid(1)), { oid: oid(1), at: from, wrote: false });
  at.ms += 700;
  assert.deepEqual(process().see(name, oid(1)), { oid: oid(1), at: from, wrote: false });
  assert.equal(process().of(name, oid(2)), null, "another record of the same lock is another matter");
  assert.deepEqual(readdirSync(dir), [name], "nothing lies about");
  assert.equal(statSync(join(dir, name)).mode & 0o077, 0);
});

test("another start of the machine, a lost note or a damaged one only make it later", () => {
  const damage: readonly ((file: string) => void)[] = [
    (file) => rmSync(file),
    (file) => writeFileSync(file, ""),
    (file) => writeFileSync(file, "this one\n"),
    (file) => writeFileSync(file, `this one\n${oid(1)} -5\n`),
    (file) => writeFileSync(file, `this one\n${oid(1)} 1e3 wrote\n`),
    (file) => writeFileSync(file, `this one\n${oid(1)} 99999999999999 wrote\n`),
    (file) => writeFileSync(file, `another\n${oid(1)} 1 wrote\n`),
    (file) => writeFileSync(file, "\u0000".repeat(100)),
  ];
  for (const spoil of damage) {
    const { at, dir, process } = clone();
    process().willWrite(name, oid(1), at.ms);
    spoil(join(dir, name));
    at.ms += 500;
    assert.deepEqual(process().see(name, oid(1)), { oid: oid(1), at: at.ms, wrote: false }, spoil.toString());
  }
  const { at, process } = clone();
  process().see(name, oid(1));
  at.ms += 500;
  assert.equal(process("another start").see(name, oid(1)).at, at.ms);
});

test("where nothing can be written, a process remembers for itself", () => {
  const at = { ms: 1000 };
  const sightings = new Sightings("/dev/null/nowhere", { now: () => at.ms, wall: () => at.ms, boot: "b" });
  sightings.see(name, oid(1));
  at.ms += 500;
  assert.equal(sightings.see(name, oid(1)).at, 1000);
});

test("a line that was cut short, or ran into another, is no sighting of long ago", () => {
  const { at, process, dir } = clone();
  process().see(name, oid(1));
  const file = join(dir, name);
  const whole = readFileSync(file, "utf8");
  at.ms += 5;
  for (let cut = 1; cut < 10; cut++) {
    writeFileSync(file, whole.slice(0, -cut));
    // All but the end of the line is there, or less.
    assert.equal(process().of(name, oid(1))?.at ?? null, cut === 1 ? at.ms - 5 : null, `${cut} cut off`);
    assert.equal(process().see(name, oid(2)).at, at.ms);
    assert.ok([null, at.ms - 5].includes(process().of(name, oid(1))?.at ?? null), `${cut} cut off`);
  }
});

test("a file of notes does not grow for ever, and keeps the newest", () => {
  const { at, process, dir } = clone();
  const sightings = process();
  for (let nth = 0; nth < 1000; nth++) {
    at.ms += 1;
    sightings.willWrite(name, oid(nth), at.ms);
    assert.ok(readFileSync(join(dir, name), "utf8").split("\n").length <= 200);
  }
  assert.deepEqual(process().of(name, oid(999)), { oid: oid(999), at: at.ms, wrote: true });
});
