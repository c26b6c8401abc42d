import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { liveProcesses, startOf } from "./processes.js";
import { Victims } from "./victims.js";

const started: ChildProcess[] = [];
/** Runs a script under a lease; resolves with the pids that it prints, as soon as it has printed `count` of them. */
async function script(text: string, count: number, leaseId: string | null): Promise<[number, ...number[]]> {
  const env = {
    PATH: process.env["PATH"] ?? "",
    ...(leaseId === null ? {} : { HOLDFAST_LEASE_ID: leaseId }),
  };
  const child = spawn("sh", ["-c", text], { env, detached: true, stdio: ["ignore", "pipe", "inherit"] });
  started.push(child);
  let out = "";
  while (out.split("\n").length <= count) out += String((await once(child.stdout, "data"))[0]);
  return [child.pid ?? 0, ...out.trim().split("\n").map(Number)];
}

const pidsOf = (victims: Victims): number[] =>
  victims
    .find()
    .map(({ pid }) => pid)
    .sort((a, b) => a - b);

async function untilNone(victims: Victims): Promise<void> {
  for (let round = 0; victims.signal("SIGKILL") > 0; round++) {
    assert.ok(round < 500, "some do not end");
    await delay(20);
  }
}

describe("the processes that work under a lease", () => {
  const leftOver: number[] = [];
  afterEach(() => {
    for (const { pid } of started.splice(0)) leftOver.push(-(pid ?? 0));
    for (const pid of leftOver.splice(0)) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // It has ended.
      }
    }
  });

  test("the group, descendants, and whoever carries the lease's id, wherever it went", async () => {
    const detached = "setsid sh -c 'sleep 60 & echo $!; wait' & wait $!";
    const pids = await script(`sleep 60 & echo $!; (${detached}) & wait`, 2, "ls_a");
    leftOver.push(...pids.slice(1));
    const byEnvironment = new Victims("ls_a");
    const found = pidsOf(byEnvironment);
    for (const pid of pids) assert.ok(found.includes(pid), `${pid} of ${found}`);

    const byDescent = new Victims("ls_other");
    assert.deepEqual(pidsOf(byDescent), []);
    byDescent.command = { pid: pids[0], group: true, startedAt: startOf(pids[0]) };
    assert.deepEqual(pidsOf(byDescent), found);
    await untilNone(byDescent);
    assert.deepEqual(pidsOf(byEnvironment), []);
  });

  test("one that was found stays known when its parents have ended", async () => {
    const text = "env -i setsid sleep 60 & echo $!; exec sleep 60";
    const [pid, hidden = 0] = await script(text, 1, "ls_b");
    leftOver.push(hidden);
    const victims = new Victims("ls_b");
    victims.command = { pid, group: true, startedAt: startOf(pid) };
    while (!pidsOf(victims).includes(hidden)) await delay(20);
    process.kill(pid, "SIGKILL");
    while (startOf(pid) !== null) await delay(20);
    assert.deepEqual(pidsOf(victims), [hidden]);
    await untilNone(victims);
  });

  test("a process that only has the command's number is not touched", async () => {
    const [pid] = await script("echo $$; exec sleep 60", 1, null);
    const victims = new Victims("ls_c");
    victims.command = { pid, group: true, startedAt: (startOf(pid) ?? 0) - 1 };
    assert.equal(victims.signal("SIGKILL"), 0);
    assert.notEqual(startOf(pid), null);
  });

  test("a name with brackets and spaces does not confuse the list", async () => {
    const dir = mkdtempSync(join(tmpdir(), "holdfast-names-"));
    try {
      copyFileSync("/bin/sleep", join(dir, ") Z 1 (x"));
      const [, named = 0] = await script(`"${dir}/) Z 1 (x" 60 & echo $!; wait`, 1, "ls_d");
      await delay(100);
      assert.ok(liveProcesses().some(({ pid }) => pid === named));
      assert.ok(pidsOf(new Victims("ls_d")).includes(named));
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  });

  test("one that has ended and is not reaped does not count", async () => {
    const [, ended = 0] = await script("sleep 0.2 & echo $!; exec sleep 60", 1, "ls_e");
    while (startOf(ended) !== null) await delay(20);
    assert.ok(!pidsOf(new Victims("ls_e")).includes(ended));
  });
});
