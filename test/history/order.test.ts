// Who comes first: in line where all were served, on a stream that tells of several names, and between names that
// overlap where one of them was never heard of. Of each pair the first history is wrong, and the nearest one is not.
import { describe } from "node:test";
import { broken, valid } from "./verdict.js";

const timely = { transitMs: 500, keptMs: 3000 };

/** Replies that show that the service answers, to somebody who has nothing to do with the rest. */
const answering = (from: number, to: number): string[] =>
  Array.from({ length: Math.floor((to - from) / 100) }, (_, nth) => {
    const at = from + 100 * nth;
    return `${at}-${at + 1} z read elsewhere | free 0`;
  });

describe("served after another who came later", () => {
  const taken = "0-5 a acquire k ttl=9000 | granted 1 L1";
  const released = "2000-2005 a release k L1 | done";
  const passing = "2100-2105 c release k L2 | done";
  const waited = "10-2110 b acquire k wait=4000 ttl=9000 | granted 3 L3";
  const late = "1500-2010 c acquire k wait=4000 ttl=9000 | granted 2 L2";
  const all = [taken, released, passing, waited];
  broken("I25", "by one who stood behind it", [...all, late, ...answering(0, 2200)], { timely });
  broken(
    "I25",
    "by one who did not stand in line",
    [...all, "2006-2010 c acquire k ttl=9000 | granted 2 L2", ...answering(0, 2200)],
    { timely },
  );
  valid("who knows nothing of the way accuses nobody", [...all, late, ...answering(0, 2200)]);
  valid(
    "its request may have been on its way",
    [...all, late.replace("1500", "900"), ...answering(0, 2200)],
    { timely },
  );
  valid("while nobody was answered, it need not have arrived", [...all, late, ...answering(1400, 2200)], {
    timely,
  });
  valid(
    "the other came back with the ticket of a place before it",
    [
      ...all,
      "5-? c acquire k wait=4000 ttl=9000 request=r | unknown",
      late.replace("ttl=9000", "ttl=9000 request=r"),
      ...answering(0, 2200),
    ],
    { timely },
  );
});

describe("told in the order in which it happened, whatever the name", () => {
  const shown = ["0-1 x acquire j ttl=9000 | granted 1 J1", "@2 s snapshot j 1", "@3 s synced"];
  const taken = "40-50 a acquire k ttl=9000 | granted 1 L1";
  const released = "100-110 x release j J1 | done";
  broken("I29", "a release before a grant that came first", [
    ...shown,
    taken,
    released,
    "@120 s released j 1",
    "@121 s acquired k 1",
  ]);
  valid("a release before a grant that was under way", [
    ...shown,
    taken.replace("40-50", "40-105"),
    released,
    "@120 s released j 1",
    "@121 s acquired k 1",
  ]);
  const told = ["@3 s synced", taken, "@51 s acquired k 1"];
  broken("I29", "a renewal after a grant that came later", [
    ...told,
    "60-65 a renew k L1 | granted 1 L1 9000",
    "100-110 x acquire j | granted 1 J1",
    "@120 s acquired j 1",
    "@121 s renewed k 1",
  ]);
  valid("one of two renewals after a grant that came between them", [
    ...told,
    "60-65 a renew k L1 | granted 1 L1 9000",
    "100-110 x acquire j | granted 1 J1",
    "115-118 a renew k L1 | granted 1 L1 9000",
    "@119 s renewed k 1",
    "@120 s acquired j 1",
    "@121 s renewed k 1",
  ]);
  valid("a renewal after a grant, where another was lost", [
    ...told,
    "55-? a renew k L1 | unknown",
    "60-65 a renew k L1 | granted 1 L1 9000",
    "100-110 x acquire j | granted 1 J1",
    "@66 s renewed k 1",
    "@120 s acquired j 1",
    "@121 s renewed k 1",
  ]);
  broken("I29", "an end by expiry before a release that came first", [
    ...shown,
    "40-50 a acquire k | granted 1 L1",
    "@51 s acquired k 1",
    released,
    "@1100 s expired k 1",
    "@1101 s released j 1",
  ]);
  valid("an end by expiry before a release that came then", [
    ...shown,
    "40-50 a acquire k | granted 1 L1",
    "@51 s acquired k 1",
    "1000-1060 x release j J1 | done",
    "@1100 s expired k 1",
    "@1101 s released j 1",
  ]);
});

describe("names that overlap, one of which nobody was told of", () => {
  const lost = ["0-? a acquire path:x/y | unknown", "5-8 c read path:x/y | holds 1"];
  const above = "10-15 b acquire path:x | granted 1 L1";
  broken("I1", "it was seen before and after", [...lost, above, "20-25 c read path:x/y | holds 1"]);
  valid("it was seen before", [...lost, above.replace("10-15", "1010-1015")]);
  valid("it was seen before, and its caller may have gone with it", [
    "0-? a acquire path:x/y wait=1000 | unknown",
    "5-8 c read path:x/y | holds 1",
    above,
  ]);
  valid("it may be of a session that has both", [
    "0-1 b open ttl=9000 | opened S",
    "2-? b acquire path:x/y session=S | unknown",
    "5-8 c read path:x/y | holds 1",
    "10-15 b acquire path:x session=S | granted 1 L1",
    "20-25 c read path:x/y | holds 1",
  ]);
});
