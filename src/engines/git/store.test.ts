// The contract that every store keeps, over references of a clone and over those of a remote.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { conformance, type Differences, type OpenHandles } from "../../../test/conformance.js";
import { newRemote, newRepository, openAt } from "../../../test/git-lab.js";

const stated: Differences = {
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

const opening =
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

const oneClone = (dir: string): readonly [string, string] => {
  const at = newRepository(join(dir, "clone"));
  return [at, at];
};

const twoClones = (dir: string): readonly [string, string] => {
  const [one = "", two = ""] = newRemote(dir, 2).clones;
  return [one, two];
};

conformance("git, by the references of a clone,", opening(oneClone, "local"), { ...stated, effort: 0.5 });
conformance("git, by the references of a remote,", opening(twoClones, "origin"), { ...stated, effort: 0.1 });
