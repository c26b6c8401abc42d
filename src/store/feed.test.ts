import assert from "node:assert/strict";
import { test } from "node:test";
import { Bell, cursorOf, type FeedSource, follow, type NumberedEvent, numberOf } from "./feed.js";
import { StoreError } from "./store.js";

const numbered = (number: number): NumberedEvent => ({
  number,
  event: { type: "token", space: "default", id: String(number) },
});

/** A feed of which only the events above `trimmed` are kept. */
class Source implements FeedSource {
  readonly epoch = "e1";
  readonly bell = new Bell();
  trimmed = 0;
  #last = 0;

  grow(to: number): void {
    this.#last = to;
    this.bell.ring();
  }

  last(): number {
    return this.#last;
  }

  read(after: number, limit: number): NumberedEvent[] | null {
    if (after < this.trimmed) return null;
    return Array.from({ length: Math.min(limit, this.#last - after) }, (_, i) => numbered(after + 1 + i));
  }

  more(after: number, signal: AbortSignal): Promise<void> {
    return this.bell.wait(() => this.#last > after, signal);
  }
}

test("a cursor is read back only in its own epoch", () => {
  const rows: [cursor: string, number: number | null][] = [
    [cursorOf("e1", 0), 0],
    [cursorOf("e1", 123_456_789_012_345), 123_456_789_012_345],
    [cursorOf("e2", 5), null],
    ["e1-1234567890123456", null],
    ["e1-", null],
    ["e1--5", null],
    ["e1-5 ", null],
    ["-5", null],
    ["", null],
  ];
  for (const [cursor, number] of rows) assert.equal(numberOf("e1", cursor), number, JSON.stringify(cursor));
});

test("more events than one page come in order, without a wait between", async () => {
  const source = new Source();
  source.grow(1500);
  const over = new AbortController();
  let expected = 1;
  for await (const change of follow(source, cursorOf("e1", 0), over.signal)) {
    assert.deepEqual(change, { cursor: cursorOf("e1", expected), event: numbered(expected).event });
    if (expected++ === 1500) over.abort();
  }
  assert.equal(expected, 1501);
});

test("a follower that fell behind what is kept is told once and goes on", async () => {
  const source = new Source();
  source.grow(600);
  const over = new AbortController();
  const changes = follow(source, cursorOf("e1", 0), over.signal);
  for (let i = 1; i <= 512; i++) await changes.next();
  source.trimmed = 590;
  assert.deepEqual((await changes.next()).value, { cursor: cursorOf("e1", 600), reset: true });
  const next = changes.next();
  source.grow(601);
  assert.equal((await next).value?.cursor, cursorOf("e1", 601));
  over.abort();
  assert.equal((await changes.next()).done, true);
});

test("a bell wakes whoever waits, once, and forgets who left", async () => {
  const bell = new Bell();
  const left = new AbortController();
  const woken: string[] = [];
  const waits = [
    bell.wait(() => false, new AbortController().signal).then(() => woken.push("one")),
    bell.wait(() => false, left.signal).then(() => woken.push("left")),
    bell.wait(() => true, new AbortController().signal).then(() => woken.push("ready")),
    bell.wait(() => false, AbortSignal.abort()).then(() => woken.push("gone")),
  ];
  left.abort();
  bell.ring();
  await Promise.all(waits);
  assert.deepEqual(woken.toSorted(), ["gone", "left", "one", "ready"]);
  bell.close();
  await assert.rejects(
    bell.wait(() => true, new AbortController().signal),
    (error) => error instanceof StoreError && error.kind === "closed",
  );
});
