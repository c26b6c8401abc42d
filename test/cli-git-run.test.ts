// `run` and `hold` under locks in a git repository: the same promises as at a server, also when a process is killed.
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { type Clone, openGitLab } from "./cli-git-lab.js";
import { eventually } from "./cli-lab.js";
import { contentOf } from "./cli-run-lab.js";
import { mainFile } from "./server.js";

const live = new Set<ChildProcess>();
process.once("exit", () => {
  for (const child of live) child.kill("SIGKILL");
});

/** A program that runs beside the test. */
function start(clone: Clone, args: readonly string[]) {
  const child = spawn(process.execPath, [mainFile, ...args], {
    cwd: clone.dir,
    env: { ...process.env, NODE_TEST_CONTEXT: undefined, ...clone.env },
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  live.add(child);
  const said = { out: "", err: "" };
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    said.out += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    said.err += text;
  });
  const ended = once(child, "exit").then(([code, signal]) => {
    live.delete(child);
    return (code ?? signal) as number | NodeJS.Signals;
  });
  return { child, said, ended };
}

/** One that has ended and was not yet reaped is not. */
const isAlive = (pid: number): boolean => /^State:\s+[^ZX]/m.test(contentOf(`/proc/${pid}/status`));

for (const authority of ["local", "origin"]) {
  const git = `--git=${authority}`;

  test(`run at ${authority}: one at a time, with what the command needs, released at the end`, async () => {
    const lab = openGitLab();
    const [a, b] = [lab.clone("a"), lab.clone("b")];
    const log = join(lab.dir, "log");
    const other = authority === "local" ? a : b;
    const script = `echo "$HOLDFAST_NAME $HOLDFAST_FENCING_TOKEN" >> '${log}'; while [ ! -e go ]; do sleep 0.1; done; echo end >> '${log}'; exit 7`;
    const one = start(a, ["run", "deploy", git, "--", "sh", "-c", script]);
    await eventually("the first runs", () => existsSync(log));
    const refused = await other.holdfast(["run", "deploy", git, "--", "true"]);
    assert.equal(refused.code, 75, refused.text);
    assert.match(refused.stderr, /deploy is held by [0-9a-f]{32} since/);
    const two = start(other, ["run", "deploy", git, "--wait", "20s", "--", "sh", "-c", script]);
    await eventually("it waits", () => two.said.err.includes("Waiting for deploy"));
    for (const { dir } of [a, b]) writeFileSync(join(dir, "go"), "");
    assert.deepEqual([await one.ended, await two.ended], [7, 7], one.said.err + two.said.err);
    assert.equal(readFileSync(log, "utf8"), "deploy 1\nend\ndeploy 2\nend\n");
    assert.match(two.said.err, /^Waiting for deploy: held by [0-9a-f]{32} for /);
    assert.doesNotMatch(two.said.err, /in line/);
    assert.equal((await other.holdfast(["lock", "status", git])).stdout, "No active locks\n");
  });

  test(`run at ${authority}: killed, its command is ended and the lock is free long before its TTL`, async () => {
    const lab = openGitLab();
    const a = lab.clone("a");
    const file = join(lab.dir, "pid");
    const run = start(a, [
      "run",
      "deploy",
      git,
      "--ttl",
      "10m",
      "--",
      "sh",
      "-c",
      `echo $$ > '${file}'; sleep 60`,
    ]);
    await eventually("it runs", () => existsSync(file) && readFileSync(file, "utf8") !== "");
    run.child.kill("SIGKILL");
    const next = await a.holdfast(["lock", "acquire", "deploy", git, "--wait", "20s"]);
    assert.equal(next.code, 0, next.text);
    assert.equal(isAlive(Number(readFileSync(file, "utf8"))), false);
  });
}

test("run renews for as long as the command takes, and ends it when the lock cannot be renewed", async () => {
  const lab = openGitLab();
  const a = lab.clone("a");
  const file = join(lab.dir, "beats");
  const beat = `while :; do echo x >> '${file}'; sleep 0.1; done`;
  const run = start(a, ["run", "deploy", "--git=origin", "--ttl", "2s", "--", "sh", "-c", beat]);
  const beats = (): number => (existsSync(file) ? readFileSync(file, "utf8").length / 2 : 0);
  await eventually("it outlives its TTL", () => beats() > 40);
  assert.equal((await lab.clone("b").holdfast(["lock", "acquire", "deploy"])).code, 4);
  a.git("remote", "set-url", "origin", join(lab.dir, "nowhere"));
  assert.equal(await run.ended, 76, run.said.err);
  assert.match(
    run.said.err,
    /the lease on deploy is lost: it could not be renewed in time: the remote origin cannot be reached: [^\n]*does not appear to be a git repository[^\n]*exists; the command is ended/,
  );
});

test("hold says what happens, and leaves nothing behind when it is told to stop", async () => {
  const lab = openGitLab();
  const [a, b] = [lab.clone("a"), lab.clone("b")];
  const hold = start(a, ["hold", "gpu-0", "--ttl", "3s"]);
  await eventually("it is renewed", () => hold.said.out.includes('"renewed"'));
  const waiter = start(b, ["hold", "gpu-0", "--wait", "30s"]);
  await eventually("another waits", () => waiter.said.out.includes('"waiting"'));
  hold.child.kill("SIGTERM");
  assert.equal(await hold.ended, 0, hold.said.err);
  await eventually("the other has it", () => waiter.said.out.includes('"acquired"'));
  waiter.child.kill("SIGINT");
  assert.equal(await waiter.ended, 0, waiter.said.err);
  assert.equal(await a.holderOf("gpu-0"), null);
  const events = hold.said.out
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line).event);
  assert.deepEqual([events[0], events.at(-1)], ["acquired", "released"]);
});

test("an interrupted wait takes nothing, and a killed acquire's lock is found again by its session", async () => {
  const lab = openGitLab();
  const a = lab.clone("a");
  await a.holdfast(["lock", "acquire", "x", "--git=local"], { HOLDFAST_SESSION: "one" });
  const waiter = start(a, ["lock", "acquire", "x", "--git=local", "--wait", "30s"]);
  await eventually("it waits", () => waiter.said.err.includes("Waiting for x"));
  waiter.child.kill("SIGINT");
  assert.equal(await waiter.ended, 130, waiter.said.err);
  await a.holdfast(["lock", "release", "x", "--git=local"], { HOLDFAST_SESSION: "one" });
  assert.equal((await a.holdfast(["lock", "status", "--git=local"])).stdout, "No active locks\n");
  // A push whose hook kills the command after the remote has taken it.
  const hook = join(lab.remote, "hooks", "post-receive");
  writeFileSync(hook, "#!/bin/sh\n[ -e ../kill ] && kill -9 $(cat ../kill) && rm ../kill\ntrue\n", {
    mode: 0o755,
  });
  const env = { HOLDFAST_SESSION: "two" };
  await a.script(
    "holdfast lock acquire warm; echo $$ > ../kill; exec holdfast lock acquire y --ttl 30m",
    env,
  );
  const found = await a.holdfast(["lock", "release", "y"], env);
  assert.equal(found.code, 0, found.text);
});
