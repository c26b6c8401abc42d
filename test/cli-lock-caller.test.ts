// Whose a lock is when something stands between a script and its commands: `timeout`, `xargs` and their like, or a
// `holdfast run` whose command uses the lock's own name. And the commands that a refusal tells to type next.
import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { eventually, jsonOf, type Lab, openLab } from "./cli-lab.js";

let lab: Lab;
before(async () => {
  lab = await openLab();
});
after(() => lab[Symbol.asyncDispose]());

describe("a wrapper is not the caller", () => {
  test("a script takes, renews and releases through timeout, xargs, env, nohup and setsid", async () => {
    const ended = await lab.script(`
set -e
timeout 60 holdfast lock acquire wrapped
echo wrapped | xargs holdfast lock renew
env A=1 timeout 60 nohup holdfast lock renew wrapped 2>/dev/null
setsid --wait holdfast lock release wrapped
`);
    assert.equal(ended.code, 0, ended.text);
    const titles = ended.stdout.split("\n").filter((line) => line.startsWith("Lock"));
    assert.deepEqual(titles, ["Lock acquired", "Lock renewed", "Lock renewed", "Lock released"]);
  });

  test("--adopt takes nothing from a script that lives, though the wrapper has ended", async () => {
    const [ready, done] = [join(lab.dir, "ready"), join(lab.dir, "done")];
    const owner = lab.script(`
timeout 60 holdfast lock acquire lives >/dev/null
touch ${ready}; while [ ! -e ${done} ]; do sleep 0.05; done
holdfast lock release lives
`);
    await eventually("it has the lock", () => existsSync(ready));
    const other = await lab.script("timeout 60 holdfast lock release lives --adopt");
    writeFileSync(done, "");
    assert.equal(other.code, 4, other.text);
    assert.match(other.stderr, /No process that took it has ended/);
    const own = await owner;
    assert.equal(own.stdout, "Lock released\n  Resource: lives\n", own.text);
  });

  test("once the script has ended, --adopt takes what it took through a wrapper", async () => {
    await lab.script("timeout 60 holdfast lock acquire left");
    const adopted = await lab.script("timeout 60 holdfast lock release left --adopt");
    assert.equal(adopted.code, 0, adopted.text);
  });
});

describe("inside holdfast run, its own lease", () => {
  test("is not freed by the clean-up of a script that was refused it", async () => {
    lab.command(
      "refused-script",
      `#!/bin/bash
trap 'holdfast lock release inner' EXIT
holdfast lock acquire inner || exit
echo not reached
`,
    );
    const ended = await lab.script(`
holdfast run inner -- bash -c 'refused-script; echo "its code $?"; holdfast lock status inner --json'
`);
    assert.equal(ended.code, 0, ended.text);
    const [code, status = "{}"] = ended.stdout.trim().split("\n");
    assert.equal(code, "its code 4", ended.text);
    assert.deepEqual(
      JSON.parse(status).data.locks.map((lock: { resource: string }) => lock.resource),
      ["inner"],
      "still held",
    );
    assert.match(
      ended.stderr,
      /\n {2}Yours: the holdfast run that started this command holds it while it runs\n/,
    );
    assert.match(
      ended.stderr,
      /\nholdfast: inner is held by the holdfast run that started this command, .*nothing was changed\..* holdfast lock release --resource inner --nonce "\$HOLDFAST_LEASE_ID"\n$/,
    );
    assert.equal(await lab.holderOf("inner"), null, "run has released it");
  });

  test("is renewed and given a heartbeat from inside", async () => {
    const ended = await lab.script(`
holdfast run beaten -- bash -c 'holdfast lock renew beaten && holdfast job heartbeat beaten --progress half; holdfast job release beaten'
`);
    assert.equal(ended.code, 4, ended.text);
    assert.match(ended.stdout, /^Lock renewed\n[\s\S]*\nHeartbeat sent\n/);
    assert.match(ended.stderr, /holdfast job release beaten --nonce "\$HOLDFAST_LEASE_ID"\n$/);
  });

  test("is never shortened from inside: its keeper counts on the TTL that it was taken with", async () => {
    const ended = await lab.script(`
holdfast run short --ttl 60s -- bash -c 'holdfast lock renew short --ttl 1s --json; holdfast job heartbeat short --ttl 1s --json; holdfast lock renew short --ttl 10m --json'
`);
    assert.equal(ended.code, 0, ended.text);
    const leftMs = ended.stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line).data)
      .map(({ lock, job }) => (lock ?? job).expires_unix_ms - Date.now());
    assert.equal(leftMs.length, 3);
    const [renewed = 0, beaten = 0, lengthened = 0] = leftMs;
    assert.ok(renewed > 30_000 && renewed <= 60_000, `${renewed}`);
    assert.ok(beaten > 30_000 && beaten <= 60_000, `${beaten}`);
    assert.ok(lengthened > 300_000, `${lengthened}`);
  });

  test("is released from inside by its nonce, and the command is ended as if it was lost", async () => {
    const ended = await lab.script(`
holdfast run given-up --ttl 3s --json -- bash -c 'holdfast lock release given-up --nonce "$HOLDFAST_LEASE_ID" >&2; sleep 60'
`);
    assert.equal(ended.code, 76, ended.text);
    assert.match(ended.stderr, /^Lock released\n/);
    assert.equal(jsonOf(ended).error.code, "lease_lost");
  });

  test("HOLDFAST_LEASE_ID without HOLDFAST_NAME is somebody's own proof: it releases, too", async () => {
    const taken = jsonOf<{ lock: { nonce: string } }>(
      await lab.holdfast(["lock", "acquire", "by-variable", "--json"]),
    );
    const env = { HOLDFAST_LEASE_ID: taken.data.lock.nonce };
    const released = await lab.script("holdfast lock release by-variable", env);
    assert.equal(released.code, 0, released.text);
  });
});

describe("the next command to type", () => {
  const nextOf = async (text: string, env: Record<string, string | undefined> = {}): Promise<unknown> => {
    const ended = await lab.script(`${text} --json`, env);
    assert.equal(ended.code, 4, ended.text);
    return jsonOf(ended).error.details["next"];
  };

  test("goes to the same server with the same wishes; a token is not repeated", async () => {
    await lab.holdfast(["lock", "acquire", "asked", "--ttl", "10m"]);
    const { url } = lab.server;
    const file = join(lab.dir, "a token");
    writeFileSync(file, "secret-a\n");
    const env = { HOLDFAST_URL: undefined, HOLDFAST_TOKEN: undefined };
    assert.equal(
      await nextOf(`holdfast lock renew asked --ttl 1h --server ${url} --token-file '${file}'`, env),
      `HOLDFAST_SESSION=NAME holdfast lock renew --resource asked --ttl 1h --server ${url} --token-file '${file}'`,
    );
    assert.equal(
      await nextOf(`holdfast job release asked --outcome done --note 'it works' --token secret-a`),
      "HOLDFAST_SESSION=NAME holdfast job release asked --outcome done --note 'it works' --token TOKEN",
    );
    assert.equal(
      await nextOf("holdfast lock release asked --session other"),
      "holdfast lock release --resource asked --session NAME",
    );
  });

  test("of a second acquire renews with what was asked for", async () => {
    const ended = await lab.script(
      `holdfast lock acquire own --ttl 10m >/dev/null; holdfast lock acquire own --ttl 1h --server ${lab.server.url}`,
    );
    assert.equal(ended.code, 4, ended.text);
    assert.ok(
      ended.stderr.endsWith(
        `holdfast lock renew --resource own --ttl 1h --server ${lab.server.url} extends it\n`,
      ),
      ended.stderr,
    );
  });

  test("is not needed to learn what a lock is held for: every refusal says it", async () => {
    await lab.holdfast(["lock", "acquire", "told", "--reason", "fixing the login"]);
    const acquire = await lab.script("holdfast lock acquire told");
    assert.match(acquire.stderr, /\n {2}Expires: .* UTC\n {2}Reason: fixing the login\n$/);
    const release = await lab.script("holdfast lock release told");
    assert.match(release.stderr, / until \S+ \S+ UTC \("fixing the login"\), not by this session/);
  });
});
