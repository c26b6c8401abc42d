// The contract that every store keeps, over the references of a remote that two clones share.
import { conformance } from "./conformance.js";
import { openingGit, stated } from "./git-conformance.js";
import { newRemote } from "./git-lab.js";

const twoClones = (dir: string): readonly [string, string] => {
  const [one = "", two = ""] = newRemote(dir, 2).clones;
  return [one, two];
};

conformance("git, by the references of a remote,", openingGit(twoClones, "origin"), {
  ...stated,
  effort: 0.05,
});
