// What is told of a lease beside its token: whose it is, what that one had to show, and how long it has; and what is
// left of a session. Of each pair the first history is wrong, and the nearest one is not.
import { describe } from "node:test";
import { broken, valid } from "./verdict.js";

const taken = "0-5 a acquire k label=build-7 | granted 1 L1";

describe("who has it", () => {
  broken("I28", "another than the holder is named", [
    taken,
    "10-15 b acquire k | held 1 by=c label=build-7 left=990",
  ]);
  broken("I28", "another than the holder is read", [
    taken,
    "10-15 b read k | holds 1 by=c label=build-7 left=990",
  ]);
  broken("I28", "the holder is said to show what it did not", [
    taken,
    "10-15 b read k | holds 1 by=a label=build-6 left=990",
  ]);
  broken("I28", "the holder is said to show nothing", [taken, "10-15 b read k | holds 1 by=a left=990"]);
  valid("the holder is named", [taken, "10-15 b read k | holds 1 by=a label=build-7 left=990"]);
  valid("what a holder showed that is not written down", [
    "0-5 a acquire k | granted 1 L1",
    "10-15 b read k | holds 1 by=a label=build-7 left=990",
  ]);
  broken("I28", "somebody who never asked is said to have what nobody was told of", [
    "0-? a acquire k | unknown",
    "10-15 b read k | holds 1 by=c left=990",
  ]);
  valid("the only one who can have it is said to", [
    "0-? a acquire k | unknown",
    "10-15 b read k | holds 1 by=a left=990",
  ]);
});

describe("how long it has", () => {
  const plain = "0-5 a acquire k | granted 1 L1";
  broken("I28", "more than it can have", [plain, "100-105 b read k | holds 1 by=a left=990"]);
  broken("I28", "less than its holder was told", [plain, "100-105 b read k | holds 1 by=a left=880"]);
  valid("what was left when it was asked for", [plain, "100-105 b read k | holds 1 by=a left=905"]);
  valid("what was left when it was answered", [plain, "100-105 b read k | holds 1 by=a left=895"]);
  valid("within the bound of the clocks", [plain, "100-105 b read k | holds 1 by=a left=860"], {
    clockBoundMs: 40,
  });
  broken("I28", "as if it had not been renewed", [
    plain,
    "500-505 a renew k L1 | granted 1 L1",
    "600-605 b read k | holds 1 by=a left=400",
  ]);
  valid("beside a renewal that is under way", [
    plain,
    "500-700 a renew k L1 | granted 1 L1",
    "600-605 b read k | holds 1 by=a left=400",
  ]);
  valid("after a renewal whose reply was lost", [
    plain,
    "500-? a renew k L1 | unknown",
    "600-605 b read k | holds 1 by=a left=900",
  ]);
  valid("after a renewal that shortened it", [
    plain,
    "100-105 a renew k L1 ttl=200 | granted 1 L1",
    "110-115 b read k | holds 1 by=a left=190",
  ]);
  valid("who waited in vain is told what was left at the end", [
    plain,
    "100-605 b acquire k wait=500 | held 1 by=a left=400",
  ]);
  broken("I28", "who waited in vain is told what was left at the beginning", [
    plain,
    "100-605 b acquire k wait=500 | held 1 by=a left=900",
  ]);
});

describe("how long a session has", () => {
  const opened = "0-5 a open ttl=5000 | opened S";
  broken("I18", "a keepalive that is told too much", [opened, "10-15 a keepalive S | done 5002"]);
  broken("I18", "a keepalive that is told too little", [opened, "10-15 a keepalive S | done 4900"]);
  valid("a keepalive whose reply took its time", [opened, "10-110 a keepalive S | done 4900"]);
  const before = "10-15 b acquire k ttl=5000 | granted 1 L1";
  const released = "700-705 b release k L1 | done";
  broken("I18", "a waiter whose TTL counts from when it came", [
    opened,
    before,
    "20-710 a acquire k wait=4000 ttl=1000 session=S | granted 2 L2 310",
    released,
  ]);
  valid("a waiter whose TTL counts from its grant", [
    opened,
    before,
    "20-710 a acquire k wait=4000 ttl=1000 session=S | granted 2 L2 991",
    released,
  ]);
});
