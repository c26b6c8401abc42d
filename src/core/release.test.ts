/** Rules 6 and 7: how leases end. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { rule, Table } from "../../test/core-table.js";
import { auditKey } from "./keys.js";

describe("rule 6: release", () => {
  rule("frees the name with one event and keeps the token", [
    "t=0 acquire k a ttl=10 | granted 1",
    "t=1 release k a        | released events=released:k:1 writes=1",
    "    inspect k          | free 1 previous=released:a ended=1 available=0",
  ]);
  rule("the grant to the head of the queue is the same step", [
    "t=0 acquire k a ttl=10 | granted 1",
    "    wait k b ttl=10    | held by=a",
    "t=1 release k a        | released heirs=b:2 events=released:k:1+acquired:k:2",
    "    inspect k          | held 2 by=b since=1 until=11 previous=released:a",
  ]);
  rule("releasing what is already over never harms a successor", [
    "t=0  acquire k a ttl=10 as=old        | granted 1",
    "t=11 acquire k b ttl=10               | granted 2",
    "     release k a lease=old            | not_current by=b token=2 writes=0",
    "     release k a lease=old repeatable | not_current by=b token=2 writes=0",
    "     inspect k                        | held 2 by=b until=21",
  ]);
  rule("releasing what is over and not yet settled settles it", [
    "t=0  acquire k a ttl=10      | granted 1",
    "     wait k b ttl=10         | held",
    "t=11 release k a             | not_current previous=expired:a heirs=b:2 events=expired:k:1+acquired:k:2",
    "     release k a repeatable  | not_current by=b writes=0",
  ]);
  rule("a wrong lease id or principal changes nothing", [
    "t=0 acquire k a ttl=10 as=x  | granted 1",
    "    release k a lease=wrong  | not_current by=a writes=0",
    "    release k b lease=x      | not_current by=a writes=0",
    "    release other a lease=x  | not_current writes=0",
    "    inspect k                | held 1 by=a until=10",
  ]);
  rule("repeating it for the same lease succeeds where asked for, also when another holds the name now", [
    "t=0 acquire k a ttl=10 as=x         | granted 1",
    "    release k a                     | released",
    "    release k a                     | not_current previous=released:a writes=0",
    "    release k a repeatable          | released before writes=0",
    "    release k b lease=x repeatable  | not_current writes=0",
    "    acquire k b ttl=10              | granted 2",
    "    release k a lease=x repeatable  | released before writes=0",
    "    inspect k                       | held 2 by=b",
  ]);
  rule("a call that is decided again knows what it did from what another call did", [
    "t=0 acquire k a ttl=10 as=x      | granted 1",
    "    release k a lease=x call=one | released",
    "    release k a lease=x call=one | released before writes=0",
    "    release k a lease=x call=two | not_current previous=released:a writes=0",
    "    acquire k b ttl=10           | granted 2",
    "    release k a lease=x call=one | released before writes=0",
    "    release k a lease=x call=two | not_current by=b writes=0",
  ]);
  rule("what expired or was forced was not released", [
    "t=0  acquire k a ttl=10     | granted 1",
    "t=11 release k a repeatable | not_current previous=expired:a",
    "     acquire k a ttl=10     | granted 2",
    "     force k boss           | ended 2",
    "     release k a repeatable | not_current previous=forced:a:boss writes=0",
  ]);
});

describe("rule 7: expiry is settled once", () => {
  const settlers: Record<string, string> = {
    "an acquire": "acquire k b ttl=10 | granted 2 events=expired:k:1+acquired:k:2",
    "a look": "inspect k          | free 1 events=expired:k:1 previous=expired:a ended=10",
    "the sweep": "sweep              | swept 1 events=expired:k:1",
    "the holder's own renew": "renew k a          | not_current events=expired:k:1",
    "a stranger's renew": "renew k c lease=no | not_current events=expired:k:1",
    "an extend": "extend k a ttl=60  | not_current events=expired:k:1",
    "a release": "release k a        | not_current events=expired:k:1",
    "a force release": "force k boss       | nothing to end events=expired:k:1",
    "a repeat of its request": "acquire k a ttl=10 request=r1 | request_spent events=expired:k:1",
    "a claim of several": "first k,other b ttl=10 | granted 2 on=k events=expired:k:1+acquired:k:2",
    "many renewals": "renew-many k,k a   | not_current not_current events=expired:k:1",
    "serving its queue": "serve k            | served events=expired:k:1",
  };
  for (const [who, row] of Object.entries(settlers))
    rule(`by ${who}, with one event and the time at which it was over`, [
      "t=0  acquire k a ttl=10 request=r1 | granted 1",
      `t=12 ${row}`,
      "sweep | swept 0 events=none writes=0",
    ]);
  rule("the event and the record say when it was over, not when that was noticed", [
    "t=0   acquire k a ttl=10 | granted 1",
    "t=500 sweep              | swept 1",
    "      inspect k          | free 1 ended=10",
  ]);
  rule("at its last instant nothing settles it", [
    "t=0  acquire k a ttl=10    | granted 1",
    "t=10 sweep                 | swept 0 writes=0",
    "     renew k c lease=no    | not_current by=a writes=0",
    "     inspect k             | held 1 writes=0",
  ]);
});

describe("force release", () => {
  rule("ends whatever lease there is, with who did it and why", [
    "t=0 acquire k a ttl=10          | granted 1",
    "t=1 force k boss reason=stuck   | ended 1 how=forced by=boss reason=stuck events=released:k:1 kinds=lock+audit",
    "    inspect k                   | free 1 previous=forced:a:boss",
    "    renew k a                   | not_current previous=forced:a:boss",
    "    acquire k b ttl=10          | granted 2",
  ]);
  rule("serves the queue in the same step", [
    "t=0 acquire k a ttl=10 | granted 1",
    "    wait k b ttl=10    | held",
    "    force k boss       | ended 1 heirs=b:2 events=released:k:1+acquired:k:2",
  ]);
  rule("of a free name ends nothing and leaves no audit", ["t=0 force k boss | nothing to end writes=0"]);
  test("is audited", () => {
    const table = new Table();
    table.run(["t=0 acquire k a ttl=10 | granted 1", "t=1 force k boss reason=stuck | ended 1"]);
    assert.deepEqual(table.world.record(auditKey("default", "audit-2")), {
      kind: "audit",
      id: "audit-2",
      space: "default",
      at: 1000,
      wallAt: 1_001_000,
      principal: "boss",
      action: "force_release",
      subject: "k",
      reason: "stuck",
      token: 1,
      gcAt: 1000 + 365 * 86_400_000,
    });
    table.run(["t=31536002 clean | cleaned 2", "inspect k | free 0", "acquire k a ttl=1 | granted 2"]);
    assert.equal(table.world.rows("audit").length, 0);
  });
});
