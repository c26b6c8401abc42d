// `holdfast run` from the outside: exit codes, input and output byte for byte, signals, bad input, and the wait in line.
// Whatever happens, no lease is left behind and nobody sees a stack trace.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { contentOf, isFree, lockOf, type Started, type StartOptions, start, until } from "./cli-run-lab.js";
import { adminToken, call, freePort, mainFile, type Server, startServer, temporaryDir } from "./server.js";
import { type Ended, holdfast, runToEnd } from "./system-program.js";

let server: Server;
before(async () => {
  server = await startServer();
});
after(() => server[Symbol.asyncDispose]());

const run = (name: string, args: readonly string[], options: StartOptions = {}): Started =>
  start(server, ["run", name, ...args], options);

interface Outcome {
  readonly code: Awaited<Started["ended"]>;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs it to its end. A stack trace has lines that begin with "at". */
async function outcome(started: Started): Promise<Outcome> {
  const code = await started.ended;
  const stderr = started.stderr();
  assert.doesNotMatch(stderr, /^\s+at /m);
  return { code, stdout: started.stdout(), stderr };
}

const program = `'${process.execPath}' '${mainFile}'`;
const inBash = (script: string, cwd: string): Promise<Ended> =>
  runToEnd("bash", ["-c", script], { cwd, env: { HOLDFAST_URL: server.url, HOLDFAST_TOKEN: "secret-a" } });

describe("what the command is given and gives back", () => {
  test("its exit code", async () => {
    const { code } = await outcome(run("codes", ["--", "sh", "-c", "exit 7"]));
    assert.equal(code, 7);
    assert.equal((await outcome(run("codes", ["true"]))).code, 0);
    assert.ok(await isFree(server, "codes"));
  });

  test("128 and the number of the signal that ended it", async () => {
    assert.equal((await outcome(run("codes", ["--", "sh", "-c", "kill -9 $$"]))).code, 137);
    assert.equal((await outcome(run("codes", ["--", "sh", "-c", "kill -TERM $$"]))).code, 143);
    assert.ok(await isFree(server, "codes"));
  });

  test("its arguments as they are, also those that look like options of ours", async () => {
    const args = ["--", "printf", "%s|", "--json", "-x", "a b", "", "*", "--", "$HOME"];
    assert.equal((await outcome(run("args", args))).stdout, "--json|-x|a b||*|--|$HOME|");
  });

  test("the lease's id, token and name in its environment", async () => {
    const script = 'echo "$HOLDFAST_NAME $HOLDFAST_FENCING_TOKEN $HOLDFAST_LEASE_ID"';
    const first = await outcome(run("env", ["--", "sh", "-c", script]));
    const second = await outcome(run("env", ["--", "sh", "-c", script]));
    const [name, token, leaseId] = first.stdout.trim().split(" ");
    assert.deepEqual([name, token], ["env", "1"]);
    assert.match(leaseId ?? "", /^ls_/);
    assert.match(second.stdout, /^env 2 ls_/);
  });

  test("standard input, output and error, byte for byte, through pipes that are read slowly", async () => {
    const dir = temporaryDir("holdfast-run-");
    writeFileSync(join(dir, "in"), randomBytes(1_000_000));
    const command = `tee /dev/stderr`;
    const script = `cat in | ${program} run bytes -- ${command} 2> >(sleep 1; cat > err) | (sleep 1; cat > out)
echo "\${PIPESTATUS[*]}"; wait; for file in out err; do cmp in $file && echo same; done`;
    const { stdout, text } = await inBash(script, dir);
    assert.equal(stdout, "0 0 0\nsame\nsame\n", text);
  });

  test("its metadata is shown to others", async () => {
    const started = run("told", ["--metadata", "build 7", "--", "sleep", "60"]);
    await until("held", async () => (await lockOf(server, "told")).metadata === "build 7");
    started.child.kill("SIGTERM");
    await started.ended;
  });

  test("what it leaves in the background at its own end is left alone", async () => {
    const file = join(temporaryDir("holdfast-run-"), "done");
    const script = `(sleep 1; echo later > ${file}) > /dev/null 2>&1 & exit 3`;
    assert.equal((await outcome(run("background", ["--", "sh", "-c", script]))).code, 3);
    assert.ok(await isFree(server, "background"));
    await until("it goes on", () => contentOf(file) === "later\n");
  });
});

describe("signals", () => {
  const trapped = (signal: string): string[] => [
    "--",
    "sh",
    "-c",
    `trap 'echo got ${signal}; exit 9' ${signal}; echo up; while :; do sleep 0.05; done`,
  ];

  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"] as const)
    test(`${signal} reaches the command, whose code counts`, async () => {
      const started = run("signals", trapped(signal.slice(3)));
      await until("up", () => started.stdout().includes("up"));
      started.child.kill(signal);
      const { code, stdout } = await outcome(started);
      assert.deepEqual([code, stdout], [9, `up\ngot ${signal.slice(3)}\n`]);
      assert.ok(await isFree(server, "signals"));
    });

  test("one that comes before the command runs ends all, with nothing held", async () => {
    // Spread over the start of the program, the grant and the start of the keeper.
    const rounds = Array.from({ length: 12 }, async (_, index) => {
      const name = `early-${index}`;
      const started = run(name, ["--", "sleep", "60"]);
      await until("granted", async () => (await lockOf(server, name)).status === "held");
      await new Promise((resolve) => setTimeout(resolve, index * 25));
      started.child.kill("SIGTERM");
      assert.equal((await outcome(started)).code, 143);
      assert.ok(await isFree(server, name));
    });
    await Promise.all(rounds);
  });
});

describe("what cannot be done", () => {
  const refused = async (args: readonly string[], code: number, line: RegExp): Promise<void> => {
    const got = await outcome(run("refused", args));
    assert.equal(got.code, code, got.stderr);
    assert.match(got.stderr, line);
    assert.equal(got.stderr.trimEnd().split("\n").length, 1, got.stderr);
    assert.ok(await isFree(server, "refused"));
  };

  /** The failure that `--json` prints as the last line of standard output. */
  const failureOf = (stdout: string): { code: string; message: string; details: Record<string, unknown> } => {
    const { ok, error } = JSON.parse(stdout.trimEnd().split("\n").at(-1) ?? "");
    assert.equal(ok, false);
    return error;
  };

  test("a command that is not there: 127", async () => {
    await refused(
      ["--", "no-such-command"],
      127,
      /^holdfast: cannot run no-such-command: no such command\n$/,
    );
    const { code, stdout } = await outcome(run("refused", ["--json", "--", "no-such-command"]));
    assert.equal(code, 127);
    const failure = failureOf(stdout);
    assert.deepEqual([failure.code, failure.details["command"]], ["command_not_found", "no-such-command"]);
  });
  test("a file that cannot be run: 126", async () => {
    const file = join(temporaryDir("holdfast-run-"), "plain");
    writeFileSync(file, "#!/bin/sh\n");
    chmodSync(file, 0o644);
    await refused(["--", file], 126, /: permission denied\n$/);
    await refused(["--", "/"], 126, /: permission denied\n$/);
    const { code, stdout } = await outcome(run("refused", ["--json", "--", file]));
    assert.deepEqual([code, failureOf(stdout).code], [126, "cannot_run"]);
  });
  test("a lease that is lost: with --json a last line after what the command wrote", async () => {
    const started = run("forced", ["--json", "--ttl", "3s", "--", "sh", "-c", "echo its own; sleep 60"]);
    await until("it runs", () => started.stdout().includes("its own"));
    const body = { reason: "deploy freeze" };
    await call(server, "DELETE", "/locks/forced", { token: adminToken, body });
    const { code, stdout, stderr } = await outcome(started);
    assert.equal(code, 76, stderr);
    assert.match(stdout, /^its own\n\{.*\}\n$/);
    const failure = failureOf(stdout);
    assert.deepEqual([failure.code, failure.details["resource"]], ["lease_lost", "forced"]);
    assert.match(String(failure.details["reason"]), /operator at \S+ \S+ UTC: deploy freeze$/);
    assert.equal(stderr, `holdfast: ${failure.message}\n`);
  });
  test("no command", () => refused([], 2, /^holdfast: name a command: holdfast run refused -- COMMAND\n$/));
  test("wrong durations", async () => {
    const wanted = String.raw`give a time from 1s to the server's limit \(24h by default\), as 30s, 15m, 1h\n$`;
    for (const ttl of ["soon", "500ms", "0", "1.5h"])
      await refused(["--ttl", ttl, "--", "true"], 2, new RegExp(`^holdfast: --ttl "${ttl}": ${wanted}`));
    await refused(
      ["--wait", "-1", "--", "true"],
      2,
      /--wait "-1": give a time as 30s, 10m, 1h, or 0 for no wait\n$/,
    );
    await refused(
      ["--ttl", "48h", "--", "true"],
      2,
      /^holdfast: --ttl must be at most 24h here: give a time as 30s, 15m, 1h\n$/,
    );
  });
  test("wrong --on-loss", () =>
    refused(["--on-loss", "panic", "--", "true"], 2, /^holdfast: --on-loss panic: use kill or warn\n$/));
  test("a name that cannot be one", async () => {
    const { code, stderr } = await outcome(run("a b!", ["--", "true"]));
    assert.equal(code, 2, stderr);
  });
  test("a wrong token: 1, and nothing is run", async () => {
    const { code, stdout, stderr } = await outcome(run("wrong", ["--", "echo", "ran"], { token: "nobody" }));
    assert.deepEqual([code, stdout], [1, ""], stderr);
    assert.match(stderr, /^holdfast: .+\n$/);
  });
  test("a server out of reach: 5, and nothing is run", async () => {
    const url = `http://127.0.0.1:${await freePort()}`;
    const { code, stdout, stderr } = await outcome(run("away", ["--", "echo", "ran"], { url }));
    assert.deepEqual([code, stdout], [5, ""], stderr);
    assert.match(stderr, /^holdfast: No reply from http:.* Is it running\? Start it with: holdfast serve\n$/);
  });
  test("a reader that has left: the command gets its SIGPIPE, as it would without us", async () => {
    const { stdout, text } = await inBash(
      `${program} run pipe -- yes | head -1; echo "\${PIPESTATUS[*]}"`,
      "/",
    );
    assert.equal(stdout, "y\n141 0\n", text);
    assert.ok(await isFree(server, "pipe"));
  });
  test("nobody who reads our own lines: the code is right all the same", async () => {
    const started = run("pipe", ["--", "sh", "-c", "sleep 1; exit 5"]);
    started.child.stderr?.destroy();
    started.child.stdout?.destroy();
    assert.equal(await started.ended, 5);
  });
});

describe("waiting", () => {
  /** Another's command that holds the name until it is told to end. */
  const holder = async (name: string, ttl = "60s"): Promise<Started> => {
    const started = run(name, ["--ttl", ttl, "--metadata", "nightly", "--", "sleep", "600"], {
      token: "secret-b",
    });
    await until("held", async () => (await lockOf(server, name)).status === "held");
    return started;
  };
  const end = async (started: Started): Promise<void> => {
    started.child.kill("SIGTERM");
    await started.ended;
  };

  test("not at all: 75 at once, with who holds it, since and until when, and what to do", async () => {
    const other = await holder("busy");
    const { code, stderr } = await outcome(run("busy", ["--", "echo", "ran"]));
    assert.equal(code, 75);
    assert.match(
      stderr,
      /^holdfast: busy is held by runner-2 since \S+ \S+ UTC until \S+ \S+ UTC unless renewed \("nightly"\)\. Stand in line with --wait 10m\n$/,
    );
    const env = { HOLDFAST_URL: server.url, HOLDFAST_TOKEN: "secret-a" };
    const errorOf = ({ stdout }: Ended) =>
      (JSON.parse(stdout) as { error: { code: string; details: Record<string, unknown> } }).error;
    const json = await holdfast(["run", "busy", "--json", "--", "echo", "ran"], { env });
    assert.equal(json.code, 75);
    const error = errorOf(json);
    assert.deepEqual(
      [error.code, error.details["owner"], error.details["metadata"]],
      ["held", "runner-2", "nightly"],
    );
    const acquire = errorOf(await holdfast(["lock", "acquire", "busy", "--json"], { env }));
    assert.equal(acquire.code, error.code);
    const fields = Object.keys(acquire.details).filter((field) => field !== "held_by_this_session");
    assert.deepEqual(Object.keys(error.details), fields, "the same fields as a refused lock");
    await end(other);
  });

  test("too short: 75, with the place in line", async () => {
    const other = await holder("busy-long");
    const { code, stderr } = await outcome(run("busy-long", ["--wait", "2s", "--", "echo", "ran"]));
    assert.equal(code, 75, stderr);
    assert.match(
      stderr,
      /^Waiting for busy-long: held by runner-2 for \d+s, place 1 of 1 in line, expires in \d+s unless renewed \("nightly"\)\n/,
    );
    assert.match(stderr, /; waited \ds.*\. Wait longer with --wait\n$/);
    await end(other);
  });

  test("in a pipe there is a line per change, not one per look", async () => {
    const other = await holder("lines");
    const first = run("lines", ["--wait", "5m", "--", "sh", "-c", "echo first; sleep 1"]);
    await until("told", () => first.stderr().includes("place 1 of 1 in line"));
    const second = run("lines", ["--wait", "5m", "--", "echo", "second"]);
    await until("told", () => second.stderr().includes("place 2 of 2 in line"));
    await end(other);
    assert.equal((await outcome(second)).stdout, "second\n");
    assert.equal((await outcome(first)).stdout, "first\n");
    assert.ok(first.stderr().trim().split("\n").length <= 3, first.stderr());
  });

  test("a lease that was waited for longer than its TTL is kept", async () => {
    const other = await holder("long-wait");
    const started = run("long-wait", [
      "--wait",
      "5m",
      "--ttl",
      "2s",
      "--",
      "sh",
      "-c",
      "sleep 4; echo whole",
    ]);
    await until("in line", async () => (await lockOf(server, "long-wait")).waiters === 1);
    // Beyond the first look, and for longer than the TTL.
    await new Promise((resolve) => setTimeout(resolve, 5000));
    await end(other);
    const { code, stdout, stderr } = await outcome(started);
    assert.deepEqual([code, stdout], [0, "whole\n"], stderr);
  });

  for (const [signal, code] of [
    ["SIGINT", 130],
    ["SIGTERM", 143],
    ["SIGHUP", 129],
  ] as const)
    test(`${signal} during the wait: ${code}, nobody is left in line, nothing is held`, async () => {
      const name = `leaving-${code}`;
      const other = await holder(name);
      const started = run(name, ["--wait", "5m", "--", "echo", "ran"]);
      await until("in line", async () => (await lockOf(server, name)).waiters === 1);
      started.child.kill(signal);
      const got = await outcome(started);
      assert.deepEqual([got.code, got.stdout], [code, ""]);
      assert.match(
        got.stderr,
        new RegExp(`holdfast: interrupted while waiting for ${name}: nothing was run\n$`),
      );
      await until("nobody waits", async () => (await lockOf(server, name)).waiters === 0);
      await end(other);
      assert.ok(await isFree(server, name));
    });

  test("an interruption that crosses the grant leaves no lease", async () => {
    const rounds = Array.from({ length: 8 }, async (_, index) => {
      const name = `crossing-${index}`;
      const other = await holder(name);
      const started = run(name, ["--wait", "5m", "--", "sleep", "60"]);
      await until("in line", async () => (await lockOf(server, name)).waiters === 1);
      other.child.kill("SIGTERM");
      await until("granted", async () => (await lockOf(server, name)).fencing_token === 2);
      started.child.kill("SIGINT");
      assert.equal((await outcome(started)).code, 130);
      assert.ok(await isFree(server, name), name);
    });
    await Promise.all(rounds);
  });

  test("over a restart of the server", async () => {
    const other = await holder("over", "60s");
    const waiting = run("over", ["--wait", "5m", "--", "echo", "ran"]);
    await until("told", () => waiting.stderr().includes("place 1 of 1"));
    server = await server.restart();
    await until("in line again", async () => (await lockOf(server, "over")).waiters === 1);
    await end(other);
    const { code, stdout, stderr } = await outcome(waiting);
    assert.deepEqual([code, stdout], [0, "ran\n"], stderr);
  });
});
