// What is told too late, or for no reason, by the marks of a stream's connections and by the replies that show that the
// service was there; and answers that are none. Of each pair the first history is wrong, and the nearest one is not.
import { describe } from "node:test";
import { broken, valid } from "./verdict.js";

const timely = { transitMs: 500, keptMs: 3000 };
const untimed = {};

/** Replies that show that the service answers, to somebody who has nothing to do with the rest. */
const answering = (from: number, to: number): string[] =>
  Array.from({ length: Math.floor((to - from) / 100) }, (_, nth) => {
    const at = from + 100 * nth;
    return `${at}-${at + 1} z read elsewhere | free 0`;
  });

describe("how soon a stream tells", () => {
  const worked = ["10-15 a acquire k ttl=9000 | granted 1 L1", ...answering(0, 4000)];
  const open = ["@0 s opened", "@1 s synced"];
  broken("I29", "a change that is never told", [...worked, ...open], { timely });
  broken("I29", "a change that is told long after", [...worked, ...open, "@3000 s acquired k 1"], { timely });
  valid("a change that is told in time", [...worked, ...open, "@1400 s acquired k 1"], { timely });
  valid("who knows nothing of the way accuses nobody", [...worked, ...open], untimed);
  broken("I29", "a stream that stands still", [...worked, "@0 s opened"], { timely });
  valid("a stream that was cut before", [...worked, ...open, "@1400 s closed"], { timely });
  broken(
    "I29",
    "cut, and left out after it was resumed",
    [...worked, ...open, "@1400 s closed", "@1500 s opened 1"],
    { timely },
  );
  valid(
    "cut, and told after it was resumed",
    [...worked, ...open, "@1400 s closed", "@1500 s opened 1", "@2900 s acquired k 1"],
    { timely },
  );
  valid(
    "while nobody was answered, nobody is late",
    [
      "10-15 a acquire k ttl=9000 | granted 1 L1",
      ...answering(0, 1000),
      ...answering(3000, 3500),
      ...open,
      "@3500 s acquired k 1",
    ],
    { timely },
  );
  broken(
    "I29",
    "an end that is never told",
    [...worked, "20-25 a release k L1 | done", ...open, "@16 s acquired k 1"],
    { timely },
  );
  broken(
    "I29",
    "a lease that ran out, and that is never told",
    ["10-15 a acquire k ttl=500 | granted 1 L1", ...answering(0, 4000), ...open, "@16 s acquired k 1"],
    { timely },
  );
  valid(
    "a lease that ran out, and was told a while after",
    [
      "10-15 a acquire k ttl=500 | granted 1 L1",
      ...answering(0, 4000),
      ...open,
      "@16 s acquired k 1",
      "@2900 s expired k 1",
    ],
    { timely },
  );
  valid(
    "what a later snapshot may have in it",
    [...worked, "@0 s opened", "@100 s snapshot k 1", "@101 s synced"],
    { timely },
  );
});

describe("when a stream begins anew", () => {
  const worked = ["10-15 a acquire k ttl=9000 | granted 1 L1", ...answering(0, 4000)];
  const told = ["@0 s opened", "@1 s synced", "@16 s acquired k 1 x", "@1000 s closed"];
  const anew = ["@1101 s reset", "@1102 s snapshot k 1", "@1103 s synced"];
  broken("I29", "though it was away for a moment only", [...worked, ...told, "@1100 s opened x", ...anew], {
    timely,
  });
  valid("because it was away for long", [...worked, ...told, "@1100 s opened x", ...anew], {
    timely: { ...timely, keptMs: 500 },
  });
  valid(
    "because the service was brought back from a backup",
    [
      "10-15 a acquire k ttl=300 | granted 1 L1",
      ...told,
      "@1100 s opened x",
      "@1101 s reset",
      "@1103 s synced",
    ],
    { timely, quiet: [{ from: 900, to: 1200 }] },
  );
  broken(
    "I29",
    "in the middle, for no reason",
    [
      ...worked,
      "@0 s opened",
      "@1 s synced",
      "@16 s acquired k 1 x",
      "@20 s reset",
      "@21 s snapshot k 1",
      "@22 s synced",
    ],
    { timely },
  );
});

describe("the first snapshot", () => {
  const held = "0-5 a acquire k ttl=9000 | granted 1 L1";
  broken("I29", "is not complete in time", [held, "@10 s opened", ...answering(0, 2000)], { timely });
  valid("need not be complete when the history ends", [held, "@10 s opened", ...answering(0, 1000)], {
    timely,
  });
  broken("I29", "leaves out what is held", [held, "@10 s opened", "@12 s synced"]);
  valid("shows what is held", [held, "@10 s opened", "@11 s snapshot k 1", "@12 s synced"]);
  valid("may be read before what was granted meanwhile", [held, "@4 s opened", "@12 s synced"]);
  broken("I29", "shows what was over", [
    held,
    "6-8 a release k L1 | done",
    "@10 s opened",
    "@11 s snapshot k 1",
    "@12 s synced",
  ]);
  valid("may be read before what was released meanwhile", [
    held,
    "6-11 a release k L1 | done",
    "@10 s opened",
    "@11 s snapshot k 1",
    "@12 s synced",
    "@13 s released k 1",
  ]);
  broken("I29", "is followed by the next grant, without the end of what it shows", [
    held,
    "20-25 a release k L1 | done",
    "30-35 b acquire k | granted 2 L2",
    "@10 s opened",
    "@11 s snapshot k 1",
    "@12 s synced",
    "@36 s acquired k 2",
  ]);
});

describe("granted after standing in line", () => {
  const held = ["0-5 a acquire k ttl=9000 | granted 1 L1", "100-105 a release k L1 | done"];
  const waited = "50-3000 b acquire k wait=5000 | granted 2 L2";
  broken("I26", "long after the name was free", [...held, waited, ...answering(0, 4000)], { timely });
  valid(
    "soon after the name was free",
    [...held, "50-900 b acquire k wait=5000 | granted 2 L2", ...answering(0, 4000)],
    { timely },
  );
  valid("when the service answered again", [...held, waited, ...answering(2500, 4000)], { timely });
  valid(
    "as soon as it had come",
    [...held, "2800-3000 b acquire k wait=5000 | granted 2 L2", ...answering(0, 4000)],
    {
      timely,
    },
  );
  valid(
    "after somebody who never heard of it",
    [
      ...held,
      "40-? c acquire k wait=5000 | unknown",
      "50-3000 b acquire k wait=5000 | granted 3 L2",
      ...answering(0, 4000),
    ],
    { timely },
  );
  valid("by a request that may have been on its way for long", [...held, waited, ...answering(0, 4000)], {
    timely: { ...timely, transitMs: 3500 },
  });
  broken(
    "I26",
    "long after the lease before had run out",
    [
      "0-5 a acquire k ttl=1000 | granted 1 L1",
      "50-4000 b acquire k wait=5000 | granted 2 L2",
      ...answering(0, 4500),
    ],
    { timely },
  );
});

describe("an answer that is none", () => {
  broken("I20", "to an acquire", ["0-? a acquire k | hollow"]);
  broken("I20", "to the opening of a session", ["0-? a open ttl=5000 | hollow"]);
  valid("no answer at all", ["0-? a acquire k | unknown"]);
});

describe("refused because of a name that overlaps", () => {
  const above = "0-5 a acquire path:x ttl=9000 | granted 1 L1";
  valid("which is held", [above, "10-15 b acquire path:x/y | held path:x"]);
  broken("I3", "which was released", [
    above,
    "6-8 a release path:x L1 | done",
    "9-10 c acquire path:x/y/z | granted 1 M1",
    "11-15 b acquire path:x/y | held path:x",
  ]);
  broken("I3", "which does not overlap", [
    "0-5 a acquire path:x ttl=9000 | granted 1 L1",
    "10-15 b acquire path:xy | held path:x",
  ]);
  valid("which belongs to somebody whose calls nobody wrote down", [
    "10-15 b acquire path:x/y | held repo:global",
  ]);
});
