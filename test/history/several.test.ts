// Several places that share the leases, one line and one clock: what their history may show beyond a single server's, and no more.
// Of each pair the first history is wrong, and the nearest one is not.
import { describe } from "node:test";
import { broken, valid } from "./verdict.js";

describe("a free name that is kept for one who waits elsewhere", () => {
  const terms = { keepsTurns: true };
  const over = ["0-5 a acquire k ttl=9000 | granted 1 L1", "100-105 a release k L1 | done"];
  const refused = "300-310 c acquire k | delayed";
  const waits = "50-600 b acquire k wait=3000 ttl=9000 | granted 2 L2";
  const lost = "50-? c acquire k wait=100 | unknown";
  const kept = { terms };
  broken("I3", "though nobody waited", [...over, refused], kept);
  broken("I3", "by a server that decides alone", [...over, refused, waits]);
  valid("another waited", [...over, refused, waits], kept);
  broken(
    "I3",
    "for an earlier call of the same caller, which was answered",
    [...over, "50-90 c acquire k wait=30 | held 1", refused],
    kept,
  );
  valid(
    "for an earlier call of the same caller, whose end it never heard of: its server may be gone",
    [...over, lost, refused],
    kept,
  );
  broken(
    "I3",
    "for one who waited long ago",
    [...over, "50-? b acquire k wait=100 | unknown", "5200-5210 c acquire k | delayed"],
    kept,
  );
});

describe("a lease that lasts longer because the shared clock fell behind", () => {
  const terms = { lateMs: 2000 };
  const taken = "0-5 a acquire k ttl=1000 | granted 1 L1";
  const renewal = (at: number): string => `${at}-${at + 5} a renew k L1 | granted 1 L1`;
  broken("I16", "by more than it did", [taken, renewal(3100)], { terms });
  broken("I16", "where no clock is shared", [taken, renewal(2900)]);
  valid("by as much", [taken, renewal(2900)], { terms });
  broken("I2", "is never shorter for it", [taken, "500-510 b acquire k | granted 2 L2"], { terms });
});

describe("a turn while one of the places was gone", () => {
  const passed = [
    "0-5 a acquire k ttl=9000 | granted 1 L1",
    "10-3012 b acquire k wait=3000 | held 2",
    "2000-2005 a release k L1 | done",
    "1500-2010 c acquire k wait=3000 ttl=9000 | granted 2 L2",
  ];
  broken("I25", "before that", passed, { upsets: [{ from: 4000, to: 9000 }] });
  valid("nobody is accused", passed, { upsets: [{ from: 1800, to: 9000 }] });
});
