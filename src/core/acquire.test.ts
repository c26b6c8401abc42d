/** Rules 1, 2, 3 and 8: who is granted a name, who gets the same lease again, and what a lost reply costs. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { rule, Table } from "../../test/core-table.js";
import { decideAcquireFirst } from "./acquire.js";
import { floorKey, lockKey, requestKey } from "./keys.js";
import { tokenMax } from "./limits.js";

describe("rule 1: grant", () => {
  rule("a free name is granted, and its token rises by one with every grant", [
    "t=0  acquire k a ttl=10 | granted 1 by=a since=0 until=10 events=acquired:k:1",
    "t=2  release k a        | released events=released:k:1",
    "t=3  acquire k b ttl=10 | granted 2 until=13 events=acquired:k:2",
    "t=14 acquire k c ttl=10 | granted 3 until=24 events=expired:k:2+acquired:k:3",
  ]);
  rule("each name and each space counts for itself", [
    "t=0 acquire k a ttl=10           | granted 1",
    "    acquire other a ttl=10       | granted 1",
    "    acquire k b ttl=10 space=two | granted 1",
    "    inspect k                    | held 1 by=a",
    "    inspect k space=two          | held 1 by=b",
  ]);
  rule("the token is above the floor of the space and above the last of the name, whichever is higher", [
    "t=0 restored floor=40 quiet=0 | restored",
    "t=1 acquire k a ttl=10  | granted 41",
    "    release k a         | released",
    "    acquire k a ttl=10  | granted 42",
  ]);
  rule("attempts count grants since the last clean release", [
    "t=0  acquire k a ttl=10            | granted 1",
    "t=11 acquire k a ttl=10            | granted 2",
    "t=12 release k a outcome=failed    | released",
    "     inspect k                     | free 2 attempts=2 outcome=failed",
    "     acquire k a ttl=10            | granted 3",
    "     inspect k                     | held 3 attempts=3",
    "     release k a outcome=abandoned | released",
    "     inspect k                     | free 3 attempts=3 outcome=abandoned",
    "     acquire k a ttl=10            | granted 4",
    "     release k a outcome=done      | released",
    "     inspect k                     | free 4 attempts=0 outcome=done",
    "     acquire k a ttl=10            | granted 5",
    "     release k a                   | released",
    "     inspect k                     | free 5 attempts=0 outcome=none",
  ]);
  test("tokens end at the largest integer that JSON carries exactly, and do not wrap", () => {
    const table = new Table();
    table.run([`t=0 restored floor=${tokenMax - 1} quiet=0 | restored`]);
    table.run([`t=1 acquire k a ttl=10 | granted ${tokenMax}`, "release k a | released"]);
    assert.throws(() => table.run(["acquire k a ttl=10 | granted 0"]), /tokens exhausted: k/);
  });
});

describe("rule 2: held", () => {
  rule("anyone else sees the holder's public view", [
    "t=0 session s1 a ttl=30                          | session",
    "    acquire k a session=s1 meta=hello owner=bot-7 | granted 1",
    "t=5 acquire k b ttl=10 | held by=a session=#s1 meta=hello owner=bot-7 since=0 until=30 token=1 events=none",
  ]);
  rule("at the expiry instant itself the name is still held; after it, it is free", [
    "t=0      acquire k a ttl=10 | granted 1",
    "t=10     acquire k b ttl=10 | held by=a until=10 writes=0",
    "         inspect k          | held 1 by=a",
    "         renew k a          | renewed 1 until=20",
    "t=20     acquire k b ttl=10 | held by=a",
    "t=20.001 acquire k b ttl=10 | granted 2",
  ]);
});

describe("rule 3: the same lease only on proof", () => {
  rule("two callers with one bearer token are two callers", [
    "t=0 acquire k a/1 ttl=10 meta=x | granted 1",
    "t=1 acquire k a/2 ttl=10 meta=x | held by=a writes=0",
  ]);
  rule("the lease id is proof, for its principal only", [
    "t=0 acquire k a ttl=10 as=mine            | granted 1",
    "t=1 acquire k a/2 ttl=10 proof=mine       | again 1 until=11 events=renewed:k:1",
    "    acquire k b ttl=10 proof=mine         | held by=a writes=0",
    "    acquire k a ttl=10 proof=made-up      | held by=a writes=0",
    "t=20 acquire k a ttl=10 proof=mine        | granted 2",
  ]);
  rule("the session id is proof, for its principal only", [
    "t=0 session s1 a ttl=30             | session",
    "    session s2 a ttl=30             | session",
    "    acquire k a session=s1          | granted 1",
    "t=1 acquire k a/2 session=s1        | again 1 until=30 writes=0",
    "    acquire k a session=s2          | held by=a writes=0",
    "    acquire k b session=s1          | session_unknown writes=0",
    "    acquire k a ttl=10              | held by=a",
    "    acquire k a ttl=10 reentrant    | held by=a",
    "    look s1 a                       | session leases=1",
  ]);
  rule("wrong proof is not made good by the right session", [
    "t=0 session s1 a ttl=30                      | session",
    "    acquire k a session=s1                   | granted 1",
    "    acquire k a session=s1 proof=made-up     | held by=a writes=0",
  ]);
  rule("the request id is proof, for its principal only", [
    "t=0 acquire k a ttl=10 request=r1 | granted 1 kinds=lock+floor+request",
    "t=1 acquire k a ttl=10 request=r1 | repeat 1 until=10 writes=0",
    "    acquire k b ttl=10 request=r1 | held by=a writes=0",
    "    acquire k a ttl=10 request=r2 | held by=a writes=0",
  ]);
  rule("a reentrant bearer token counts same principal and same metadata as the same holder", [
    "t=0 acquire k a ttl=10 meta=x reentrant   | granted 1",
    "t=1 acquire k a ttl=10 meta=x reentrant   | again 1 until=11",
    "    acquire k a ttl=10 meta=y reentrant   | held by=a",
    "    acquire k a ttl=10 reentrant          | held by=a",
    "    acquire k a ttl=10 meta=x             | held by=a",
    "    acquire k b ttl=10 meta=x reentrant   | held by=a",
  ]);
  rule("getting the own lease again keeps the token and never shortens", [
    "t=0 acquire k a ttl=60 as=mine       | granted 1 until=60",
    "t=1 acquire k a ttl=10 proof=mine    | again 1 until=60",
    "t=55 acquire k a ttl=10 proof=mine   | again 1 until=65",
    "t=60 acquire k a ttl=90 proof=mine   | again 1 until=150",
    "t=90 acquire k b ttl=10              | held by=a until=150 since=0",
  ]);
  rule("nor does it shorten a lease that lives as long as its session", [
    "t=0 session s1 a ttl=30              | session",
    "    acquire k a session=s1           | granted 1 until=30",
    "t=1 acquire k a session=s1 ttl=10    | again 1 until=30",
    "t=12 acquire k b ttl=10              | held by=a until=30",
  ]);
});

describe("rule 8: lost reply", () => {
  rule("a repeat gives the same lease while it is current, however often it was renewed", [
    "t=0   acquire k a ttl=10 request=r1 as=x | granted 1",
    "t=8   renew k a lease=x                  | renewed 1 until=18",
    "t=15  acquire k a ttl=10 request=r1      | repeat 1 until=18 writes=0 events=none",
  ]);
  rule("afterwards it is spent, never a second grant", [
    "t=0   acquire k a ttl=10 request=r1 | granted 1",
    "t=11  acquire k a ttl=10 request=r1 | request_spent previous=expired:a events=expired:k:1",
    "t=12  acquire k a ttl=10 request=r1 | request_spent previous=expired:a writes=0",
    "t=13  acquire k b ttl=10            | granted 2",
    "t=14  acquire k a ttl=10 request=r1 | request_spent by=b token=2 writes=0",
  ]);
  rule("a released lease is spent too, and a later lease of the same caller is another", [
    "t=0  acquire k a ttl=10 request=r1 | granted 1",
    "t=1  release k a                   | released",
    "t=2  acquire k a ttl=10 request=r1 | request_spent previous=released:a",
    "t=3  acquire k a ttl=10 request=r2 | granted 2",
    "t=4  acquire k a ttl=10 request=r1 | request_spent by=a token=2",
    "     acquire k a ttl=10 request=r2 | repeat 2",
  ]);
  rule("another request under the same id is refused, before and after", [
    "t=0  acquire k a ttl=10 request=r1       | granted 1",
    "     acquire k a ttl=20 request=r1       | request_reused writes=0",
    "     acquire other a ttl=10 request=r1   | request_reused writes=0",
    "t=11 acquire k a ttl=20 request=r1       | request_reused writes=0",
    "     inspect other                       | free 0",
  ]);
  rule("only grants are recorded: a refused request may be sent again", [
    "t=0  acquire k a ttl=10            | granted 1",
    "t=1  acquire k b ttl=10 request=r1 | held writes=0",
    "t=11 acquire k b ttl=10 request=r1 | granted 2",
    "     acquire k b ttl=10 request=r1 | repeat 2",
  ]);
  rule("the id is kept until the lease is over + 24 h", [
    "t=0         acquire k a ttl=10 request=r1 | granted 1",
    "t=86410     clean                         | cleaned 0",
    "            acquire k a ttl=10 request=r1 | request_spent",
    "t=86410.001 clean                         | cleaned 1",
    "            acquire k a ttl=10 request=r1 | granted 2",
  ]);
  rule("clean-up keeps the id while the lease is renewed, and 24 h more", [
    "t=0      acquire k a ttl=3600 request=r1        | granted 1",
    "t=3600   renew k a ttl=86400                    | renewed 1 until=90000",
    "t=90000  renew k a                              | renewed 1 until=176400",
    "t=90001  clean                                  | cleaned 0 kinds=request",
    "t=100000 release k a                            | released",
    "t=176402 clean                                  | cleaned 0",
    "         acquire k a ttl=3600 request=r1        | request_spent",
    "t=186400 clean                                  | cleaned 0",
    "         acquire k a ttl=3600 request=r1        | request_spent",
    "t=186400.001 clean                              | cleaned 2 kinds=floor+lock+request",
  ]);
  rule("a repeat by a caller whose session is gone says what became of the lease", [
    "t=0  session s1 a ttl=10               | session",
    "     acquire k a session=s1 request=r1 | granted 1",
    "t=1  acquire k a session=s1 request=r1 | repeat 1",
    "     end s1 a                          | session deleted",
    "     acquire k a session=s1 request=r1 | request_spent previous=session:a events=released:k:1",
  ]);
});

describe("several candidates, at most one grant", () => {
  rule("the first free one is granted, each refusal is told", [
    "t=0  acquire j1 x ttl=10       | granted 1",
    "     first j1,j2,j3 a ttl=10   | granted 1 on=j2 refused=j1:held events=acquired:j2:1",
    "     first j1,j2,j3 b ttl=10   | granted 1 on=j3 refused=j1:held+j2:held",
    "     first j1,j2,j3 c ttl=10   | refused refused=j1:held+j2:held+j3:held writes=0",
    "t=11 first j1,j2,j3 c ttl=10   | granted 2 on=j1 refused=none events=expired:j1:1+acquired:j1:2",
  ]);
  rule("one request id covers the whole call", [
    "t=0 acquire j1 x ttl=10                | granted 1",
    "    first j1,j2 a ttl=10 request=r1    | granted 1 on=j2",
    "    release j1 x                       | released",
    "    first j1,j2 a ttl=10 request=r1    | repeat 1 on=j2 writes=0",
    "    first j1,j3 a ttl=10 request=r1    | refused refused=j1:request_reused writes=0",
    "    release j2 a                       | released",
    "    first j1,j2 a ttl=10 request=r1    | refused refused=j2:request_spent writes=0",
  ]);
  rule("a dead session is refused on every candidate", [
    "t=0  session s1 a ttl=5            | session",
    "t=6  first j1,j2 a session=s1      | refused refused=j1:session_expired+j2:session_expired",
    "     first j1,j2 a session=none-such | refused refused=j1:session_unknown+j2:session_unknown writes=0",
  ]);
  rule("many paths cost no more rounds than one", [
    "t=0 session s1 x ttl=60                            | session",
    "    session s2 y ttl=60                            | session",
    "    acquire path:a/1 x session=s1                  | granted 1",
    "    acquire path:b/1 y session=s2                  | granted 1",
    "    acquire path:c/1 x session=s1                  | granted 1",
    "    first path:a,path:b,path:c,path:d z ttl=10     | granted 1 on=path:d",
  ]);
  test("none at all is no grant", () => {
    const { world } = new Table();
    const { reply, writes } = world.step([], (view) => decideAcquireFirst(view, [], world.policy));
    assert.deepEqual({ reply, writes }, { reply: { granted: null, refusals: [], heirs: [] }, writes: [] });
  });
});

test("a grant is one step: lock, floor, session and request are written together", () => {
  const table = new Table();
  table.run([
    "t=0 session s1 a ttl=30               | session",
    "acquire k a session=s1 ttl=60 request=r1 | granted 1 until=30 writes=4 kinds=session+lock+floor+request",
  ]);
  assert.equal(table.world.record(floorKey("default"))?.ttlHighMs, 60_000);
  assert.equal(table.world.record(requestKey("default", "a", "r1"))?.gcAt, 30_000 + 86_400_000);
  assert.equal(table.world.record(lockKey("default", "k"))?.lease?.sessionId, "s1");
});
