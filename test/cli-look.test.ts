// Looking: `status`, `watch` and `doctor` in a pipe and on a terminal, completion in the shells, and what every command
// does when its reader leaves or somebody presses Ctrl-C.
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { type Client, createClient } from "../src/client/client.js";
import { freePort, mainFile, type Server, startServer, temporaryDir } from "./server.js";
import { until } from "./system-client.js";
import { type Ended, holdfast, runToEnd } from "./system-program.js";

let server: Server;
let client: Client;
const home = temporaryDir("holdfast-look-home-");
/** Nothing of whoever runs the tests. */
const own = { HOME: home, XDG_CONFIG_HOME: home, XDG_STATE_HOME: home, XDG_CACHE_HOME: home };
const envOf = (token: string): Record<string, string> => ({
  ...own,
  HOLDFAST_URL: server.url,
  HOLDFAST_TOKEN: token,
});
const as = (token: string, ...args: string[]): Promise<Ended> => holdfast(args, { env: envOf(token) });

before(async () => {
  server = await startServer();
  client = createClient({ url: server.url, token: "secret-a" });
});
after(() => server[Symbol.asyncDispose]());

interface Running {
  readonly child: ChildProcess;
  output(): string;
  readonly ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
}

const live = new Set<ChildProcess>();
after(() => {
  for (const child of live) child.kill("SIGKILL");
});

function start(command: string, args: readonly string[], env: Record<string, string>): Running {
  const child = spawn(command, args, { env: { PATH: process.env["PATH"], ...env }, stdio: "pipe" });
  live.add(child);
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => {
      // Visible, and easier to look for.
      output += text.replaceAll("\x1b", "␛");
    });
  const ended = once(child, "close").then(([code, signal]) => {
    live.delete(child);
    return { code, signal };
  });
  return { child, output: () => output, ended };
}

const seen = (running: Running, what: RegExp): Promise<true> =>
  until(async () => (what.test(running.output()) ? true : undefined), `${what} in ${running.output()}`);

describe("holdfast status", () => {
  test("prints one aligned table into a pipe, without anything that acts on a terminal", async () => {
    assert.equal((await as("secret-a", "status", "look-")).stdout, "Nothing is held.\n");
    await client.locks.acquire("look-one", { ttl: "10m", metadata: "\x1b[2Jhost=a" });
    await createClient({ url: server.url, token: "secret-b" }).locks.acquire("look-number-two", {
      ttl: "2h",
    });
    const { code, stdout } = await as("secret-v", "status", "look-");
    assert.equal(code, 0);
    const when = String.raw`2\d{3}-\d\d-\d\d \d\d:\d\d:\d\d`;
    assert.match(
      stdout,
      new RegExp(
        String.raw`^NAME {13}OWNER {5}SINCE \(UTC\) {10}EXPIRES IN  WAITERS  METADATA
look-number-two  runner-2  ${when}  1h          0
look-one         runner-1  ${when}  \dm          0        \\u\{1b\}\[2Jhost=a
$`,
      ),
    );
    const mine = await as("secret-a", "status", "--mine", "--json");
    const { schema_version, ok, data } = JSON.parse(mine.stdout);
    assert.deepEqual([schema_version, ok, data.total], [1, true, 1]);
    const { name, holder, fencing_token, waiters } = data.locks[0];
    assert.deepEqual([name, holder.principal, fencing_token, waiters], ["look-one", "runner-1", 1, 0]);
  });

  test("shows all of a list that is longer than a page", async () => {
    const names = Array.from({ length: 520 }, (_, i) => `many-${String(i).padStart(3, "0")}`);
    for (let at = 0; at < names.length; at += 40)
      await Promise.all(names.slice(at, at + 40).map((name) => client.locks.acquire(name, { ttl: "10m" })));
    const { data } = JSON.parse((await as("secret-v", "status", "many-", "--json")).stdout);
    assert.deepEqual(
      data.locks.map((lock: { name: string }) => lock.name),
      names,
    );
    assert.equal((await as("secret-v", "status", "many-")).stdout.trimEnd().split("\n").length, 521);
  });
});

describe("holdfast watch", () => {
  test("goes on over an orderly stop and a new start of the server", async () => {
    const first = await startServer();
    const env = { ...envOf("secret-v"), HOLDFAST_URL: first.url };
    const watching = start(process.execPath, [mainFile, "watch", "--json"], env);
    await seen(watching, /"event":"synced"/);
    assert.equal(await first.stop(), 0);
    await using again = await first.restart();
    await createClient({ url: again.url, token: "secret-a" }).locks.acquire("after-the-stop", { ttl: "10m" });
    await seen(watching, /"name":"after-the-stop"/);
    watching.child.kill("SIGINT");
    assert.deepEqual(await watching.ended, { code: null, signal: "SIGINT" });
    assert.doesNotMatch(watching.output(), /Error/);
  });

  test("says once that the server is away, and once that it is back", async () => {
    const first = await startServer();
    const env = { ...envOf("secret-v"), HOLDFAST_URL: first.url };
    await createClient({ url: first.url, token: "secret-a" }).locks.acquire("before", { ttl: "10m" });
    const plain = start(process.execPath, [mainFile, "watch"], env);
    const json = start(process.execPath, [mainFile, "watch", "--json"], env);
    await Promise.all([seen(plain, / snapshot before/), seen(json, /"event":"synced"/)]);
    first.kill("SIGKILL");
    await first.exited;
    await Promise.all([
      seen(plain, /^holdfast: the connection is lost, and is tried again until it is back: .+$/m),
      seen(json, /^\{"event":"disconnected","details":".+","observed_at":"2.+"\}$/m),
    ]);
    await using _ = await first.restart();
    await Promise.all([
      seen(plain, /^holdfast: connected again$/m),
      seen(json, /^\{"event":"connected","observed_at":"2.+"\}$/m),
    ]);
    for (const { child } of [plain, json]) child.kill("SIGINT");
    await Promise.all([plain.ended, json.ended]);
    assert.equal(plain.output().match(/holdfast: /g)?.length, 2, plain.output());
    assert.equal(json.output().match(/"(?:dis)?connected"/g)?.length, 2, json.output());
  });

  test("prints a line per event into a pipe, a JSON object with --json, until it is ended", async () => {
    const env = envOf("secret-v");
    await client.locks.acquire("seen-before", { ttl: "10m" });
    const plain = start(process.execPath, [mainFile, "watch", "seen-"], env);
    const json = start(process.execPath, [mainFile, "watch", "seen-", "--json"], env);
    // Each begins with what is held already: from then on it sees every change.
    await Promise.all([seen(plain, / snapshot seen-before/), seen(json, /"event":"synced"/)]);
    const lease = await client.hold("seen-x", { ttl: "10m" });
    await lease.release();
    await Promise.all([seen(plain, / released seen-x/), seen(json, /"event":"released"/)]);
    const at = String.raw`^2\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`;
    assert.match(plain.output(), new RegExp(`${at} acquired seen-x 1 runner-1$`, "m"));
    assert.match(plain.output(), new RegExp(`${at} released seen-x 1 runner-1$`, "m"));
    const events = json
      .output()
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as { event: string; name?: string; fencing_token?: number });
    assert.deepEqual(
      events.map(({ event, name, fencing_token }) => [event, name, fencing_token]),
      [
        ["snapshot", "seen-before", 1],
        ["synced", undefined, undefined],
        ["acquired", "seen-x", 1],
        ["released", "seen-x", 1],
      ],
    );
    plain.child.kill("SIGINT");
    json.child.stdout?.destroy();
    assert.deepEqual(await plain.ended, { code: null, signal: "SIGINT" });
    assert.doesNotMatch(plain.output(), /\n\s+at /);
    // The reader of the other has left: it notices when it has something to say.
    const again = await client.hold("seen-y", { ttl: "10m" });
    await again.release();
    assert.equal((await json.ended).code, 0);
    assert.doesNotMatch(json.output(), /EPIPE|\n\s+at /);
  });
});

describe("on a terminal", () => {
  /** A terminal of 100 by 20 that becomes 50 wide when `resize` has been made. */
  const onTerminal = (args: string[], env: Record<string, string>, resize: string): Running => {
    const quoted = [process.execPath, mainFile, ...args].map((word) => `'${word}'`).join(" ");
    const script = `stty cols 100 rows 20; (while [ ! -e '${resize}' ]; do sleep 0.05; done; stty cols 50 </dev/tty) & exec ${quoted}`;
    return start("script", ["-qfec", script, "/dev/null"], { ...env, TERM: "xterm", SHELL: "/bin/sh" });
  };

  for (const command of ["status", "watch"])
    test(`${command} is a table that follows, fits the width, and gives the terminal back on Ctrl-C`, async () => {
      const resize = join(temporaryDir("holdfast-resize-"), "now");
      const name = `live-${command}`;
      const first = await client.hold(`${name}-1`, { ttl: "10m", metadata: "m".repeat(200) });
      const running = onTerminal([command, name], envOf("secret-v"), resize);
      await seen(running, new RegExp(`${name}-1 +runner-1`));
      assert.ok(running.output().startsWith("␛[?1049h␛[?25l"), running.output());
      assert.match(running.output(), /m{20,}…␛\[K/);
      const second = await client.hold(`${name}-2`, { ttl: "10m" });
      await seen(running, new RegExp(`${name}-2 +runner-1`));
      const wide = running.output().length;
      writeFileSync(resize, "");
      await until(async () => {
        const last = running.output().slice(wide).split("␛[H").at(-2) ?? "";
        const rows = last.split("\n").map((line) => line.replace(/␛\[\d*[A-Za-z]|\r/g, ""));
        return rows.length > 2 && rows.every((row) => row.length < 50) ? true : undefined;
      }, "no line is longer than the narrow terminal");
      running.child.stdin?.write("\x03");
      assert.equal((await running.ended).code, 130);
      assert.match(running.output(), /␛\[\?25h␛\[\?1049l[\s\S]*live-/);
      assert.doesNotMatch(running.output(), /\n\s+at /);
      await Promise.all([first.release(), second.release()]);
    });

  test("NO_COLOR takes the colours away, --once the picture", async () => {
    const never = join(temporaryDir("holdfast-resize-"), "never");
    const running = onTerminal(["status", "x-"], { ...envOf("secret-v"), NO_COLOR: "1" }, never);
    await seen(running, /NAME/);
    running.child.stdin?.write("\x03");
    await running.ended;
    assert.doesNotMatch(running.output(), /␛\[\d*m/);
    const once = onTerminal(["status", "x-", "--once"], envOf("secret-v"), never);
    await seen(once, /Nothing is held/);
    assert.doesNotMatch(once.output(), /␛\[/);
    writeFileSync(never, "");
    await once.ended;
  });
});

describe("holdfast doctor", () => {
  interface Checks {
    readonly checks: readonly { check: string; status: string; message: string; advice?: string }[];
  }
  const statuses = ({ checks }: Checks): Record<string, string> =>
    Object.fromEntries(checks.map(({ check, status }) => [check, status]));

  test("finds all well with a worker's token, and leaves nothing held", async () => {
    const { code, stdout } = await as("secret-a", "doctor");
    assert.equal(code, 0, stdout);
    assert.match(stdout, /^✓ Node \d/m);
    assert.match(stdout, /^✓ server http:\/\/127\.0\.0\.1:\d+ \(from HOLDFAST_URL\)$/m);
    assert.match(stdout, /^✓ the token is runner-1: worker in space default, names \*, never expires$/m);
    assert.match(stdout, /^✓ a lease on doctor\/\S+ was taken, renewed and released/m);
    assert.match(stdout, /^All is well\.$/m);
    assert.doesNotMatch(stdout, /secret-a/);
    assert.deepEqual((await client.locks.list({ prefix: "doctor/" })).locks, []);
    const { ok, data } = JSON.parse((await as("secret-v", "doctor", "--json")).stdout);
    assert.equal(ok, true);
    assert.equal(statuses(data)["lease"], "skipped", "an observer may only look");
  });

  test("says what is wrong and what to do, with the code of the worst", async () => {
    const closed = `http://127.0.0.1:${await freePort()}`;
    const open = join(temporaryDir("holdfast-open-"), "token");
    writeFileSync(open, "secret-a\n");
    chmodSync(open, 0o644);
    const bad = temporaryDir("holdfast-bad-config-");
    mkdirSync(join(bad, "holdfast"));
    writeFileSync(join(bad, "holdfast", "config.toml"), "url = [");
    const url = { HOLDFAST_URL: server.url };
    const rows: [code: number, check: string, says: RegExp, env: Record<string, string>][] = [
      [1, "token", /unknown, revoked or expired/, { ...url, HOLDFAST_TOKEN: "wrong" }],
      [1, "settings", /no token/, url],
      [5, "server", /no reply from .*ECONNREFUSED/, { HOLDFAST_URL: closed, HOLDFAST_TOKEN: "x" }],
      [1, "permissions", /token can be read by others/, { ...url, HOLDFAST_TOKEN_FILE: open }],
      [2, "settings", /config\.toml:1:\d+: Invalid TOML/, { ...url, XDG_CONFIG_HOME: bad }],
      [
        2,
        "settings",
        /HOLDFAST_URL: nonsense is no URL of a server/,
        { HOLDFAST_URL: "nonsense", HOLDFAST_TOKEN: "x" },
      ],
    ];
    const all = rows.map(async ([code, check, says, env]) => {
      const ended = await holdfast(["doctor", "--json"], { env: { ...own, ...env } });
      assert.equal(ended.code, code, ended.text);
      const { ok, error } = JSON.parse(ended.stdout) as {
        ok: false;
        error: { code: string; details: Checks };
      };
      assert.deepEqual([ok, error.code], [false, "unhealthy"]);
      const found = error.details.checks.find((one) => one.check === check && one.status === "failed");
      assert.match(found?.message ?? "", says);
      assert.notEqual(found?.advice ?? "", "");
    });
    await Promise.all(all);
  });
});

describe("holdfast completion", () => {
  test("bash completes commands, their options and the values that can be given", async () => {
    const script = `source <(${process.execPath} '${mainFile}' completion bash)
try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _holdfast; echo "\${COMPREPLY[*]}"; }
try holdfast stat; try holdfast token cr; try holdfast token create --ro; try holdfast completion z
try holdfast token create --role o; try holdfast run --on-loss w; try holdfast job release --outcome a
try holdfast serve --data ''; try holdfast run x -- --js; try holdfast config show --js; complete -p holdfast`;
    const { code, stdout, stderr } = await runToEnd("bash", ["-c", script], { env: own });
    assert.equal(code, 0, stderr);
    assert.deepEqual(stdout.split("\n"), [
      "status",
      "create",
      "--role",
      "zsh",
      "observer",
      "warn",
      "abandoned",
      "",
      "",
      "--json",
      "complete -o default -F _holdfast holdfast",
      "",
    ]);
  });

  for (const shell of ["zsh", "fish"])
    test(`${shell} can read its script, where there is one`, async (t) => {
      const { stdout } = await holdfast(["completion", shell], { env: own });
      assert.match(stdout, /holdfast token create/);
      const file = join(temporaryDir("holdfast-completion-"), shell);
      writeFileSync(file, stdout);
      const read = await runToEnd(shell, ["-n", file], { env: own }).catch(() => null);
      if (read === null) t.diagnostic(`no ${shell} on this machine: only looked at`);
      else assert.deepEqual([read.code, read.text], [0, ""]);
    });
});

describe("whatever the command", () => {
  const commands = ["--help", "--version", "status", "doctor", "config show", "completion bash", "nonsense"];
  for (const command of commands)
    test(`${command}: a reader that leaves early is no accident`, async () => {
      const script = `${process.execPath} '${mainFile}' ${command} 2>&1 >&3 | head -c 0; exit \${PIPESTATUS[0]}`;
      const both = await runToEnd("bash", ["-c", `{ ${script}; } 3>&1 | head -c 0`], {
        env: envOf("secret-v"),
      });
      assert.equal(both.text, "");
      const out = await runToEnd(
        "bash",
        ["-c", `${process.execPath} '${mainFile}' ${command} | true; exit \${PIPESTATUS[0]}`],
        { env: envOf("secret-v") },
      );
      assert.equal(out.code, command === "nonsense" ? 2 : 0);
      assert.doesNotMatch(out.stderr, /EPIPE|^\s+at /m);
    });

  test("Ctrl-C while a server does not answer ends it at once, without a word of the program's insides", async () => {
    const silent = createServer(() => {}).listen(0, "127.0.0.1");
    await once(silent, "listening");
    const address = silent.address();
    assert.ok(address !== null && typeof address === "object");
    const env = { ...own, HOLDFAST_URL: `http://127.0.0.1:${address.port}`, HOLDFAST_TOKEN: "x" };
    try {
      for (const args of [["status"], ["watch"], ["doctor"], ["token", "list"]]) {
        const running = start(process.execPath, [mainFile, ...args], env);
        await once(silent, "connection");
        running.child.kill("SIGINT");
        // A shell makes 130 of it.
        assert.deepEqual(await running.ended, { code: null, signal: "SIGINT" });
        assert.doesNotMatch(running.output(), /\n\s+at /);
      }
    } finally {
      silent.close();
    }
  });
});
