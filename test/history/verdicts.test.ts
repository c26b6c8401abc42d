// What the checker says about small histories, written out: for each promise one that keeps it, often just so, and
// one that breaks it.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { check } from "../../src/verify/check.js";
import { ledgerOf } from "../../src/verify/checker/ledger.js";
import { search } from "../../src/verify/checker/search.js";
import { historyOf } from "./lines.js";
import { broken, valid } from "./verdict.js";

const taken = "0-5 a acquire k | granted 1 L1";

describe("a lease and its end", () => {
  valid("the next is granted when the first is released", [
    taken,
    "10-15 a release k L1 | done",
    "12-20 b acquire k | granted 2 L2",
  ]);
  valid("the next is granted after the TTL", [taken, "990-1001 b acquire k | granted 2 L2"]);
  valid("near its end it may be held and it may be over", [
    taken,
    "1003-1005 b read k | holds 1",
    "1001-1004 c read k | free 1",
  ]);
  valid("a release without a reply may have been done", [
    taken,
    "10-? a release k L1 | unknown",
    "20-25 b acquire k | granted 2 L2",
  ]);
  valid("or not", [taken, "10-? a release k L1 | unknown", "20-25 b acquire k | held 1"]);
  valid("a renewal without a reply may have been done", [
    taken,
    "900-? a renew k L1 | unknown",
    "1500-1505 b acquire k | held 1",
  ]);
  valid("only a renewal that names a TTL may shorten", [
    taken,
    "10-15 a renew k L1 ttl=100 | granted 1 L1",
    "130-135 b acquire k | granted 2 L2",
  ]);
  valid("the clocks may differ by the bound", [taken, "950-960 b acquire k | granted 2 L2"], {
    clockBoundMs: 50,
  });
  broken("I2", "granted to another before the TTL was over", [taken, "900-905 b acquire k | granted 2 L2"]);
  broken("I2", "after a renewal, before its TTL was over", [
    taken,
    "900-905 a renew k L1 | granted 1 L1",
    "1500-1505 b acquire k | granted 2 L2",
  ]);
  broken("I3", "held long after the TTL", [taken, "2500-2505 b acquire k | held 1"]);
  broken("I3", "held after the TTL", [taken, "1200-1205 b acquire k | held 1"]);
  broken("I16", "renewed after the TTL", [taken, "1200-1205 a renew k L1 | granted 1 L1"]);
  broken("I16", "renewed after another had it", [
    taken,
    "1100-1105 b acquire k | granted 2 L2",
    "1110-1115 a renew k L1 | granted 1 L1",
  ]);
  broken("I18", "less than was asked for", ["0-5 a acquire k ttl=1000 | granted 1 L1 500"]);
  broken("I18", "a renewal that shortens", [taken, "10-15 a renew k L1 | granted 1 L1 700"]);
  broken("I22", "a release that was done and forgotten", [
    taken,
    "10-15 a release k L1 | done",
    "20-25 b acquire k | held 1",
  ]);
  broken("I22", "a grant that was made and forgotten", [taken, "20-25 a renew k L1 | lost"]);
  broken("I28", "a read that lags behind", [
    taken,
    "10-15 a release k L1 | done",
    "20-25 b read k | holds 1",
    "30-35 b acquire k | granted 2 L2",
  ]);
});

describe("tokens", () => {
  broken("I9", "a later grant with a lower token", [
    "0-5 a acquire k | granted 7 L1",
    "10-15 a release k L1 | done",
    "20-25 b acquire k | granted 6 L2",
  ]);
  broken("I10", "two leases with one token", [
    taken,
    "10-15 a release k L1 | done",
    "20-25 b acquire k | granted 1 L2",
  ]);
  broken("I12", "a renewal with another token", [taken, "10-15 a renew k L1 | granted 2 L1"]);
  broken("I13", "a token that JSON cannot carry", ["0-5 a acquire k | granted 9007199254740993 L1"]);
  valid("clean-up forgets a free name, not its tokens", [
    taken,
    "10-15 a release k L1 | done",
    "20-25 b read k | free 0",
    "30-35 b acquire k | granted 9 L2",
  ]);
});

describe("who may", () => {
  valid("a lease comes back on proof", [taken, "10-15 a acquire k proof=L1 | granted 1 L1"]);
  broken("I15", "or to anybody", [taken, "10-15 a2/a acquire k | granted 1 L1"]);
  broken("I15", "a stranger releases", [taken, "10-15 b release k L1 | done"]);
  broken("I15", "a lease id that nobody was given", ["10-15 b renew k made-up | granted 1 made-up"]);
  broken("I17", "a late release is done", [
    taken,
    "1100-1105 b acquire k | granted 2 L2",
    "1110-1115 a release k L1 | done",
  ]);
  valid("a late release changes nothing", [
    taken,
    "1100-1105 b acquire k | granted 2 L2",
    "1110-1115 a release k L1 | lost",
  ]);
});

describe("request ids", () => {
  const lost = "0-? a acquire k request=r | unknown";
  valid("a repeat tells of the grant whose reply was lost", [
    lost,
    "20-25 b acquire k | held 1",
    "30-35 a acquire k request=r | granted 1 L1 970",
  ]);
  valid("a repeat is told that its lease is over", [
    lost,
    "20-25 b acquire k | held 1",
    "1500-1505 a acquire k request=r | lost",
  ]);
  broken("I19", "two grants for one id", [
    "0-5 a acquire k request=r | granted 1 L1",
    "10-15 a release k L1 | done",
    "20-25 a acquire k request=r | granted 2 L2",
  ]);
  broken("I19", "a repeat is told that somebody else has it", [
    "0-5 a acquire k request=r | granted 1 L1",
    "20-25 a acquire k request=r | held 1",
  ]);
  broken("I21", "another request under a used id", [
    "0-5 a acquire k request=r | granted 1 L1",
    "20-25 a acquire k request=r ttl=2000 | granted 1 L1 980",
  ]);
  broken("I21", "used twice, it is said, and was not", ["0-5 a acquire k request=r | reused"]);
  broken("I20", "refused, and granted all the same", [
    "0-5 a acquire k | refused unavailable",
    "20-25 b acquire k | held 1",
  ]);
  valid("an acquire without a reply may have been granted", [
    "0-? a acquire k | unknown",
    "20-25 b acquire k | held 1",
  ]);
});

describe("sessions", () => {
  const opened = "0-5 a open ttl=1000 | opened S";
  const bound = "10-15 a acquire k ttl=session session=S | granted 1 L1 990";
  valid("a lease lives while its session is kept alive", [
    opened,
    bound,
    "900-905 a keepalive S | done",
    "1500-1505 b acquire k | held 1",
  ]);
  valid("and ends with it", [opened, bound, "20-25 a end S | done", "22-30 b acquire k | granted 2 L2"]);
  broken("I2", "granted to another while the session lives", [
    opened,
    bound,
    "900-905 a keepalive S | done",
    "1500-1505 b acquire k | granted 2 L2",
  ]);
  broken("I3", "held by a session that is over", [
    opened,
    bound,
    "20-25 a end S | done",
    "100-105 b acquire k | held 1",
  ]);
  broken("I5", "granted to a session that is over", [
    opened,
    "20-25 a end S | done",
    "30-35 a acquire k session=S | granted 1 L1",
  ]);
  broken("I16", "a session that is over goes on", [
    opened,
    "20-25 a end S | done",
    "30-35 a keepalive S | done",
  ]);
  broken("I22", "a session that is lost early", [opened, "30-35 a keepalive S | gone"]);
});

describe("lock delays, restores and names that overlap", () => {
  const delaying = "0-5 a acquire k delay=500 | granted 1 L1";
  valid("a lock delay follows an expiry", [
    delaying,
    "1200-1205 b acquire k | delayed",
    "1505-1510 b acquire k | granted 2 L2",
  ]);
  valid("and no release", [delaying, "10-15 a release k L1 | done", "20-25 b acquire k | granted 2 L2"]);
  broken("I2", "granted within a lock delay", [delaying, "1200-1205 b acquire k | granted 2 L2"]);
  broken("I3", "a lock delay that nobody asked for", [
    taken,
    "10-15 a release k L1 | done",
    "20-25 b acquire k | delayed",
  ]);
  valid(
    "a restore forgets leases, and nothing is granted until they are over",
    [
      taken,
      "600-605 a renew k L1 | lost",
      "610-615 b acquire k | delayed",
      "620-625 b read k | free 0",
      "1600-1605 b acquire k | granted 99 L2",
    ],
    { quiet: [{ from: 500, to: 1500 }] },
  );
  broken(
    "I2",
    "granted after a restore while a lease may be out there",
    [taken, "600-605 b acquire k | granted 99 L2"],
    { quiet: [{ from: 500, to: 550 }] },
  );
  valid("one session holds what overlaps", [
    "0-5 a open ttl=5000 | opened S",
    "10-15 a acquire path:x session=S | granted 1 L1",
    "20-25 a acquire path:x/y session=S | granted 1 L2",
  ]);
  broken("I1", "a path and one below it", [
    "0-5 a acquire path:x | granted 1 L1",
    "20-25 b acquire path:x/y | granted 1 L2",
  ]);
  broken("I3", "refused for a name that overlaps nothing held", ["20-25 b acquire path:x/y | held"]);
});

describe("waiting in line", () => {
  valid("who came first is served first", [
    taken,
    "10-120 b acquire k wait=100 | held 1",
    "20-500 c acquire k wait=900 | granted 2 L2",
    "495-498 a release k L1 | done",
  ]);
  broken("I25", "who came later is served first", [
    taken,
    "10-520 b acquire k wait=500 | held 2",
    "100-105 a release k L1 | done",
    "100-110 c acquire k wait=900 | granted 2 L2",
  ]);
  broken("I26", "a free name, and somebody in line", [
    taken,
    "5-1910 b acquire k wait=1900 | held 2",
    "30-35 a release k L1 | done",
    "1000-1905 c acquire k wait=1900 | granted 2 L2",
  ]);
  broken("I27", "told to go, and granted all the same", [
    taken,
    "10-120 b acquire k wait=100 | held 1",
    "200-205 a release k L1 | done",
    "300-305 c acquire k | held 2",
  ]);
});

describe("watches", () => {
  const worked = [
    taken,
    "10-15 a renew k L1 | granted 1 L1",
    "20-25 a release k L1 | done",
    "30-35 b acquire k | granted 2 L2",
  ];
  const begun = "@0 s synced";
  valid("everything, in order", [
    ...worked,
    begun,
    "@6 s acquired k 1",
    "@16 s renewed k 1",
    "@26 s released k 1",
    "@36 s acquired k 2",
  ]);
  valid("nothing yet", [...worked, begun]);
  valid("a stream that says that it missed something", [
    ...worked,
    begun,
    "@6 s acquired k 1",
    "@30 s reset",
    "@31 s synced",
    "@36 s acquired k 2",
  ]);
  broken("I29", "an end left out", [
    ...worked,
    begun,
    "@6 s acquired k 1",
    "@16 s renewed k 1",
    "@36 s acquired k 2",
  ]);
  broken("I29", "a renewal left out", [...worked, begun, "@6 s acquired k 1", "@26 s released k 1"]);
  broken("I29", "an event twice", [
    ...worked,
    begun,
    "@6 s acquired k 1 x",
    "@16 s renewed k 1 y",
    "@17 s renewed k 1 y",
  ]);
  broken("I29", "out of order", [...worked, begun, "@6 s acquired k 2", "@16 s released k 1"]);
  broken("I29", "an end too early", [taken, begun, "@6 s acquired k 1", "@500 s expired k 1"]);
  broken("I29", "a grant that nobody asked for", [
    taken,
    begun,
    "@6 s acquired k 1",
    "@1010 s expired k 1",
    "@1020 s acquired k 2",
  ]);
});

describe("orders that only a search finds", () => {
  valid("a waiter is granted in the middle of others", [
    "0-900 a acquire k wait=900 | granted 2 L2",
    "1-5 b acquire k ttl=100 | granted 1 L1",
    "50-60 b release k L1 | done",
    "55-58 c read k | holds 2",
  ]);
  broken("I28", "a read that fits no order", [
    "0-30 a acquire k | granted 1 L1",
    "10-40 b force k | done",
    "12-14 c read k | holds 1",
    "15-17 c read k | free 1",
    "18-20 c read k | holds 1",
  ]);
});

test("an accusation tells who was granted what, when, and what contradicts it", () => {
  const { violations } = check(historyOf([taken, "900-905 b acquire k | granted 2 L2"]));
  assert.deepEqual(violations, [
    {
      invariant: "I2",
      name: "k",
      says:
        "a was granted token 1 by 5.0 ms and held it until 1000.0 ms at least, " +
        "but b asked for k, 900.0 ms to 905.0 ms, and got lease L2 with token 2 for 1000 ms",
      operations: [0, 1],
    },
  ]);
});

test("a search that is given up is no acquittal", () => {
  const ledger = ledgerOf(
    historyOf([taken, "10-15 a release k L1 | done", "20-25 b acquire k | granted 2 L2"]),
  );
  const findings = [...ledger.names.values()].map((name) => [
    search(name, ledger, 2).kind,
    search(name, ledger).kind,
  ]);
  assert.deepEqual(findings, [["undecided", "explained"]]);
});
