// Where one step decides: of each pair the first history is wrong, and the nearest one that a correct service can have
// produced is not.
import { describe } from "node:test";
import { broken, valid } from "./verdict.js";

const taken = "0-5 a acquire k | granted 1 L1";

describe("what a session is told", () => {
  const opened = "0-5 a open ttl=5000 | opened S";
  broken("I18", "a session that is told too little", ["0-5 a open ttl=5000 | opened S 4900"]);
  broken("I18", "a session that is told too much", ["0-5 a open ttl=5000 | opened S 5002"]);
  valid("a session whose reply took its time", ["0-100 a open ttl=5000 | opened S 4900"]);
  broken("I18", "a lease that is told to outlive its session", [
    opened,
    "10-15 a acquire k ttl=session session=S | granted 1 L1 3600000",
  ]);
  broken("I18", "a lease with more of a TTL than its session has left", [
    opened,
    "2000-2005 a acquire k ttl=4000 session=S | granted 1 L1 4000",
  ]);
  valid("the same, after a keepalive", [
    opened,
    "1990-1995 a keepalive S | done",
    "2000-2005 a acquire k ttl=4000 session=S | granted 1 L1 4000",
  ]);
  valid("the same, after a keepalive whose reply was lost", [
    opened,
    "1990-? a keepalive S | unknown",
    "2000-2005 a acquire k ttl=4000 session=S | granted 1 L1 4000",
  ]);
  broken("I18", "a renewal that reaches beyond the session", [
    opened,
    "10-15 a acquire k ttl=session session=S | granted 1 L1",
    "2000-2005 a renew k L1 | granted 1 L1 5000",
  ]);
  broken("I18", "a lease with less than its TTL, in a session that has more", [
    opened,
    "10-15 a acquire k ttl=1000 session=S | granted 1 L1 500",
  ]);
  broken("I18", "a lease with less than its session, which it lives as long as", [
    opened,
    "10-15 a acquire k ttl=session session=S | granted 1 L1 1000",
  ]);
  valid("a lease that its session cuts short", [
    opened,
    "4800-4805 a acquire k ttl=1000 session=S | granted 1 L1 199",
  ]);
});

describe("whose session it is", () => {
  const opened = "0-5 a open ttl=5000 | opened S";
  broken("I15", "a stranger keeps it alive", [opened, "10-15 b keepalive S | done"]);
  broken("I15", "a stranger ends it", [opened, "10-15 b end S | done"]);
  broken("I15", "a stranger is granted a lease for it", [
    opened,
    "10-15 b acquire k session=S | granted 1 L1",
  ]);
  valid("a stranger is told that there is none", [
    opened,
    "10-15 b keepalive S | gone",
    "20-25 b acquire k session=S | gone",
    "30-35 b end S | gone",
    "40-45 a2/a acquire k session=S | granted 1 L1",
  ]);
  broken("I15", "one id for two sessions", [opened, "10-15 b open ttl=5000 | opened S"]);
  valid("an id for each", [opened, "10-15 a open ttl=5000 | opened T"]);
  broken("I12", "its own lease is held, it is told", [
    opened,
    "10-15 a acquire k session=S ttl=session | granted 1 L1",
    "20-25 a acquire k session=S ttl=session | held 1",
  ]);
  valid("another session's lease is held", [
    opened,
    "6-8 a open ttl=5000 | opened T",
    "10-15 a acquire k session=S ttl=session | granted 1 L1",
    "20-25 a acquire k session=T ttl=session | held 1",
  ]);
  broken("I12", "who proves to be the holder is told that it is held", [
    taken,
    "20-25 a acquire k proof=L1 | held 1",
  ]);
  valid("who proves to have been the holder before is told that it is held", [
    taken,
    "10-15 a release k L1 | done",
    "20-25 a acquire k | granted 2 L2",
    "30-35 a acquire k proof=L1 | held 2",
  ]);
  broken("I3", "refused for a lease above it, of its own session", [
    opened,
    "10-15 a acquire path:x session=S | granted 1 L1",
    "20-25 a acquire path:x/y session=S | held",
  ]);
  valid("refused for a lease above it, of another session", [
    opened,
    "6-8 a open ttl=5000 | opened T",
    "10-15 a acquire path:x session=S | granted 1 L1",
    "20-25 a acquire path:x/y session=T | held",
  ]);
});

describe("a release without a reply, and the lock delay", () => {
  const delaying = "0-5 a acquire k delay=5000 | granted 1 L1";
  broken("I2", "asked for when the lease was over, it ends no lock delay", [
    delaying,
    "1100-? a release k L1 | unknown",
    "2100-2105 b acquire k | granted 2 L2",
  ]);
  valid("asked for while it was held, it may have been done", [
    delaying,
    "900-? a release k L1 | unknown",
    "2100-2105 b acquire k | granted 2 L2",
  ]);
  valid("asked for while a renewal without a reply may have gone on", [
    delaying,
    "900-? a renew k L1 | unknown",
    "1100-? a release k L1 | unknown",
    "2100-2105 b acquire k | granted 2 L2",
  ]);
});

describe("one request id", () => {
  broken("I19", "two requests under way at once, both granted", [
    "0-10 a acquire k request=r | granted 1 L1",
    "5-12 a2/a acquire m request=r | granted 1 M1",
  ]);
  valid("two requests under way at once, one refused", [
    "0-10 a acquire k request=r | granted 1 L1",
    "5-9 a2/a acquire m request=r | reused",
  ]);
  broken("I20", "sent three times, it explains one token", [
    "0-? a acquire k request=r | unknown",
    "10-? a acquire k request=r | unknown",
    "20-? a acquire k request=r | unknown",
    "30-35 b read k | holds 1",
    "1500-1505 b read k | holds 2",
  ]);
  valid("two ids explain two", [
    "0-? a acquire k request=r | unknown",
    "10-? a acquire k request=q | unknown",
    "30-35 b read k | holds 1",
    "1500-1505 b read k | holds 2",
  ]);
  valid(
    "after a restore one id explains two",
    [
      "0-? a acquire k request=r | unknown",
      "30-35 b read k | holds 1",
      "1500-? a acquire k request=r | unknown",
      "1600-1605 b read k | holds 2",
    ],
    { quiet: [{ from: 50, to: 1400 }] },
  );
  valid(
    "after a restore an id that was granted before explains another",
    [
      "0-5 a acquire k request=r | granted 1 L1",
      "1500-? a acquire k request=r | unknown",
      "1600-1605 b read k | holds 2",
    ],
    { quiet: [{ from: 50, to: 1400 }] },
  );
  broken("I20", "of a session: what it was granted is told, so the token before it is nobody's", [
    "0-1 a open ttl=10000 | opened S",
    "2-? a acquire k request=r session=S | unknown",
    "10-15 b read k | holds 1",
    "1500-1505 b read k | free 1",
    "1600-1605 a acquire k request=r session=S | granted 2 L2",
  ]);
  valid("of a session: another of its requests may have been granted it", [
    "0-1 a open ttl=10000 | opened S",
    "2-? a acquire k request=r session=S | unknown",
    "10-15 b read k | holds 1",
    "1500-1505 b read k | free 1",
    "1600-? a acquire k request=q session=S | unknown",
    "1700-1705 a acquire k request=q session=S | granted 2 L2 905",
  ]);
  const session = ["0-1 a open ttl=10000 | opened S", "2-5 a acquire k request=r session=S | granted 1 L1"];
  broken("I19", "granted to a session, and again after the session had asked under another id", [
    ...session,
    "10-15 a acquire k request=q session=S | granted 1 L1",
    "20-25 a release k L1 | done",
    "30-35 a acquire k request=r session=S | granted 2 L2",
  ]);
  valid("the other id, which only gave the lease again, is free", [
    ...session,
    "10-15 a acquire k request=q session=S | granted 1 L1",
    "20-25 a release k L1 | done",
    "30-35 a acquire k request=q session=S | granted 2 L2",
  ]);
  const lost = "0-? a acquire k request=r | unknown";
  broken("I19", "nobody else asked, and the repeat is told that somebody has it", [
    lost,
    "10-15 b read k | holds 1",
    "20-25 a acquire k request=r | held 1",
  ]);
  valid("somebody else asked", [
    lost,
    "5-? b acquire k | unknown",
    "10-15 b read k | holds 1",
    "20-25 a acquire k request=r | held 1",
  ]);
});

describe("after a restore", () => {
  const quiet = [{ from: 50, to: 900 }];
  const long = "0-5 a acquire k ttl=5000 | granted 1 L1";
  broken("I16", "a lease of before goes on", [long, "1000-1005 a renew k L1 | granted 1 L1 5000"], { quiet });
  valid("a lease of before is lost", [long, "1000-1005 a renew k L1 | lost"], { quiet });
  valid("a lease may go on until the restore", [long, "60-65 a renew k L1 ttl=5000 | granted 1 L1"], {
    quiet,
  });
  const opened = "0-5 a open ttl=5000 | opened S";
  broken("I16", "a session of before goes on", [opened, "1000-1005 a keepalive S | done"], { quiet });
  broken(
    "I5",
    "a session of before is granted a lease",
    [opened, "1000-1005 a acquire k session=S | granted 9 L1"],
    { quiet },
  );
  valid("a session of before is gone", [opened, "1000-1005 a keepalive S | gone"], { quiet });
  const before = "0-5 a acquire k request=r | granted 1 L1";
  const after = ["1000-1005 a acquire k request=r | granted 9 L2", "1010-1015 a release k L2 | done"];
  broken(
    "I19",
    "an id is granted twice, and was before",
    [before, ...after, "1020-1025 a acquire k request=r | granted 10 L3"],
    { quiet },
  );
  valid(
    "an id is granted once, and was before",
    [before, ...after, "1020-1025 a acquire k request=r | lost"],
    { quiet },
  );
});

describe("small things", () => {
  broken("I5", "a waiter gets what was over", [taken, "6-4000 b acquire k wait=5000 | granted 2 L2 -500"]);
  valid("a waiter gets what it asked for", [taken, "6-1500 b acquire k wait=5000 | granted 2 L2"]);
  broken("I13", "somebody holds it with a token that JSON cannot carry", [
    "0-? a acquire k | unknown",
    "10-15 b acquire k | held 9007199254740993",
  ]);
  broken("I13", "a read tells a token that JSON cannot carry", [
    "0-? a acquire k | unknown",
    "10-15 b read k | holds 9007199254740993",
  ]);
  valid("the highest token of all", ["0-? a acquire k | unknown", "10-15 b read k | holds 9007199254740991"]);
  broken("I15", "one lease id on two names", [taken, "6-9 a acquire m | granted 1 L1"]);
  valid("one token on two names", [taken, "6-9 a acquire m | granted 1 M1"]);
});

describe("waiting in vain", () => {
  const long = "0-5 a acquire k ttl=10000 | granted 1 L1";
  const waited = "10-5010 b acquire k wait=5000 | held 1";
  broken("I26", "in front of a free name, and nobody got it afterwards", [
    long,
    waited,
    "100-105 a release k L1 | done",
  ]);
  valid("until shortly before the name was free", [long, waited, "5005-5010 a release k L1 | done"]);
  broken("I26", "in front of a free name; who came later and never heard did not pass", [
    long,
    waited,
    "100-105 a release k L1 | done",
    "1000-? c acquire k | unknown",
  ]);
  valid("who came before and never heard may have got it", [
    long,
    "7-? c acquire k wait=9000 ttl=10000 | unknown",
    "10-5010 b acquire k wait=5000 | held 2",
    "100-105 a release k L1 | done",
  ]);
  valid("who comes again under its request id has its old place", [
    long,
    "7-9 c acquire k ttl=10000 request=r | held 1",
    "10-5010 b acquire k wait=5000 | held 2",
    "50-? c acquire k wait=9000 ttl=10000 request=r | unknown",
    "100-105 a release k L1 | done",
  ]);
  broken("I3", "for a lease that was over for a second when its time was up", [
    taken,
    "10-4010 b acquire k wait=4000 | held 1",
  ]);
  valid("for a lease that was renewed by a call without a reply", [
    "0-5 a acquire k ttl=3000 | granted 1 L1",
    "2900-? a renew k L1 | unknown",
    "10-4010 b acquire k wait=4000 | held 1",
  ]);
  broken("I3", "for a lease that was just over: the last look came after", [
    taken,
    "10-1110 b acquire k wait=1100 | held 1",
  ]);
  valid("answered before its time was up: nobody knows when it was decided", [
    taken,
    "10-1100 b acquire k wait=1100 | held 1",
  ]);
  broken("I3", "for a lock delay that was over", [
    "0-5 a acquire k delay=500 | granted 1 L1",
    "10-4010 b acquire k wait=4000 | delayed",
  ]);
  valid("for a lock delay that went on", [
    "0-5 a acquire k delay=3500 | granted 1 L1",
    "10-4010 b acquire k wait=4000 | delayed",
  ]);
  broken("I3", "for a name above it that was free long before", [
    "0-5 a acquire path:x | granted 1 L1",
    "10-5010 b acquire path:x/y wait=5000 | held",
    "20-25 a release path:x L1 | done",
  ]);
  valid("for a name above it that was free in the end", [
    "0-5 a acquire path:x ttl=10000 | granted 1 L1",
    "10-5010 b acquire path:x/y wait=5000 | held",
    "5005-5012 a release path:x L1 | done",
  ]);
});

describe("what a stream tells", () => {
  const worked = [
    taken,
    "10-15 a renew k L1 | granted 1 L1",
    "20-25 a release k L1 | done",
    "30-35 b acquire k | granted 2 L2",
  ];
  const begun = "@0 s synced";
  broken("I29", "a snapshot of what never was", [...worked, "@40 s snapshot k 99", "@41 s synced"]);
  valid("a snapshot of what nobody heard of", [
    ...worked,
    "36-? c acquire k | unknown",
    "@1100 s snapshot k 99",
    "@1101 s synced",
  ]);
  const again = ["@2 s acquired m 1", "@7 s reset", "@8 s snapshot k 1", "@9 s synced"];
  broken("I29", "the end of what a snapshot showed is left out", [
    ...worked,
    begun,
    ...again,
    "@36 s acquired k 2",
  ]);
  valid("the end of what a snapshot showed", [
    ...worked,
    begun,
    ...again,
    "@26 s released k 1",
    "@36 s acquired k 2",
  ]);
  valid("events up to what a snapshot shows may follow it", [
    ...worked,
    begun,
    "@2 s acquired m 1",
    "@37 s reset",
    "@38 s snapshot k 2",
    "@39 s synced",
    "@40 s released k 1",
    "@41 s acquired k 2",
  ]);
  valid("a first snapshot that broke off says nothing about the next", [
    ...worked,
    "@6 s snapshot k 1",
    "@29 s synced",
    "@36 s acquired k 2",
  ]);
  broken("I29", "a release, and not the grant", [
    "5-9 a acquire k | granted 1 L1",
    "20-25 a release k L1 | done",
    begun,
    "@26 s released k 1",
  ]);
  valid("a release of what was held before, and over when it was shown", [
    "5-9 a acquire k | granted 1 L1",
    "20-25 a release k L1 | done",
    "@24 s synced",
    "@26 s released k 1",
  ]);
  broken("I29", "an event twice, and a word that all is told in between", [
    ...worked,
    "@6 s acquired k 1 x",
    "@7 s synced",
    "@8 s acquired k 1 x",
  ]);
  broken("I29", "a renewal twice, under new ids", [
    ...worked,
    begun,
    "@6 s acquired k 1",
    "@16 s renewed k 1",
    "@17 s renewed k 1",
    "@26 s released k 1",
  ]);
  valid("a renewal and a re-entry", [
    taken,
    "10-15 a renew k L1 | granted 1 L1",
    "16-18 a acquire k proof=L1 | granted 1 L1",
    "20-25 a release k L1 | done",
    begun,
    "@6 s acquired k 1",
    "@16 s renewed k 1",
    "@19 s renewed k 1",
    "@26 s released k 1",
  ]);
  const others = ["40-45 c acquire m | granted 1 M1", "50-55 c release m M1 | done"];
  broken("I29", "a grant left out, and a later one of another name told", [
    "1-5 a acquire k | granted 1 L1",
    "20-25 a release k L1 | done",
    "30-35 a acquire k | granted 2 L2",
    ...others,
    begun,
    "@6 s acquired k 1",
    "@26 s released k 1",
    "@46 s acquired m 1",
  ]);
  broken("I29", "a release left out, and a later grant of another name told", [
    "1-5 a acquire k | granted 1 L1",
    "20-25 a release k L1 | done",
    ...others,
    begun,
    "@6 s acquired k 1",
    "@46 s acquired m 1",
  ]);
  broken("I29", "a release told after a later grant of another name", [
    "1-5 a acquire k | granted 1 L1",
    "20-25 a release k L1 | done",
    ...others,
    begun,
    "@6 s acquired k 1",
    "@46 s acquired m 1",
    "@47 s released k 1",
  ]);
  valid("a release and a grant of another name at once, in either order", [
    "1-5 a acquire k | granted 1 L1",
    "20-42 a release k L1 | done",
    ...others,
    begun,
    "@6 s acquired k 1",
    "@46 s acquired m 1",
    "@47 s released k 1",
  ]);
  const held = [
    "1-5 a acquire k ttl=9000 | granted 1 L1",
    "10-15 a acquire m | granted 1 M1",
    begun,
    "@6 s acquired k 1",
    "@16 s acquired m 1",
    "@20 s reset",
  ];
  broken("I29", "a snapshot that leaves out what is held", [...held, "@21 s snapshot m 1", "@22 s synced"]);
  valid("a snapshot of all that is held", [
    ...held,
    "@21 s snapshot k 1",
    "@21 s snapshot m 1",
    "@22 s synced",
  ]);
  valid("a snapshot that may have been read when it was over", [
    ...held,
    "19-? a release k L1 | unknown",
    "@21 s snapshot m 1",
    "@22 s synced",
  ]);
  valid("a snapshot that may have been read before it was granted", [
    ...held,
    "17-19 a acquire n | granted 1 N1",
    "@21 s snapshot k 1",
    "@21 s snapshot m 1",
    "@22 s synced",
    "@23 s acquired n 1",
  ]);
});
