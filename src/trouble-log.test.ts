import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { TurnedClocks } from "../test/store-lab.js";
import { Attempts, theStore } from "./store/report.js";
import { MovedError, StoreError } from "./store/store.js";
import { TroubleLog } from "./trouble-log.js";

const away = new StoreError("unavailable", "it is away", { cause: new Error("it is away") });

let said: string[];
let clocks: TurnedClocks;
let due: { at: number; run: () => void }[];
let log: TroubleLog;

beforeEach(() => {
  said = [];
  due = [];
  clocks = new TurnedClocks();
  const say = (level: string) => (fields: object, text: string) =>
    void said.push([level, text, ...("err" in fields ? ["with its stack"] : [])].join(" | "));
  log = new TroubleLog({ info: say("info"), warn: say("warn"), error: say("error") }, clocks, (ms, run) => {
    const timer = { at: clocks.monotonicAt + ms, run };
    due.push(timer);
    return () => {
      due = due.filter((other) => other !== timer);
    };
  });
});

function pass(ms: number): void {
  clocks.pass(ms);
  const over = due.filter(({ at }) => at <= clocks.monotonicAt);
  due = due.filter(({ at }) => at > clocks.monotonicAt);
  for (const { run } of over) run();
}

test("one line when it begins, one a minute, one when it is over", () => {
  for (let i = 0; i < 1000; i++) {
    log.report("settling", away);
    pass(100);
  }
  log.report("settling", null);
  pass(5000);
  assert.deepEqual(said, [
    "warn | settling fails: it is away",
    "warn | settling still fails: it is away",
    "info | settling works again",
  ]);
});

test("what works only now and then is not over its trouble", () => {
  for (let i = 0; i < 100; i++) {
    log.report(theStore, i % 2 === 0 ? away : null);
    pass(100);
  }
  assert.deepEqual(said, ["error | the store fails: it is away"]);
  log.report(theStore, null);
  pass(5000);
  assert.deepEqual(said.slice(1), ["info | the store works again"]);
});

test("what fails while the store does is not said, unless it goes on afterwards or has a cause of its own", () => {
  log.report(theStore, away);
  log.report("settling", away);
  log.report("cleaning up", new Error("a bug"));
  pass(100);
  for (const what of [theStore, "settling"]) log.report(what, null);
  pass(5000);
  assert.deepEqual(said, [
    "error | the store fails: it is away",
    "warn | cleaning up fails | with its stack",
    "info | the store works again",
  ]);
  log.report("settling", away);
  assert.equal(said.at(-1), "warn | settling fails: it is away");
});

test("that data was moved is said whatever was said before, and is the last word", () => {
  log.report(theStore, away);
  log.report(theStore, new MovedError("it was moved"));
  log.report("settling", new MovedError("it was moved"));
  pass(600_000);
  log.report("settling", new MovedError("it was moved"));
  assert.deepEqual(said, [
    "error | the store fails: it is away",
    "error | the store still fails: it was moved",
  ]);
});

test("what is not tried again has another failure after a while", () => {
  log.report("taking back", away);
  pass(70_000);
  log.report("taking back", away);
  assert.deepEqual(said, Array(2).fill("warn | taking back fails: it is away"));
});

test("attempts tell of each failure, and of the first success after one", () => {
  const told: unknown[] = [];
  const attempts = new Attempts("trying", (_, failure) => told.push(failure));
  attempts.worked();
  attempts.failed("one");
  attempts.failed("two");
  attempts.worked();
  attempts.worked();
  assert.deepEqual(told, ["one", "two", null]);
});
