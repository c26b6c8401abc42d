/** Rule 12: names that overlap. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { rule, Table } from "../../test/core-table.js";
import { rangeMax } from "./limits.js";
import { overlaps } from "./names.js";

describe("rule 12: overlap", () => {
  rule("a path conflicts with others' leases above it", [
    "t=0 acquire path:src a ttl=10          | granted 1",
    "    acquire path:src/auth.rs b ttl=10  | held by=a on=path:src writes=0",
    "    acquire path:src/a/b/c b ttl=10    | held by=a on=path:src",
    "    acquire path:srcs b ttl=10         | granted 1",
    "    acquire path:other/src b ttl=10    | granted 1",
  ]);
  rule("and with others' leases below it", [
    "t=0 acquire path:src/a/b a ttl=10 | granted 1",
    "    acquire path:src b ttl=10     | held by=a on=path:src/a/b",
    "    acquire path:src/a b ttl=10   | held by=a on=path:src/a/b",
    "    acquire path:src/b b ttl=10   | granted 1",
    "    acquire path:src/a/bc b ttl=10 | granted 1",
  ]);
  rule("repo:global conflicts with every path and every repo name", [
    "t=0 acquire repo:deploy a ttl=10  | granted 1",
    "    acquire repo:global b ttl=10  | held by=a on=repo:deploy",
    "    release repo:deploy a         | released",
    "    acquire path:x a ttl=10       | granted 1",
    "    acquire repo:global b ttl=10  | held by=a on=path:x",
    "    release path:x a              | released",
    "    acquire repo:global b ttl=10  | granted 1",
    "    acquire repo:deploy a ttl=10  | held by=b on=repo:global",
    "    acquire path:x/y a ttl=10     | held by=b on=repo:global",
  ]);
  rule("other repo names, plain names and issues overlap nothing", [
    "t=0 acquire repo:deploy a ttl=10     | granted 1",
    "    acquire repo:release b ttl=10    | granted 1",
    "    acquire repo:deploy/sub b ttl=10 | granted 1",
    "    acquire a a ttl=10               | granted 1",
    "    acquire a/b b ttl=10             | granted 1",
    "    acquire issue:1 a ttl=10         | granted 1",
    "    acquire issue:1/2 b ttl=10       | granted 1",
    "    acquire path:a b ttl=10          | granted 1",
    "    acquire repo:global c ttl=10 space=two | granted 1",
  ]);
  rule("leases of one session do not stand in each other's way; those of one principal do", [
    "t=0 session s1 a ttl=60                | session",
    "    session s2 a ttl=60                | session",
    "    acquire path:src a session=s1      | granted 1",
    "    acquire path:src/x a session=s1    | granted 1",
    "    acquire repo:global a session=s1   | granted 1",
    "    acquire path:src/y a session=s2    | held by=a",
    "    acquire path:src/y a ttl=10        | held by=a",
    "    acquire path:src/y a session=s1    | granted 1",
  ]);
  rule("an overlapping lease that is over is settled in the step that finds it", [
    "t=0  acquire path:src/a a ttl=10 | granted 1",
    "     acquire path:src/b a ttl=30 | granted 1",
    "t=11 acquire path:src b ttl=10   | held on=path:src/b events=expired:path:src/a:1",
    "     acquire path:src b ttl=10   | held on=path:src/b writes=0",
    "t=31 acquire path:src b ttl=10   | granted 1 events=expired:path:src/b:1+acquired:path:src:1",
  ]);
  rule("at its last instant it is still in the way", [
    "t=0  acquire path:src a ttl=10   | granted 1",
    "t=10 acquire path:src/b b ttl=10 | held on=path:src",
  ]);
  rule("one that ended with its session, too", [
    "t=0 session s1 a ttl=60               | session",
    "    acquire path:src/a a session=s1   | granted 1",
    "    end s1 a                          | session deleted",
    "    acquire path:src b ttl=10         | granted 1 events=released:path:src/a:1+acquired:path:src:1",
  ]);
  rule("names outside ASCII overlap like others", [
    "t=0 acquire path:dök/ü a ttl=10     | granted 1",
    "    acquire path:dök b ttl=10       | held on=path:dök/ü",
    "    acquire path:dö b ttl=10        | granted 1",
    "    acquire path:dök/ü/%20 b ttl=10 | held on=path:dök/ü",
    "    acquire path:dök/%C3%BC b ttl=10 | granted 1",
  ]);
  rule("whoever waits for a path is served when nothing overlaps any more", [
    "t=0 acquire path:a/1 x ttl=10 | granted 1",
    "    acquire path:a/2 y ttl=10 | granted 1",
    "    wait path:a b ttl=10      | queued",
    "    release path:a/1 x        | released heirs=none",
    "    serve path:a              | served heirs=none",
    "    release path:a/2 y        | released",
    "    serve path:a              | served heirs=b:1",
  ]);
  rule("what a step grants to a waiter is in the way of what it tries next", [
    "t=0  acquire path:a/b x ttl=10 delay=5 | granted 1",
    "     wait path:a/b w ttl=60            | held",
    "t=11 sweep                             | swept 1 events=expired:path:a/b:1",
    "t=16 first path:a/b,path:a c ttl=10    | refused refused=path:a/b:held+path:a:held heirs=w:2",
  ]);
  rule("also of other waiters of the same step", [
    "t=0  acquire path:a x ttl=10 delay=5   | granted 1",
    "     wait path:a v ttl=60              | held",
    "t=11 sweep                             | swept 1",
    "     acquire path:a/b x ttl=3 delay=1  | granted 1",
    "     wait path:a/b w ttl=60            | held",
    "t=14.5 sweep                           | swept 1 events=expired:path:a/b:1",
    "t=16 sweep                             | swept 2 heirs=v:2",
    "     inspect path:a                    | held 2 by=v",
    "     inspect path:a/b                  | free 1",
  ]);
  rule("in whichever order the sweep comes to them", [
    "t=0  acquire path:a x ttl=10 delay=5   | granted 1",
    "     wait path:a v ttl=60              | held",
    "t=11 sweep                             | swept 1",
    "     acquire path:a/b x ttl=2 delay=1  | granted 1",
    "     wait path:a/b w ttl=60            | held",
    "t=13.5 sweep                           | swept 1 events=expired:path:a/b:1",
    "t=16 sweep                             | swept 2 heirs=w:2",
    "     inspect path:a                    | free 1",
    "     inspect path:a/b                  | held 2 by=w",
  ]);
  test("more own leases below a name than one step may read are refused, never overlooked", () => {
    const table = new Table();
    table.run(["t=0 session s1 a ttl=60 | session"]);
    for (let nth = 0; nth < rangeMax; nth++) table.run([`acquire path:a/${nth} a session=s1 | granted 1`]);
    table.run([
      "acquire path:a a session=s1 | overlap_too_wide again=no",
      "acquire path:a b ttl=10 | held by=a",
    ]);
    table.run(["release path:a/7 a | released", "acquire path:a a session=s1 | granted 1"]);
  });
  /** Leases below path:a, more than one step may read. */
  function many(rest: string): Table {
    const table = new Table();
    table.run(["t=0 session s1 a ttl=60 | session"]);
    for (let nth = 0; nth <= rangeMax; nth++) table.run([`acquire path:a/${1000 + nth} ${rest} | granted 1`]);
    return table;
  }
  test("of more that are over than one step may read, each step ends some, and none is taken for the caller's own", () => {
    many("a ttl=10").run([
      "t=11 acquire path:a b ttl=10 | overlap_too_wide again=yes",
      "     acquire path:a b ttl=10 | granted 1",
    ]);
    many("a ttl=10").run([
      "t=11 first path:a,k b ttl=10 | refused refused=path:a:overlap_too_wide",
      "     first path:a,k b ttl=10 | granted 1 on=path:a",
    ]);
  });
  test("nor is anything granted before all that is left was looked at", () => {
    const table = many("a session=s1");
    table.run([
      "     release path:a/1003 a            | released",
      "     acquire path:a/1003 b ttl=10     | granted 2",
      `     release path:a/${1000 + rangeMax} a | released`,
      `     acquire path:a/${1000 + rangeMax} b ttl=60 | granted 2`,
      "t=11 acquire path:a a session=s1      | overlap_too_wide again=yes",
      `     acquire path:a a session=s1      | held by=b on=path:a/${1000 + rangeMax}`,
      `     release path:a/${1000 + rangeMax} b | released`,
      "     acquire path:a a session=s1      | granted 1",
    ]);
  });
});

test("rule 12: no two names that exclude each other are ever held by two, whichever comes first", () => {
  const names = [
    "path:a",
    "path:a/b",
    "path:a/b/c",
    "path:ab",
    "repo:global",
    "repo:x",
    "x",
    "a/b",
    "issue:1",
  ];
  for (const one of names)
    for (const other of names) {
      const table = new Table();
      const expected = one === other || overlaps(one, other) ? `held on=${one}` : "granted 1";
      table.run([`t=0 acquire ${one} a ttl=10 | granted 1`, `acquire ${other} b ttl=10 | ${expected}`]);
      assert.equal(overlaps(one, other), overlaps(other, one));
    }
});
