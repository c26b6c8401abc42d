/** Rules 4 and 5: only the live lease goes on. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { rule, Table } from "../../test/core-table.js";
import { floorKey } from "./keys.js";
import { policyDefault } from "./limits.js";

describe("rule 4: renew", () => {
  rule("sets the later of the current expiry and now + TTL, and keeps the token", [
    "t=0  acquire k a ttl=10 | granted 1 until=10",
    "t=4  renew k a          | renewed 1 until=14 since=0 events=renewed:k:1",
    "     renew k a ttl=60   | renewed 1 until=64",
    "t=5  renew k a          | renewed 1 until=65",
    "t=65 renew k a          | renewed 1 until=125",
  ]);
  rule("only an explicit TTL may shorten", [
    "t=0  acquire k a ttl=60 | granted 1 until=60",
    "t=1  extend k a ttl=100 | renewed 1 until=101",
    "t=2  renew k a          | renewed 1 until=101",
    "t=3  renew k a ttl=5    | renewed 1 until=8 ttl=5",
    "t=8  renew k a          | renewed 1 until=13",
    "     inspect k          | held 1 due=8",
    "t=14 acquire k b ttl=5  | granted 2",
  ]);
  rule("never revives", [
    "t=0      acquire k a ttl=10 | granted 1",
    "t=10.001 renew k a          | not_current previous=expired:a ended=10 events=expired:k:1",
    "         renew k a          | not_current previous=expired:a writes=0",
    "         renew k a ttl=60   | not_current previous=expired:a writes=0",
  ]);
  rule("a wrong or old lease id changes nothing", [
    "t=0  acquire k a ttl=10 as=old  | granted 1",
    "t=1  renew k a lease=made-up    | not_current by=a writes=0",
    "     renew k b lease=old        | not_current by=a writes=0",
    "     release k a                | released",
    "     acquire k a ttl=10 as=new  | granted 2",
    "t=2  renew k a lease=old ttl=60 | not_current by=a token=2 until=11 writes=0",
    "     renew other a lease=new    | not_current writes=0",
    "     renew k a lease=new space=two | not_current writes=0",
    "     renew k a lease=new        | renewed 2",
  ]);
  rule("says who took it and why after a force release", [
    "t=0 acquire k a ttl=10       | granted 1",
    "t=1 force k boss reason=hang | ended 1",
    "    renew k a                | not_current previous=forced:a:boss ended=1 writes=0",
  ]);
  rule("keeps the progress unless there is a new one", [
    "t=0 acquire k a ttl=10     | granted 1 progress=none",
    "    renew k a progress=50% | renewed 1 progress=50%",
    "    renew k a              | renewed 1 progress=50%",
  ]);
  rule("does not move the due entry, which may be early and never late", [
    "t=0 acquire k a ttl=10 | granted 1",
    "    inspect k          | held 1 due=10",
    "t=9 renew k a ttl=60   | renewed 1 until=69",
    "    inspect k          | held 1 due=10",
    "    renew k a ttl=0.5  | renewed 1 until=9.5",
    "    inspect k          | held 1 due=9.5",
  ]);
  rule("many at once are one step, each answered for itself", [
    "t=0  acquire k1 a ttl=10       | granted 1",
    "     acquire k2 b ttl=10       | granted 1",
    "     acquire k3 a ttl=1        | granted 1",
    "t=5  renew-many k1,k2,k3 a     | renewed not_current not_current events=renewed:k1:1+expired:k3:1",
  ]);
});

test("many renewals of many sessions cost no more rounds than one, and serve the queues of what is over", () => {
  const table = new Table();
  const names: string[] = [];
  for (let nth = 0; nth < 12; nth++) {
    names.push(`k${nth}`);
    table.run([
      `t=0 session s${nth} a ttl=60   | session`,
      `session w${nth} w ttl=60       | session`,
      `acquire k${nth} a session=s${nth} ttl=${nth < 6 ? 5 : 60} | granted 1`,
      `wait k${nth} w session=w${nth} | held`,
    ]);
  }
  table.run([
    `t=6 renew-many ${names.join(",")} a | ${names.map((_, nth) => (nth < 6 ? "not_current" : "renewed")).join(" ")} heirs=w:2+w:2+w:2+w:2+w:2+w:2`,
  ]);
});

describe("rule 5: extend", () => {
  rule("only lengthens", [
    "t=0 acquire k a ttl=60 | granted 1 until=60",
    "t=1 extend k a ttl=30  | renewed 1 until=60 capped=no writes=0 events=none",
    "    extend k a ttl=90  | renewed 1 until=91 capped=no events=renewed:k:1",
    "    renew k a          | renewed 1 until=91 ttl=60",
  ]);
  rule("lengthens to what was asked for, not to more", [
    "t=0  acquire k a ttl=60 | granted 1 until=60",
    "t=10 extend k a ttl=55  | renewed 1 until=65",
  ]);
  rule(
    "stops at the policy's maximum and says so",
    [
      "t=0 acquire k a ttl=10  | granted 1",
      "t=5 extend k a ttl=100  | renewed 1 until=105 capped=no",
      "    extend k a ttl=101  | renewed 1 until=105 capped=yes writes=0",
      "t=6 extend k a ttl=5000 | renewed 1 until=106 capped=yes",
    ],
    { ...policyDefault, ttlMaxMs: 100_000 },
  );
  rule("never revives, and a wrong lease id changes nothing", [
    "t=0  acquire k a ttl=10           | granted 1",
    "     extend k b ttl=60 lease=a    | not_current by=a writes=0",
    "     extend k a ttl=60 lease=none | not_current by=a writes=0",
    "t=11 extend k a ttl=60            | not_current previous=expired:a events=expired:k:1",
  ]);
  rule("a lease that lives with its session is as long as that is", [
    "t=0 session s1 a ttl=30    | session",
    "    acquire k a session=s1 | granted 1 until=30",
    "    extend k a ttl=60      | renewed 1 until=30 writes=0",
  ]);
});

test("the longest time that any lease was ever given is known, for a restored copy to wait out", () => {
  const table = new Table();
  const longest = (): number | undefined => table.world.record(floorKey("default"))?.ttlHighMs;
  table.run(["t=0 acquire k a ttl=10 as=x | granted 1"]);
  assert.equal(longest(), 10_000);
  table.run(["acquire k a ttl=20 proof=x | again 1 until=20"]);
  assert.equal(longest(), 20_000, "by getting it again");
  table.run(["renew k a ttl=30 | renewed 1"]);
  assert.equal(longest(), 30_000, "by renewing it");
  table.run(["extend k a ttl=40 | renewed 1"]);
  assert.equal(longest(), 40_000, "by extending it");
  table.run(["session s1 a ttl=50 | session"]);
  assert.equal(longest(), 50_000, "by a session");
  table.run(["renew k a ttl=1 | renewed 1"]);
  assert.equal(longest(), 50_000, "it never goes down");
});
