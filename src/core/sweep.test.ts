/** Rules 1 and 7 over time: settling what is due, and clean-up that never lets a token go back. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { rule, Table } from "../../test/core-table.js";
import { floorKey, lockKey } from "./keys.js";
import { rangeMax, sweepWritesMax } from "./limits.js";

describe("the sweep", () => {
  rule("settles what is over and leaves the rest", [
    "t=0  acquire k1 a ttl=10 | granted 1",
    "     acquire k2 a ttl=20 | granted 1",
    "t=11 sweep               | swept 1 more=no events=expired:k1:1",
    "t=21 sweep               | swept 1 more=no events=expired:k2:1",
    "     sweep               | swept 0 writes=0",
  ]);
  rule("moves an early due entry to where it belongs", [
    "t=0  acquire k a ttl=10 | granted 1",
    "t=9  renew k a          | renewed 1 until=19",
    "     inspect k          | held 1 due=10",
    "t=11 sweep              | swept 1 events=none",
    "     inspect k          | held 1 until=19 due=19",
    "     sweep              | swept 0 writes=0",
    "t=20 sweep              | swept 1 events=expired:k:1",
  ]);
  rule("moves a session that was kept alive likewise", [
    "t=0  session s1 a ttl=10    | session due=10",
    "     acquire k a session=s1 | granted 1",
    "t=9  keepalive s1 a         | session until=19 due=10",
    "t=11 sweep                  | swept 1 events=none kinds=session",
    "     look s1 a              | session due=19",
    "t=20 sweep                  | swept 1 events=expired:k:1",
  ]);
  rule("serves the queues of paths too, and never two that overlap", [
    "t=0  acquire path:a x ttl=10 | granted 1",
    "     wait path:a b ttl=10    | held by=x on=path:a",
    "     wait path:a/c d ttl=10  | queued",
    "t=11 sweep                   | swept 1 heirs=b:2 events=expired:path:a:1+acquired:path:a:2",
    "     serve path:a/c          | served heirs=none",
  ]);
  test("works in bounded steps", () => {
    const table = new Table();
    const many = 2 * rangeMax + 9;
    for (let nth = 0; nth < many; nth++) table.run([`t=0 acquire k${nth} a ttl=10 | granted 1`]);
    table.run(["t=11 sweep | swept 128 more=yes", "sweep | swept 128 more=yes", "sweep | swept 9 more=no"]);
    assert.equal(table.world.rows("held").length, 0);
    assert.equal(table.world.events.filter((event) => event.type === "expired").length, many);
  });
  test("stops when a step has written enough, and says that there is more", () => {
    const table = new Table();
    for (let nth = 0; nth < 100; nth++)
      table.run([
        `t=0 session s${nth} w ttl=60 | session`,
        `acquire k${nth} a ttl=10 | granted 1`,
        `wait k${nth} w session=s${nth} request=r${nth} | held`,
      ]);
    // Each serves a waiter: lock, session and request are written.
    const fit = Math.ceil(sweepWritesMax / 3);
    table.run([`t=11 sweep | swept ${fit} more=yes`, `sweep | swept ${100 - fit} more=no`]);
    for (let nth = 0; nth < 100; nth++) table.run([`inspect k${nth} | held 2 by=w`]);
  });
  test("looks at a bounded number of leases, however many sessions end together", () => {
    const table = new Table();
    for (const session of ["s1", "s2", "s3"]) {
      table.run([`t=0 session ${session} a ttl=10 | session`]);
      for (let nth = 0; nth < 100; nth++)
        table.run([`acquire ${session}-${nth} a session=${session} | granted 1`]);
    }
    table.run(["t=11 sweep | swept 2 more=yes", "sweep | swept 1 more=no"]);
    assert.equal(table.world.rows("held").length, 0);
  });
  test("serves few paths in one step, for each may overlap many", () => {
    const table = new Table();
    for (const name of ["path:a", "path:b", "path:c"])
      table.run([`t=0 acquire ${name} a ttl=10 | granted 1`, `wait ${name} b ttl=10 | held`]);
    table.run(["t=11 sweep | swept 2 more=yes heirs=b:2+b:2", "sweep | swept 1 more=no heirs=b:2"]);
  });
});

describe("clean-up", () => {
  rule("a free record is folded into the floor after a day, and tokens never go back", [
    "t=0         acquire k a ttl=10       | granted 1",
    "            release k a              | released",
    "            acquire k a ttl=10       | granted 2",
    "            release k a              | released",
    "t=86400     clean                    | cleaned 0",
    "t=86400.001 clean                    | cleaned 1 kinds=floor+lock events=none",
    "            inspect k                | free 0",
    "            acquire k b ttl=10       | granted 3",
    "            acquire other b ttl=10   | granted 3",
  ]);
  rule("the floor only rises", [
    "t=0     acquire k1 a ttl=10 | granted 1",
    "        release k1 a        | released",
    "        acquire k1 a ttl=10 | granted 2",
    "        release k1 a        | released",
    "        acquire k2 a ttl=10 | granted 1",
    "t=1     release k2 a        | released",
    "t=86500 clean               | cleaned 2",
    "        acquire k1 a ttl=10 | granted 3",
    "        acquire k2 a ttl=10 | granted 3",
  ]);
  rule("a held name is never cleaned up", [
    "t=0     acquire k a ttl=10    | granted 1",
    "        release k a           | released",
    "        acquire k a ttl=86400 | granted 2",
    "t=86400 renew k a             | renewed 2",
    "t=99999 clean                 | cleaned 0 writes=0",
    "        inspect k             | held 2",
  ]);
  rule("waiters of a name whose record is gone are still served", [
    "t=0     acquire k a ttl=10      | granted 1",
    "        release k a             | released",
    "t=86401 clean                   | cleaned 1",
    "        restored quiet=86402 floor=1 | restored",
    "        wait k b ttl=10         | delayed",
    "t=86403 acquire k c ttl=10      | held by=b token=2 heirs=b:2",
  ]);
  rule("a lock delay that nobody has ended yet is left to the sweep, which serves the queue", [
    "t=0     acquire k a ttl=10 delay=5 | granted 1",
    "        wait k b ttl=10            | held",
    "t=11    inspect k                  | free 1",
    "t=86500 clean                      | cleaned 0",
    "        sweep                      | swept 1 heirs=b:2",
  ]);
  test("works in bounded steps", () => {
    const table = new Table();
    const many = rangeMax + 3;
    for (let nth = 0; nth < many; nth++)
      table.run([`t=0 acquire k${nth} a ttl=10 | granted 1`, `release k${nth} a | released`]);
    table.run(["t=86401 clean | cleaned 128 more=yes writes=129", "clean | cleaned 3 more=no"]);
    assert.deepEqual(
      [...table.world.records()].map(([key]) => key),
      [floorKey("default")],
    );
  });
  test("the floor keeps the longest TTL and the quiet time", () => {
    const table = new Table();
    table.run(["t=0 acquire k a ttl=77 | granted 1", "release k a | released", "t=86401 clean | cleaned 1"]);
    assert.deepEqual(table.world.record(floorKey("default")), {
      kind: "floor",
      space: "default",
      token: 1,
      ttlHighMs: 77_000,
      quietUntil: 0,
    });
    assert.equal(table.world.record(lockKey("default", "k")), null);
  });
});
