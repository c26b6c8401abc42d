// The checker accuses nobody wrongly: random histories of a correct service, with lost replies, late requests,
// crashes, restores, sessions, queues and clocks that differ, whole and cut short as a run looks at its own. A failure prints its seed; HISTORIES=5000 plays more.
import assert from "node:assert/strict";
import { test } from "node:test";
import { check } from "../../src/verify/check.js";
import type { History, Operation } from "../../src/verify/history.js";
import { seeded } from "../../src/verify/seed.js";
import { playHistory, settingOf } from "./driver.js";

const histories = Number(process.env.HISTORIES ?? 1000);

/** Histories without these show nothing. */
const needed: Record<string, (history: History) => number> = {
  grants: count("acquire", "granted"),
  "lost replies": ({ operations }) => operations.filter(({ reply }) => reply.kind === "unknown").length,
  "refused during a lock delay": count("acquire", "delayed"),
  "spent request ids": count("acquire", "lost"),
  "used request ids": count("acquire", "reused"),
  "stale leases": count("renew", "lost"),
  "dead sessions": count("acquire", "gone"),
  "forced ends": count("force", "done"),
  "held by an overlapping name": ({ operations }) =>
    operations.filter(({ reply }) => reply.kind === "held" && reply.token === null).length,
  "repeats and re-entries": repeats,
  "waits in vain": ({ operations }) =>
    operations.filter(({ call, reply }) => call.op === "acquire" && call.waitMs > 0 && reply.kind === "held")
      .length,
  "expired leases": ({ seen }) => seen.filter(({ event }) => event === "expired").length,
  "resets of streams": ({ seen }) => seen.filter(({ event }) => event === "reset").length,
  restores: ({ quiet = [] }) => quiet.length,
  "connections of streams that are judged by time": ({ seen, timely }) =>
    timely === undefined ? 0 : seen.filter(({ event }) => event === "opened").length,
  "waiters granted that are judged by time": ({ operations, timely }) =>
    timely === undefined
      ? 0
      : operations.filter(
          ({ call, reply }) => call.op === "acquire" && call.waitMs > 0 && reply.kind === "granted",
        ).length,
};

function count(op: string, kind: string): (history: History) => number {
  return ({ operations }) =>
    operations.filter(({ call, reply }) => call.op === op && reply.kind === kind).length;
}

/** Acquires that were answered with a lease that another acquire had got. */
function repeats({ operations }: History): number {
  const leases = operations.flatMap(({ call, reply }) =>
    call.op === "acquire" && reply.kind === "granted" ? reply.lease : [],
  );
  return leases.length - new Set(leases).size;
}

/** As much of it as somebody has seen who looks after this share of its time: what is under way has no reply yet. */
function until(history: History, share: number): History {
  const at = share * Math.max(...history.operations.map(({ began }) => began));
  const operations = history.operations
    .filter(({ began }) => began <= at)
    .map(
      (operation): Operation =>
        operation.ended <= at
          ? operation
          : { ...operation, ended: Number.POSITIVE_INFINITY, reply: { kind: "unknown", why: "under way" } },
    );
  return { ...history, operations, seen: history.seen.filter((seen) => seen.at <= at) };
}

test(`of ${histories} valid histories none is accused and none is left undecided`, (t) => {
  const reached = new Map(Object.keys(needed).map((what) => [what, 0]));
  let operations = 0;
  for (let seed = 1; seed <= histories; seed++) {
    const history = playHistory(settingOf(seed));
    const { violations, unknown } = check(history);
    const says = violations.map(({ invariant, name, says }) => `${invariant} ${name}: ${says}`);
    assert.deepEqual([says, unknown], [[], []], `seed ${seed}`);
    const glimpsed = check(until(history, seeded(seed)()));
    assert.deepEqual([glimpsed.violations, glimpsed.unknown], [[], []], `seed ${seed}, cut short`);
    operations += history.operations.length;
    for (const [what, times] of Object.entries(needed))
      reached.set(what, (reached.get(what) ?? 0) + times(history));
  }
  t.diagnostic(`${operations} operations`);
  for (const [what, times] of reached) {
    t.diagnostic(`${what}: ${times}`);
    assert.ok(times * 50 > histories, `hardly any ${what}`);
  }
});
