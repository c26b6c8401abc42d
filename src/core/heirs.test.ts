/** Rule 9: whoever finds a name free serves its queue in the same step. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { rule, Table } from "../../test/core-table.js";
import { sessionKey } from "./keys.js";

describe("rule 9: waiting", () => {
  rule("first come, first served, one grant per release", [
    "t=0 acquire k a ttl=10 | granted 1",
    "    wait k b ttl=10    | held by=a",
    "    wait k c ttl=10    | held by=a",
    "    wait k d ttl=10    | held by=a",
    "t=1 release k a        | released heirs=b:2 events=released:k:1+acquired:k:2",
    "t=2 release k b        | released heirs=c:3",
    "    leave k d          | left",
    "t=3 release k c        | released heirs=none",
    "    inspect k          | free 3",
  ]);
  rule("a waiter for a free name is granted at once", [
    "t=0 wait k a ttl=10 | granted 1 heirs=a:1 events=acquired:k:1",
  ]);
  rule("an acquire never passes a live waiter", [
    "t=0  acquire k a ttl=10 | granted 1",
    "     wait k b ttl=10    | held by=a",
    "t=11 acquire k c ttl=10 | held by=b token=2 until=21 heirs=b:2 events=expired:k:1+acquired:k:2",
  ]);
  rule("nor does a claim of several, nor a later waiter", [
    "t=0  acquire k a ttl=10     | granted 1",
    "     wait k b ttl=10        | held by=a",
    "t=11 first k,other c ttl=10 | granted 1 on=other refused=k:held heirs=b:2",
    "t=22 wait k d ttl=10        | granted 3 heirs=d:3 events=expired:k:2+acquired:k:3",
    "     wait k e ttl=10        | held by=d",
    "t=33 wait k f ttl=10        | held by=e token=4 heirs=e:4",
  ]);
  rule("a waiter is granted from the moment of the grant, not from when it began to wait", [
    "t=0  acquire k a ttl=100 | granted 1",
    "t=1  wait k b ttl=10     | held",
    "t=50 release k a         | released heirs=b:2",
    "     inspect k           | held 2 since=50 until=60",
  ]);
  const freeing: Record<string, string> = {
    "a sweep": "sweep               | swept 1",
    "a look": "inspect k           | held 2 by=b",
    "a late renew": "renew k a           | not_current by=b",
    "a late extend": "extend k a ttl=10   | not_current by=b",
    "a late release": "release k a         | not_current by=b",
    "a repeated request": "acquire k a ttl=10 request=r1 | request_spent by=b",
    "a force release that comes too late": "force k boss        | nothing to end",
    "many renewals": "renew-many k,z a    | not_current not_current",
    "somebody else's step": "serve k             | served",
  };
  for (const [what, row] of Object.entries(freeing))
    rule(`a lease found over by ${what} goes to the first waiter in that step`, [
      "t=0  acquire k a ttl=10 request=r1 | granted 1",
      "     wait k b ttl=10               | held",
      `t=11 ${row} heirs=b:2 events=expired:k:1+acquired:k:2`,
    ]);
});

describe("rule 9: waiters that cannot be served", () => {
  rule("a waiter whose session expired is refused for good, and the next is served", [
    "t=0  session s1 b ttl=5    | session",
    "     acquire k a ttl=10    | granted 1",
    "     wait k b session=s1   | held",
    "     wait k c ttl=10       | held",
    "t=8  release k a           | released heirs=b:session_expired+c:2",
    "     look s1 b             | session expired leases=0",
  ]);
  rule("a waiter whose session was deleted, or forgotten, likewise", [
    "t=0    session s1 b ttl=5    | session",
    "       session s2 c ttl=5    | session",
    "       acquire k a ttl=9000  | granted 1",
    "       wait k b session=s1   | held",
    "t=1    end s1 b              | session deleted",
    "t=3602 clean                 | cleaned 1",
    "       wait k c session=s2   | session_expired",
    "       leave k c             | left",
    "       release k a           | released heirs=b:session_unknown",
    "       inspect k             | free 1",
  ]);
  rule("at the last instant of its session a waiter is still served", [
    "t=0     session s1 b ttl=5  | session",
    "        acquire k a ttl=5   | granted 1",
    "        wait k b session=s1 | held",
    "t=5     release k a         | released heirs=b:2",
    "        inspect k           | held 2 until=5",
    "t=5.001 inspect k           | free 2 previous=session:b events=expired:k:2",
  ]);
  test("a hundred waiters in vain do not stand in the way of the next", () => {
    const table = new Table();
    table.run(["t=0 acquire k a ttl=60 | granted 1"]);
    for (let nth = 0; nth < 100; nth++)
      table.run([`session s${nth} b ttl=5 | session`, `wait k b session=s${nth} | held`]);
    table.run(["wait k c ttl=10 | held"]);
    table.run([`t=6 release k a | released heirs=${"b:session_expired+".repeat(100)}c:2`]);
  });
  test("many names whose first waiters wait in vain cost no more rounds than one", () => {
    const table = new Table();
    for (let nth = 0; nth < 20; nth++)
      table.run([
        `t=0 session s${nth} b ttl=5   | session`,
        `session t${nth} c ttl=60      | session`,
        `acquire k${nth} a ttl=10      | granted 1`,
        `wait k${nth} b session=s${nth} | held`,
        `wait k${nth} c session=t${nth} | held`,
      ]);
    table.run(["t=11 sweep | swept 40 more=no"]);
    for (let nth = 0; nth < 20; nth++) table.run([`inspect k${nth} | held 2 by=c`]);
  });
});

describe("rule 9: a waiter's request id is its ticket", () => {
  rule("it is recorded with the grant", [
    "t=0 acquire k a ttl=10            | granted 1",
    "    wait k b ttl=10 request=r1    | held",
    "t=1 release k a                   | released heirs=b:2",
    "t=2 acquire k b ttl=10 request=r1 | repeat 2 until=11 writes=0",
    "    release k b                   | released",
    "    acquire k b ttl=10 request=r1 | request_spent",
  ]);
  rule("a request that waits twice is granted once", [
    "t=0 acquire k a ttl=10          | granted 1",
    "    wait k b ttl=10 request=r1  | held",
    "    wait k b ttl=10 request=r1  | held",
    "    wait k c ttl=10             | held",
    "t=1 release k a                 | released heirs=b:2",
    "t=2 force k boss                | ended 2 heirs=b:request_spent+c:3",
  ]);
  rule("a request that waits for two names is granted one of them", [
    "t=0  acquire k1 a ttl=10                   | granted 1",
    "     acquire k2 a ttl=10                   | granted 1",
    "     wait k1 b ttl=10 request=r1 print=any | held",
    "     wait k2 b ttl=10 request=r1 print=any | held",
    "     wait k2 c ttl=10                      | held",
    "t=11 sweep                                 | swept 2 heirs=b:2+b:2+c:2",
    "     inspect k1                            | held 2 by=b",
    "     inspect k2                            | held 2 by=c",
  ]);
  rule("a repeat that finds its own place at the head of the queue gets that grant", [
    "t=0  acquire k a ttl=10            | granted 1",
    "     wait k b ttl=10 request=r1    | held",
    "t=11 acquire k b ttl=10 request=r1 | repeat 2 heirs=b:2",
    "     inspect k                     | held 2 attempts=2",
  ]);
  rule("also when it asks for several names", [
    "t=0  acquire k a ttl=10                      | granted 1",
    "     wait k b ttl=10 request=r1 print=any    | held",
    "t=11 first k,z b ttl=10 request=r1 print=any | repeat 2 on=k heirs=b:2",
    "     inspect z                               | free 0",
  ]);
  rule("another request that waits under the same id is refused in its turn", [
    "t=0 acquire k a ttl=10          | granted 1",
    "    wait k b ttl=10 request=r1  | held",
    "    acquire z b ttl=99 request=r1 | granted 1",
    "t=1 release k a                 | released heirs=b:request_reused",
    "    inspect k                   | free 1",
  ]);
});

test("serving a bound waiter counts its lease in its session", () => {
  const table = new Table();
  table.run([
    "t=0 session s1 b ttl=60 | session",
    "acquire k a ttl=10      | granted 1",
    "wait k b session=s1     | held",
    "release k a             | released heirs=b:2",
    "keepalive s1 b          | session leases=1",
  ]);
  assert.equal(table.world.record(sessionKey("default", "s1"))?.leases, 1);
});
