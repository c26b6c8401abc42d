// Who is refused for lack of room is told later the more there are, but always in time.
import assert from "node:assert/strict";
import { test } from "node:test";
import { HeldBack } from "./held-back.js";

/** For how long each of so many that come at once is held, in ms. */
function held(count: number): number[] {
  const all: number[] = [];
  const heldBack = new HeldBack((ms) => all.push(ms));
  for (let nth = 0; nth < count; nth++) heldBack.add(() => undefined);
  return all;
}

test("a few come back after 200 ms", () => {
  assert.deepEqual(held(3), [200, 200, 200]);
});

test("of a thousand no more than 250 are told in any second after the first", () => {
  const all = held(1000);
  for (let from = 201; from < 4000; from += 100)
    assert.ok(all.filter((ms) => ms >= from && ms < from + 1000).length <= 250, `from ${from} ms`);
});

test("nobody is held for more than 5 s, and of a flood those beyond 10,000 no longer than they must", () => {
  const all = held(12_000);
  assert.equal(Math.max(...all), 5000);
  assert.deepEqual([...new Set(all.slice(10_000))], [200]);
});

test("who was told makes room", () => {
  const waiting: (() => void)[] = [];
  const all: number[] = [];
  const heldBack = new HeldBack((ms, run) => {
    all.push(ms);
    waiting.push(run);
  });
  let told = 0;
  const tell = (): void => {
    told++;
  };
  for (let nth = 0; nth < 500; nth++) heldBack.add(tell);
  for (const run of waiting.splice(0)) run();
  heldBack.add(tell);
  assert.deepEqual([told, all.at(-2), all.at(-1)], [500, 1996, 200]);
});
