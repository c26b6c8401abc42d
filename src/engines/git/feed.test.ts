// What must have happened between two looks at a lock.
import assert from "node:assert/strict";
import { test } from "node:test";
import { free, held } from "../../../test/store-lab.js";
import type { EndedHow, LockRecord } from "../../core/records.js";
import { between } from "./feed.js";

const ended = (lock: LockRecord, leaseId: string, how: EndedHow): LockRecord => ({
  ...lock,
  previous: {
    leaseId,
    principal: "runner-1",
    owner: null,
    token: 1,
    since: 1,
    endedAt: 5,
    how,
    by: null,
    reason: null,
  },
});

const one = held("a", 1);
const two = held("a", 2);
const own = "lease-a-1";

const rows: readonly [what: string, before: LockRecord | null, after: LockRecord, told: readonly string[]][] =
  [
    ["made and held", null, one, ["acquired 1"]],
    ["made and freed since", null, free("a", 1), []],
    ["taken", free("a", 1), two, ["acquired 2"]],
    ["renewed", one, one, ["renewed 1"]],
    ["given back", one, ended(free("a", 1), own, "released"), ["released 1"]],
    ["ended by force", one, ended(free("a", 1), own, "forced"), ["released 1"]],
    ["over", one, ended(free("a", 1), own, "expired"), ["expired 1"]],
    ["given back and taken", one, ended(two, own, "released"), ["released 1", "acquired 2"]],
    ["over and taken", one, ended(two, own, "expired"), ["expired 1", "acquired 2"]],
    [
      "taken, and others between",
      one,
      ended(held("a", 5), "another", "released"),
      ["expired 1", "acquired 5"],
    ],
    ["still free", free("a", 1), free("a", 1), []],
  ];

for (const [what, before, after, told] of rows)
  test(`${what}: ${told.join(", ") || "nothing"}`, () => {
    const events = between(before, after, 77);
    assert.deepEqual(
      events.map(({ type, token }) => `${type} ${token}`),
      told,
    );
    for (const event of events) {
      assert.deepEqual([event.space, event.name, event.at], ["default", "a", 77]);
      assert.equal(event.principal, "runner-1");
    }
  });
