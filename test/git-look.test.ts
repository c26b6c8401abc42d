// Looks at a remote while others change it: what a reference pointed to a moment ago is still to be had.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Asker, git, newRemote, openAt } from "./git-lab.js";
import { scratch } from "./store-lab.js";

test("locks that are renewed between a look and the fetch of its records can be listed and taken", async (t) => {
  const { bare, clones } = newRemote(scratch(t), 2);
  const [first = "", second = ""] = clones;
  const [one, two] = [first, second].map((at, i) => {
    const store = openAt(at, { authority: "origin" });
    t.after(() => store.close());
    return new Asker(store, `clone-${i}`);
  }) as [Asker, Asker];
  assert.equal(await one.acquire("busy"), 1);
  // Every connection finds another record than the one before.
  const program = join(second, "..", "upload-pack");
  writeFileSync(
    program,
    `#!/bin/sh
exec 3>&1 4<&0
(
  cd '${bare}'
  git for-each-ref --format='%(refname)' refs/holdfast/locks | while read -r ref; do
    git update-ref "$ref" "$(git cat-file blob "$ref" | sed 's/"write_id":"/&1/' | git hash-object -w --stdin)"
  done
) >/dev/null </dev/null
exec git-upload-pack "$@" >&3 <&4
`,
    { mode: 0o755 },
  );
  git(second, "config", "remote.origin.uploadpack", program);
  assert.deepEqual(await two.list(), ["busy clone-0 1"]);
  assert.equal(await two.acquire("busy"), "held by clone-0");
  assert.equal(await two.acquire("path:a"), 1);
});
