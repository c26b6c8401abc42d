/** Rule 11: the lock delay, and the quiet time after a restore. */
import { describe } from "node:test";
import { rule } from "../../test/core-table.js";
import { policyDefault } from "./limits.js";

describe("rule 11: lock delay", () => {
  rule("starts when the lease expires, at its last instant", [
    "t=0      acquire k a ttl=10 delay=5 | granted 1",
    "t=12     acquire k b ttl=10         | delayed at=15 why=lock_delay events=expired:k:1",
    "         inspect k                  | free 1 available=15 due=15",
    "t=15     acquire k b ttl=10         | delayed at=15 writes=0",
    "t=15.001 acquire k b ttl=10         | granted 2",
  ]);
  rule("starts when the session ends", [
    "t=0 session s1 a ttl=60            | session",
    "    acquire k a session=s1 delay=5 | granted 1",
    "t=2 end s1 a                       | session deleted",
    "t=3 drain s1                       | drained events=released:k:1",
    "    acquire k b ttl=10             | delayed at=7",
    "t=8 acquire k b ttl=10             | granted 2",
  ]);
  rule("starts when the session expires", [
    "t=0  session s1 a ttl=10            | session",
    "     acquire k a session=s1 delay=5 | granted 1",
    "t=11 acquire k b ttl=10             | delayed at=15",
  ]);
  rule("starts when the lease is forced", [
    "t=0 acquire k a ttl=60 delay=5 | granted 1",
    "t=1 force k boss               | ended 1",
    "    acquire k b ttl=10         | delayed at=6 why=lock_delay",
    "    acquire k a ttl=10         | delayed at=6",
  ]);
  rule("does not start by the holder's own release", [
    "t=0 acquire k a ttl=60 delay=5 | granted 1",
    "t=1 release k a                | released",
    "    inspect k                  | free 1 available=0 due=0",
    "    acquire k b ttl=10         | granted 2",
  ]);
  rule("is the delay of the lease that ended, not of the next", [
    "t=0  acquire k a ttl=10         | granted 1",
    "t=11 acquire k b ttl=10 delay=5 | granted 2",
  ]);
  rule("found late, only what is left of it is waited out", [
    "t=0   acquire k a ttl=10 delay=5 | granted 1",
    "t=100 acquire k b ttl=10         | granted 2",
  ]);
  rule("found at its own last instant, that instant is waited out", [
    "t=0      acquire k a ttl=10 delay=5 | granted 1",
    "t=15     acquire k b ttl=10         | delayed at=15 events=expired:k:1",
    "t=15.001 acquire k b ttl=10         | granted 2",
  ]);
  rule("waiters wait it out, then the sweep serves the first", [
    "t=0  acquire k a ttl=10 delay=5 | granted 1",
    "     wait k b ttl=10            | held by=a",
    "     wait k c ttl=10            | held by=a",
    "t=11 sweep                      | swept 1 heirs=none events=expired:k:1",
    "t=15 sweep                      | swept 0",
    "t=16 sweep                      | swept 1 heirs=b:2 events=acquired:k:2",
    "     inspect k                  | held 2 by=b",
  ]);
  const after: Record<string, string> = {
    "an acquire": "acquire k c ttl=10 | held by=b",
    "a late renew": "renew k a          | not_current by=b",
    "a late release": "release k a        | not_current by=b",
    "a look": "inspect k          | held 2 by=b",
    "a force release": "force k boss       | nothing to end",
    "many renewals": "renew-many z,k a   | not_current not_current",
  };
  for (const [what, row] of Object.entries(after))
    rule(`whoever finds it run out serves the queue: ${what}`, [
      "t=0  acquire k a ttl=10 delay=5            | granted 1",
      "     wait k b ttl=10                       | held by=a",
      "t=11 sweep                                 | swept 1",
      `t=16 ${row} heirs=b:2 events=acquired:k:2`,
    ]);
  rule("a neighbour that only looks for overlaps leaves it to others to end the delay and serve the queue", [
    "t=0  acquire path:a x ttl=10 delay=5 | granted 1",
    "     wait path:a b ttl=10            | held by=x",
    "t=11 sweep                           | swept 1",
    "t=16 acquire path:a/b c ttl=10       | granted 1",
    "     release path:a/b c              | released",
    "     sweep                           | swept 1 heirs=b:2 events=acquired:path:a:2",
  ]);
  rule(
    "is not forgotten by clean-up, however short records are kept",
    [
      "t=0   acquire k a ttl=10 delay=60 | granted 1",
      "t=11  sweep                       | swept 1",
      "t=40  clean                       | cleaned 0",
      "      acquire k b ttl=10          | delayed at=70",
      "t=72  sweep                       | swept 1",
      "      clean                       | cleaned 1",
      "      acquire k b ttl=10          | granted 2",
    ],
    { ...policyDefault, recordRetentionMs: 1000 },
  );
});

describe("after a restore", () => {
  rule("nothing is granted before the quiet time is over, then tokens go on above the floor", [
    "t=0      restored floor=1000 quiet=20 | restored",
    "t=1      acquire k a ttl=10           | delayed at=20 why=restore writes=0",
    "         wait k b ttl=10              | delayed at=20 why=restore",
    "t=20     acquire k a ttl=10           | delayed at=20 why=restore heirs=none",
    "t=20.001 serve k                      | served heirs=b:1001",
    "         acquire other a ttl=10       | granted 1001",
    "         acquire k a ttl=10 space=two | granted 1",
  ]);
});
