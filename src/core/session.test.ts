/** Rule 10: sessions. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { rule, Table } from "../../test/core-table.js";
import { sessionKey } from "./keys.js";
import { rangeMax } from "./limits.js";

describe("rule 10: a lease lives with its session", () => {
  rule("without a TTL of its own it lives exactly as long as the session", [
    "t=0      session s1 a ttl=10    | session until=10",
    "         acquire k a session=s1 | granted 1 until=10 ttl=none",
    "t=8      keepalive s1 a         | session until=18 leases=1",
    "t=18     acquire k b ttl=10     | held by=a until=18",
    "t=18.001 acquire k b ttl=10     | granted 2 events=expired:k:1+acquired:k:2",
    "         inspect k              | held 2 previous=session:a",
  ]);
  rule("with a TTL it lives to the earlier of the two: its own", [
    "t=0  session s1 a ttl=60            | session",
    "     acquire k a session=s1 ttl=10  | granted 1 until=10",
    "t=11 inspect k                      | free 1 previous=expired:a ended=10 events=expired:k:1",
    "     look s1 a                      | session until=60 leases=0",
  ]);
  rule("with a TTL it lives to the earlier of the two: the session's", [
    "t=0  session s1 a ttl=10            | session",
    "     acquire k a session=s1 ttl=60  | granted 1 until=10",
    "t=5  renew k a                      | renewed 1 until=10",
    "t=11 inspect k                      | free 1 previous=session:a ended=10 events=expired:k:1",
  ]);
  rule("a keepalive does not lengthen a TTL of its own; renewing does", [
    "t=0  session s1 a ttl=60           | session",
    "     acquire k a session=s1 ttl=10 | granted 1 until=10",
    "t=5  keepalive s1 a                | session until=65",
    "     inspect k                     | held 1 until=10",
    "     renew k a                     | renewed 1 until=15",
    "t=16 inspect k                     | free 1 previous=expired:a",
  ]);
  rule("renewing a lease without TTL answers the session's expiry and does not renew the session", [
    "t=0  session s1 a ttl=10    | session",
    "     acquire k a session=s1 | granted 1",
    "t=5  renew k a              | renewed 1 until=10",
    "     look s1 a              | session until=10",
    "t=11 renew k a              | not_current events=expired:k:1",
  ]);
  rule("nobody can take a lease with a session of another, an unknown one, or a dead one", [
    "t=0  session s1 a ttl=10           | session",
    "     acquire k b session=s1        | session_unknown writes=0",
    "     acquire k b session=made-up   | session_unknown writes=0",
    "     acquire k a session=s1 space=two | session_unknown writes=0",
    "t=11 acquire k a session=s1        | session_expired ended=10",
    "     inspect k                     | free 0",
  ]);
});

describe("rule 10: keepalive", () => {
  rule("sets the later of the current expiry and now + TTL", [
    "t=0  session s1 a ttl=10 | session until=10",
    "t=4  keepalive s1 a      | session until=14",
    "t=14 keepalive s1 a      | session until=24",
  ]);
  rule("never revives", [
    "t=0      session s1 a ttl=10 | session",
    "t=10.001 keepalive s1 a      | session_expired ended=10",
    "         keepalive s1 a      | session_expired ended=10 writes=0",
    "         look s1 a           | session expired",
  ]);
  rule("is for the session's own principal", [
    "t=0 session s1 a ttl=10 | session",
    "    keepalive s1 b      | session_unknown writes=0",
    "    look s1 b           | session_unknown writes=0",
    "    end s1 b            | session_unknown writes=0",
    "    keepalive s2 a      | session_unknown writes=0",
  ]);
  test("is one write, whatever the number of leases", () => {
    const table = new Table();
    table.run(["t=0 session s1 a ttl=60 | session"]);
    for (let nth = 0; nth < 200; nth++) table.run([`acquire k${nth} a session=s1 | granted 1`]);
    table.run(["t=50 keepalive s1 a | session until=110 leases=200 writes=1 kinds=session events=none"]);
    table.run(["t=100 inspect k199 | held 1 until=110"]);
  });
});

describe("rule 10: the end of a session", () => {
  rule("deleted: its leases are over in that moment, one released event each", [
    "t=0 session s1 a ttl=10     | session",
    "    acquire k1 a session=s1 | granted 1",
    "    acquire k2 a session=s1 | granted 1",
    "t=3 end s1 a                | session deleted leases=2 writes=1 events=none",
    "    acquire k1 b ttl=10     | granted 2 events=released:k1:1+acquired:k1:2",
    "    inspect k1              | held 2 previous=session:a",
    "    drain s1                | drained more=no events=released:k2:1",
    "    inspect k2              | free 1 previous=session:a ended=3",
    "    look s1 a               | session deleted leases=0",
    "    drain s1                | drained more=no writes=0",
  ]);
  rule("expired: one expired event each, at the sweep", [
    "t=0  session s1 a ttl=10     | session",
    "     acquire k1 a session=s1 | granted 1",
    "     acquire k2 a session=s1 | granted 1",
    "t=10 sweep                   | swept 0",
    "t=15 sweep                   | swept 1 more=no events=expired:k1:1+expired:k2:1",
    "     inspect k2              | free 1 previous=session:a ended=10",
    "     look s1 a               | session expired leases=0 writes=0",
    "     sweep                   | swept 0 writes=0",
  ]);
  rule("a lease that was over before its session was deleted has expired", [
    "t=0 session s1 a ttl=10          | session",
    "    acquire k a session=s1 ttl=2 | granted 1",
    "t=3 end s1 a                     | session deleted",
    "    drain s1                     | drained events=expired:k:1",
    "    inspect k                    | free 1 previous=expired:a ended=2",
  ]);
  rule("its waiters are served with it", [
    "t=0  session s1 a ttl=10    | session",
    "     acquire k a session=s1 | granted 1",
    "     wait k b ttl=10        | held",
    "t=11 sweep                  | swept 1 heirs=b:2 events=expired:k:1+acquired:k:2",
  ]);
  rule("a renew or release after it is too late", [
    "t=0 session s1 a ttl=10      | session",
    "    acquire k a session=s1   | granted 1",
    "    acquire z a session=s1   | granted 1",
    "    end s1 a                 | session deleted",
    "    release k a              | not_current previous=session:a events=released:k:1",
    "    renew z a                | not_current previous=session:a events=released:z:1",
    "    end s1 a                 | session_expired ended=0 writes=0",
    "    acquire k a session=s1   | session_expired writes=0",
  ]);
  rule("the count follows its leases", [
    "t=0 session s1 a ttl=60             | session leases=0",
    "    acquire k1 a session=s1         | granted 1",
    "    acquire k2 a session=s1         | granted 1",
    "    acquire k2 a session=s1         | again 1",
    "    acquire k3 a session=s1 ttl=1   | granted 1",
    "    keepalive s1 a                  | session leases=3",
    "    release k1 a                    | released",
    "    keepalive s1 a                  | session leases=2",
    "t=2 sweep                           | swept 1",
    "    keepalive s1 a                  | session leases=1",
    "    force k2 boss                   | ended 1",
    "    keepalive s1 a                  | session leases=0",
  ]);
  rule("an ended session says so for an hour, then it is unknown", [
    "t=0        session s1 a ttl=10    | session",
    "           acquire k a session=s1 | granted 1",
    "t=5        end s1 a               | session deleted",
    "t=6        drain s1               | drained events=released:k:1",
    "t=3606     clean                  | cleaned 0",
    "           keepalive s1 a         | session_expired ended=5",
    "t=3606.001 clean                  | cleaned 1",
    "           keepalive s1 a         | session_unknown",
  ]);
});

describe("rule 10: a session with many leases ends in bounded steps", () => {
  const many = 2 * rangeMax + 5;
  const held = (table: Table): number => table.world.rows("held").length;
  function crowded(): Table {
    const table = new Table();
    table.run(["t=0 session s1 a ttl=10 | session", "session s2 a ttl=60 | session"]);
    for (let nth = 0; nth < many; nth++) table.run([`acquire k${nth} a session=s1 | granted 1`]);
    return table;
  }
  test("deleted: it stays due until the last is settled, and none of them is held meanwhile", () => {
    const table = crowded();
    table.run(["t=1 end s1 a | session deleted writes=1 due=0.999", "drain s1 | drained more=yes"]);
    assert.equal(held(table), many - rangeMax);
    table.run([`look s1 a | session deleted due=0.999 leases=${many - rangeMax}`]);
    table.run([`acquire k${many - 1} b ttl=60 | granted 2`]);
    table.run(["t=2 sweep | swept 1 more=yes", "sweep | swept 1 more=no"]);
    assert.equal(held(table), 1);
    table.run(["look s1 a | session deleted due=0 leases=0", "sweep | swept 0 more=no writes=0"]);
    assert.equal(endings(table).length, many);
    assert.ok(endings(table).every((ending) => ending.startsWith("released")));
  });
  test("expired: likewise", () => {
    const table = crowded();
    table.run(["t=11 sweep | swept 1 more=yes", "sweep | swept 1 more=yes", "sweep | swept 1 more=no"]);
    assert.equal(held(table), 0);
    assert.equal(new Set(endings(table)).size, many);
    assert.ok(endings(table).every((ending) => ending.startsWith("expired")));
    assert.equal(table.world.record(sessionKey("default", "s1"))?.leases, 0);
  });
  test("many sessions that end together do not need more rounds than one", () => {
    const table = new Table();
    for (let nth = 0; nth < 30; nth++)
      table.run([
        `t=0 session s${nth} a ttl=10       | session`,
        `acquire k${nth} a session=s${nth}  | granted 1`,
        `acquire z${nth} a session=s${nth}  | granted 1`,
        `wait z${nth} b ttl=10              | held`,
      ]);
    table.run(["t=11 sweep | swept 30 more=no"]);
    assert.equal(endings(table).length, 60);
    assert.equal(held(table), 30);
  });
});

const endings = (table: Table): string[] =>
  table.world.events.flatMap((event) =>
    event.type === "released" || event.type === "expired" ? [`${event.type} ${event.name}`] : [],
  );

rule("a session deleted at the first instant of engine time is drained too", [
  "t=0 session s1 a ttl=10    | session",
  "    acquire k a session=s1 | granted 1",
  "    end s1 a               | session deleted",
  "t=1 sweep                  | swept 1 events=released:k:1",
  "    inspect k              | free 1 previous=session:a ended=0",
]);
