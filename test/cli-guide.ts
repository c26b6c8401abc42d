// The guide to distributed locks that many scripts were written after: its examples, unchanged but for the program's
// name, against whatever keeps the locks. The guide's `issue` commands are stand-ins here, as are `sleep` and its worker
// functions.
import assert from "node:assert/strict";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { eventually, jsonOf } from "./cli-lab.js";
import type { Ended } from "./system-program.js";

/** Where the examples run: somebody whose scripts they are, and somebody else. */
export interface GuideLab extends AsyncDisposable {
  /** For files of the stand-ins. */
  readonly dir: string;
  /** Who holds what a script acquires, and who the other one is. */
  readonly owner: string;
  readonly other: string;
  readonly nonce: RegExp;
  /** What a script begins with to be in a repository. */
  readonly inRepository: string;
  command(name: string, text: string): void;
  /** A bash script: a session of its own. */
  script(text: string, env?: Record<string, string | undefined>, who?: "other"): Promise<Ended>;
  holderOf(name: string): Promise<string | null>;
}

interface Acquired {
  readonly lock: {
    readonly resource: string;
    readonly owner: string;
    readonly nonce: string;
    readonly token: number;
    readonly expires_unix_ms: number;
    readonly ttl_seconds: number;
  };
}

const instant = String.raw`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC`;

export function describeGuide(where: string, open: () => Promise<GuideLab>): void {
  describe(`the guide's examples, ${where}`, () => {
    let lab: GuideLab;
    before(async () => {
      lab = await open();
      // Writes down what it was asked; `list` has three open issues, `comment` goes on when it may.
      lab.command(
        "issue",
        `#!/bin/sh
echo "$@" >> '${lab.dir}/issue.log'
case "$1" in
  list) echo '{"data":{"issues":[{"issue_id":"one"},{"issue_id":"two"},{"issue_id":"three"}]}}' ;;
  create) echo '{"ok":true,"data":{"issue_id":"one"}}' ;;
  comment) while [ -e '${lab.dir}/working' ]; do /bin/sleep 0.05; done ;;
esac
`,
      );
      lab.command("sleep", `#!/bin/sh\necho "$@" >> '${lab.dir}/sleep.log'\n`);
    });
    after(() => lab[Symbol.asyncDispose]());

    test("basic acquisition", async () => {
      const ended = await lab.script(`holdfast lock acquire --resource "issue:8057324b" --ttl 30m`);
      assert.equal(ended.code, 0, ended.text);
      assert.match(
        ended.stdout,
        new RegExp(`^Lock acquired\n {2}Resource: issue:8057324b\n {2}Expires: ${instant}\n$`),
      );
      const [, expires = ""] = /Expires: (.*) UTC/.exec(ended.stdout) ?? [];
      const leftMs = Date.parse(`${expires.replace(" ", "T")}Z`) - Date.now();
      assert.ok(leftMs > 29 * 60_000 && leftMs <= 30 * 60_000, `${leftMs}`);
    });

    test("TTL formats, and JSON output", async () => {
      for (const [ttl, seconds] of [
        ["15m", 900],
        ["1h", 3600],
        ["30s", 30],
        ["45", 45],
      ] as const) {
        const resource = `path:src/api-${ttl}.rs`;
        const ended = await lab.script(`holdfast lock acquire --resource "${resource}" --ttl ${ttl} --json`);
        assert.equal(ended.code, 0, ended.text);
        const { ok, data } = jsonOf<Acquired>(ended);
        assert.equal(ok, true);
        assert.equal(data.lock.resource, resource);
        assert.equal(data.lock.owner, lab.owner);
        assert.match(data.lock.nonce, lab.nonce);
        assert.equal(data.lock.ttl_seconds, seconds);
        const leftMs = data.lock.expires_unix_ms - Date.now();
        assert.ok(leftMs > (seconds - 30) * 1000 && leftMs <= seconds * 1000, `${ttl}: ${leftMs}`);
      }
    });

    test("handling conflicts", async () => {
      const [held, json] = await Promise.all([
        lab.script(`holdfast lock acquire --resource "issue:8057324b" --ttl 30m`),
        lab.script(`holdfast lock acquire --resource "issue:8057324b" --ttl 30m --json`),
      ]);
      assert.equal(held.code, 4, held.text);
      assert.equal(held.stdout, "");
      assert.match(
        held.stderr,
        new RegExp(
          `^Error: Lock conflict\n {2}Resource: issue:8057324b\n {2}Owner: ${lab.owner}\n {2}Expires: ${instant}\n$`,
        ),
      );
      assert.equal(json.code, 4);
      const { ok, error } = jsonOf(json);
      assert.deepEqual([ok, error.code, error.details["owner"]], [false, "held", lab.owner]);
    });

    test("renewing and releasing in the script that acquired", async () => {
      const ended = await lab.script(`
holdfast lock acquire --resource "issue:renewed" --ttl 30s >/dev/null
holdfast lock renew --resource "issue:renewed" --ttl 30m || exit
holdfast lock release --resource "issue:renewed"
`);
      assert.equal(ended.code, 0, ended.text);
      assert.match(
        ended.stdout,
        new RegExp(
          `^Lock renewed\n {2}Resource: issue:renewed\n {2}Expires: ${instant}\nLock released\n {2}Resource: issue:renewed\n$`,
        ),
      );
      assert.equal(await lab.holderOf("issue:renewed"), null);
    });

    test("a lock held by another actor is not renewed", async () => {
      for (const who of [undefined, "other"] as const) {
        const ended = await lab.script(`holdfast lock renew --resource "issue:8057324b" --ttl 30m`, {}, who);
        assert.equal(ended.code, 4, ended.text);
        assert.match(ended.stderr, new RegExp(`held by ${lab.owner} until .*HOLDFAST_SESSION`));
      }
    });

    test("checking lock status", async () => {
      const text = await lab.script("holdfast lock status");
      assert.equal(text.code, 0, text.text);
      const lines = text.stdout.trimEnd().split("\n");
      assert.equal(lines[0], "Active Locks:");
      const shown = lab.owner.slice(0, 8);
      assert.match(lines[1] ?? "", new RegExp(`^ {2}issue:8057324b {5,}${shown} {2}expires in 29m$`));
      const json = await lab.script("holdfast lock status --json");
      const { data } = jsonOf<{
        locks: { resource: string; nonce?: string }[];
        conflicts: [];
        total: number;
      }>(json);
      assert.equal(data.total, lines.length - 1);
      assert.deepEqual(data.conflicts, []);
      assert.ok(data.locks.every((lock) => !("nonce" in lock)));
      assert.equal(data.locks[0]?.resource, "issue:8057324b");
    });

    test("lock garbage collection", async () => {
      const text = await lab.script("holdfast lock gc");
      assert.equal(text.code, 0, text.text);
      const { data } = jsonOf(await lab.script("holdfast lock gc --json"));
      assert.deepEqual([data["removed"], data["kept"]], [0, 5]);
    });

    test("claiming an issue: one works, the other sees that it is claimed", async () => {
      const claim = `
# Check for existing lock
if holdfast lock acquire --resource "issue:$ID" --ttl 30m --json | jq -e '.ok'; then
  echo "Claimed issue $ID"

  # Do work...
  holdfast issue comment $ID --body "Working on this"

  # Release when done
  holdfast issue close $ID
  holdfast lock release --resource "issue:$ID"
else
  echo "Issue already claimed"
fi
`;
      writeFileSync(join(lab.dir, "working"), "");
      const winner = lab.script(claim, { ID: "77" });
      await eventually("the winner works", () => logOf(lab, "issue").includes("comment 77"));
      const loser = await lab.script(claim, { ID: "77" });
      assert.equal(loser.stdout, "false\nIssue already claimed\n", loser.text);
      assert.equal(await lab.holderOf("issue:77"), lab.owner);
      rmSync(join(lab.dir, "working"));
      const won = await winner;
      assert.equal(won.stdout, "true\nClaimed issue 77\nLock released\n  Resource: issue:77\n", won.text);
      assert.match(logOf(lab, "issue"), /comment 77 --body Working on this\nclose 77\n/);
      assert.equal(await lab.holderOf("issue:77"), null);
    });

    test("file editing coordination", async () => {
      const ended = await lab.script(`
${lab.inRepository}
mkdir config && echo {} > config/settings.json
git config user.name Test && git config user.email test@example.com
# Lock file before editing
holdfast lock acquire --resource "path:config/settings.json" --ttl 15m

# Edit file...

# Release after commit
git add config/settings.json
git commit -m "Update settings"
holdfast lock release --resource "path:config/settings.json"
`);
      assert.equal(ended.code, 0, ended.text);
      assert.match(ended.stdout, /^Lock acquired[\s\S]*Update settings[\s\S]*Lock released/);
    });

    test("long-running task", async () => {
      const ended = await lab.script(`
rounds=0
migration_in_progress() { rounds=$((rounds + 1)); [ $rounds -le 3 ]; }
# Acquire with longer TTL
holdfast lock acquire --resource "repo:migration" --ttl 2h

# Periodically renew during long task
while migration_in_progress; do
  sleep 300  # 5 minutes
  holdfast lock renew --resource "repo:migration" --ttl 2h
done

holdfast lock release --resource "repo:migration"
`);
      assert.equal(ended.code, 0, ended.text);
      const titles = ended.stdout.split("\n").filter((line) => line.startsWith("Lock"));
      assert.deepEqual(titles, ["Lock acquired", ...Array(3).fill("Lock renewed"), "Lock released"]);
      assert.equal(logOf(lab, "sleep"), "300\n300\n300\n");
    });

    test("coordinator pattern: the worker takes the first free issue", async () => {
      const coordinator = await lab.script(
        `
# Coordinator creates task and assigns
holdfast issue create --title "Process batch" --label "todo" --json
holdfast lock acquire --resource "issue:$ID" --ttl 30m
`,
        { ID: "one" },
      );
      assert.equal(coordinator.code, 0, coordinator.text);
      const worker = await lab.script(`
process_issue() { echo "processing $1"; }
# Worker agent checks for available work
for id in $(holdfast issue list --label todo --json | jq -r '.data.issues[].issue_id'); do
  if holdfast lock acquire --resource "issue:$id" --ttl 30m 2>/dev/null; then
    # Got the lock, do the work
    process_issue "$id"
    holdfast lock release --resource "issue:$id"
    break
  fi
done
`);
      assert.equal(worker.code, 0, worker.text);
      assert.match(
        worker.stdout,
        /^Lock acquired\n.*issue:two\n.*\nprocessing two\nLock released\n.*issue:two\n$/,
      );
      assert.equal(await lab.holderOf("issue:one"), lab.owner);
    });

    test("work stealing", async () => {
      const steal = `
# Lock expired? Acquire it
if ! holdfast lock status --json | jq -e ".data.locks[] | select(.resource == \\"$RESOURCE\\")"; then
  holdfast lock acquire --resource "$RESOURCE" --ttl 30m
fi
`;
      const held = { RESOURCE: "issue:8057324b" };
      const early = await lab.script(steal, held);
      assert.equal(early.code, 0, early.text);
      assert.doesNotMatch(early.stdout, /Lock acquired/, "it is not over yet");
      const env = { RESOURCE: "issue:stolen" };
      await lab.script(`holdfast lock acquire --resource "$RESOURCE" --ttl 1s`, env);
      await eventually("the lease is over for the other", async () =>
        /^Lock acquired\n {2}Resource: issue:stolen\n/.test((await lab.script(steal, env, "other")).stdout),
      );
      assert.equal(await lab.holderOf("issue:stolen"), lab.other);
    });

    test("always release locks: a trap releases the own lock, and a loser's trap not the winner's", async () => {
      const script = `
# Use trap to ensure release on exit
trap 'holdfast lock release --resource "issue:$ID"' EXIT

holdfast lock acquire --resource "issue:$ID" --ttl 30m
# Do work...
holdfast issue comment $ID
`;
      writeFileSync(join(lab.dir, "working"), "");
      const winner = lab.script(script, { ID: "trapped" });
      await eventually("the winner works", () => logOf(lab, "issue").includes("comment trapped"));
      const loser = await lab.script(script.replace(/\nholdfast issue.*/, ""), { ID: "trapped" });
      assert.match(loser.stderr, /^Error: Lock conflict\n[\s\S]*\nholdfast: issue:trapped is held by /);
      assert.equal(await lab.holderOf("issue:trapped"), lab.owner);
      rmSync(join(lab.dir, "working"));
      const won = await winner;
      assert.match(won.stdout, /Lock acquired[\s\S]*Lock released/, won.text);
      assert.equal(await lab.holderOf("issue:trapped"), null);
    });

    test("renew before expiry, and handle lock failures gracefully", async () => {
      const holder = await lab.script(`
rounds=0
working() { rounds=$((rounds + 1)); [ $rounds -le 2 ]; }
# 30 minute lock, renew every 15 minutes
holdfast lock acquire --resource "..." --ttl 30m

while working; do
  sleep 900  # 15 minutes
  holdfast lock renew --resource "..." --ttl 30m
done
`);
      assert.equal(holder.code, 0, holder.text);
      assert.equal(holder.stdout.match(/Lock renewed/g)?.length, 2);
      const other = await lab.script(`
if ! holdfast lock acquire --resource "..." --ttl 30m; then
  echo "Could not acquire lock, trying later"
  exit 0  # Don't fail, just skip
fi
`);
      assert.equal(other.code, 0);
      assert.equal(other.stdout, "Could not acquire lock, trying later\n", other.text);
    });
  });
}

function logOf(lab: GuideLab, name: string): string {
  const file = join(lab.dir, `${name}.log`);
  return existsSync(file) ? readFileSync(file, "utf8") : "";
}
