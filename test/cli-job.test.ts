// `holdfast job` against a server: claim, heartbeat, release, owner, list, from scripts and from fresh shells.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { eventually, jsonOf, type Lab, openLab } from "./cli-lab.js";
import { call } from "./server.js";

interface OneJob {
  readonly job: {
    readonly job_id: string;
    readonly owner: string | null;
    readonly claimed: boolean;
    readonly nonce: string;
    readonly token: number;
    readonly attempts: number;
    readonly metadata: unknown;
    readonly progress: string | null;
    readonly mine: boolean;
    readonly last_outcome?: { readonly outcome: string; readonly note: string };
  };
}

describe("holdfast job", () => {
  let lab: Lab;
  before(async () => {
    lab = await openLab();
  });
  after(() => lab[Symbol.asyncDispose]());

  const jobOf = async (...args: string[]): Promise<OneJob["job"]> => {
    const ended = await lab.holdfast(["job", ...args, "--json"]);
    assert.equal(ended.code, 0, ended.text);
    return jsonOf<OneJob>(ended).data.job;
  };

  test("a script claims, heartbeats and releases; others see the owner meanwhile", async () => {
    const text = await lab.script(`
holdfast job claim issue-1842 --owner agent-7 --metadata '{"branch":"fix"}' --ttl 10m
holdfast job heartbeat issue-1842 --progress 'tests run'
holdfast job owner issue-1842
holdfast job list
holdfast job release issue-1842 --outcome done --note merged
holdfast job owner issue-1842
`);
    assert.equal(text.code, 0, text.text);
    const instant = String.raw`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC`;
    assert.match(
      text.stdout,
      new RegExp(
        [
          "^Job claimed\n {2}Job: issue-1842\n {2}Owner: agent-7",
          `Expires: ${instant}\nHeartbeat sent\n {2}Job: issue-1842`,
          `Expires: ${instant}\nissue-1842\n {2}Owner: agent-7 \\(runner-1\\)`,
          `Since: ${instant}`,
          `Expires: ${instant}`,
          "Progress: tests run\nClaimed Jobs:",
          "issue-1842  agent-7  expires in \\d+m  tests run\nJob released",
          "Job: issue-1842",
          "Outcome: done\nissue-1842 is free",
          `Last outcome: done at ${instant}\n$`,
        ].join("\n {2}"),
      ),
    );
  });

  test("who is refused learns the owner, with exit 4", async () => {
    const mine = await jobOf("claim", "taken", "--owner", "me", "--metadata", "plain text");
    assert.deepEqual([mine.owner, mine.metadata, mine.attempts], ["me", "plain text", 1]);
    const text = await lab.script("holdfast job claim taken", { HOLDFAST_TOKEN: "secret-b" });
    assert.equal(text.code, 4, text.text);
    assert.match(
      text.stderr,
      /^Error: Job conflict\n {2}Job: taken\n {2}Owner: me\n {2}Since: .*\n {2}Expires: .*\n {2}Metadata: plain text\n$/,
    );
    const json = await lab.script("holdfast job claim taken --json");
    assert.equal(json.code, 4);
    assert.deepEqual([jsonOf(json).error.code, jsonOf(json).error.details["owner"]], ["held", "me"]);
    assert.match(jsonOf(json).error.message, /^taken is held by me until \S+ \S+ UTC/);
    for (const verb of ["heartbeat", "release"]) {
      const refused = await lab.script(`holdfast job ${verb} taken`);
      assert.equal(refused.code, 4, refused.text);
      assert.match(refused.stderr, new RegExp(`HOLDFAST_SESSION=NAME holdfast job ${verb} taken`));
    }
    assert.equal((await jobOf("owner", "taken")).mine, true);
    assert.equal((await lab.holdfast(["job", "release", "taken"])).code, 0);
    assert.equal((await lab.holdfast(["job", "release", "taken"])).code, 3);
  });

  test("of several the first free one is claimed, and kept under its own name", async () => {
    await lab.script("holdfast job claim many-1");
    const got = await jobOf("claim", "many-1", "many-2", "many-3");
    assert.equal(got.job_id, "many-2");
    const none = await lab.script("holdfast job claim many-1 many-2");
    assert.equal(none.code, 4);
    assert.match(
      none.stderr,
      /^Error: No job is free\n {2}many-1: owned by runner-1 until .*\n {2}many-2: owned by/,
    );
    assert.equal((await lab.holdfast(["job", "heartbeat", "many-2"])).code, 0);
    const listed = await lab.holdfast(["job", "list", "--mine", "--prefix", "many-", "--json"]);
    const { jobs } = jsonOf<{ jobs: { job_id: string }[] }>(listed).data;
    assert.deepEqual(
      jobs.map(({ job_id }) => job_id),
      ["many-2"],
    );
    assert.equal((await lab.holdfast(["lock", "release", "many-2"])).code, 0, "a job is a lock");
  });

  test("a named session claims in one shell, goes on in others, and gets its own claim again", async () => {
    const env = { HOLDFAST_SESSION: "agent-9" };
    const first = jsonOf<OneJob>(await lab.script("holdfast job claim shells --json", env)).data.job;
    const again = jsonOf<OneJob>(await lab.script("holdfast job claim shells --ttl 10m --json", env)).data
      .job;
    assert.deepEqual([again.nonce, again.token], [first.nonce, first.token]);
    assert.equal((await lab.script("holdfast job claim shells")).code, 4);
    assert.equal((await lab.script("holdfast job heartbeat shells --progress half", env)).code, 0);
    assert.equal((await jobOf("owner", "shells")).progress, "half");
    const failed = await lab.script("holdfast job release shells --outcome failed --note 'no disk'", env);
    assert.equal(failed.code, 0, failed.text);
    const free = await jobOf("owner", "shells");
    assert.deepEqual(
      [free.claimed, free.last_outcome?.outcome, free.last_outcome?.note],
      [false, "failed", "no disk"],
    );
  });

  test("a claim that was taken away is lost: who did it and why", async () => {
    await jobOf("claim", "forced");
    const body = { reason: "maintenance" };
    const token = "operator-secret-for-tests";
    await call(lab.server, "DELETE", "/locks/forced", { token, body });
    const lost = await lab.holdfast(["job", "heartbeat", "forced", "--json"]);
    assert.deepEqual([lost.code, jsonOf(lost).error.code], [4, "lease_lost"], lost.text);
    assert.match(lost.stderr, /maintenance/);
    assert.equal((await lab.holdfast(["job", "heartbeat", "forced"])).code, 3);
  });

  test("--wait takes it when its owner is gone", async () => {
    await lab.script("holdfast job claim waited --ttl 5s");
    const ended = await lab.script("holdfast job claim waited --wait 60s --json", {
      HOLDFAST_TOKEN: "secret-b",
    });
    assert.equal(ended.code, 0, ended.text);
    assert.equal(jsonOf<OneJob>(ended).data.job.attempts, 2);
    assert.match(
      ended.stderr,
      /^(?:Waiting for waited: held by runner-1 for \d+s, place 1 of 1 in line.*\n)*$/,
    );
    await eventually("it is theirs", async () => (await lab.holderOf("waited")) === "runner-2");
  });

  test("wrong use is exit 2", async () => {
    for (const args of [
      ["claim"],
      ["claim", "a", "b", "--wait", "5s"],
      ["claim", "a", "--metadata", "{oops"],
      ["release", "a", "--outcome", "great"],
      ["release", "a", "--note", "alone"],
      ["claim", "bad name"],
    ]) {
      const ended = await lab.holdfast(["job", ...args]);
      assert.equal(ended.code, 2, ended.text);
      assert.equal(ended.stderr.trimEnd().split("\n").length, 1, ended.stderr);
    }
  });
});
