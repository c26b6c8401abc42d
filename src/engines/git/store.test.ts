// The contract that every store keeps, over the references of a clone. Those of a remote: test/git-remote-contract.test.ts.
import { join } from "node:path";
import { conformance } from "../../../test/conformance.js";
import { openingGit, stated } from "../../../test/git-conformance.js";
import { newRepository } from "../../../test/git-lab.js";

const oneClone = (dir: string): readonly [string, string] => {
  const at = newRepository(join(dir, "clone"));
  return [at, at];
};

conformance("git, by the references of a clone,", openingGit(oneClone, "local"), { ...stated, effort: 0.5 });
