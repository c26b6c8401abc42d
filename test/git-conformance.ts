// What locks in a repository state of themselves before the suite that every store passes, and two handles on them.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { OpenHandles } from "./conformance.js";
import type { Differences } from "./conformance-choice.js";
import { openAt } from "./git-lab.js";

export const stated: Differences = {
  keepsOnlyLocks: true,
  translatesClocks: true,
  skip: [
    {
      reason: "one lock changes per step: git compares and swaps one lock, and the guard, at a time",
      tests: [
        "all writes of a decision appear together",
        "one step may drop an entry and give it to another record",
      ],
    },
    {
      reason:
        "the feed is sampled: what others did is found at the next look, in no order, and only what stands then",
      tests: [
        "feed: from now on means from the call",
        "feed: followers on both handles see every event once, in the order of the steps",
        "feed: resuming after any cursor gives exactly the rest",
      ],
    },
    {
      reason: "each handle numbers what it has seen itself: the cursor of another is not known to it",
      tests: ["feed: the head is the place after everything that has resolved"],
    },
    {
      reason: "an event is told of a lock that changed: a step that writes nothing tells nothing",
      tests: [
        "feed: events of one step keep their order, and an event is told only when its write can be read",
      ],
    },
  ],
};

export const openingGit =
  (make: (dir: string) => readonly [string, string], authority: string): OpenHandles =>
  async () => {
    const dir = mkdtempSync(join(tmpdir(), "holdfast-test-"));
    const [one, two] = make(dir).map((at) => openAt(at, { authority }));
    if (one === undefined || two === undefined) throw new Error("two handles");
    return {
      one,
      two,
      close: async () => {
        await Promise.all([one.close(), two.close()]);
        rmSync(dir, { recursive: true, force: true, maxRetries: 3 });
      },
    };
  };
