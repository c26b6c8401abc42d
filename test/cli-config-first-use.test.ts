// The first minutes: no token yet, a wrong address, a token that was copied badly, another program at the port, a project
// file that is broken. Every command says the same, with the same exit code, and what to do next.
import assert from "node:assert/strict";
import { once } from "node:events";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { createServer, type Server as HttpServer } from "node:http";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { freePort, startServer, temporaryDir } from "./server.js";
import { type Ended, holdfast } from "./system-program.js";

const empty = temporaryDir("holdfast-first-");
const none = { HOME: empty, XDG_CONFIG_HOME: empty, XDG_STATE_HOME: empty };
const copy = join(empty, "copy.db");

/** One of each kind that talks to a server. */
const commands: readonly (readonly string[])[] = [
  ["status", "--once"],
  ["watch", "--lines"],
  ["lock", "status"],
  ["lock", "acquire", "x"],
  ["job", "claim", "x"],
  ["run", "x", "--", "true"],
  ["hold", "x"],
  ["token", "list"],
  ["token", "create", "--name", "me"],
  ["backup", copy],
  ["verify", "--duration", "5s"],
];

/** Options of the program stand before what belongs to another command. */
function withOptions(command: readonly string[], ...options: string[]): string[] {
  const end = command.indexOf("--");
  return end === -1
    ? [...command, ...options]
    : [...command.slice(0, end), ...options, ...command.slice(end)];
}

const each = (run: (command: readonly string[]) => Promise<Ended>): Promise<Ended[]> =>
  Promise.all(commands.map(run));

/** Of `verify` 1 says that a promise was broken. */
const refusedWith = (command: readonly string[] = []): number => (command[0] === "verify" ? 2 : 1);

describe("without a token", () => {
  test("every command says the same: what to set, where a server keeps its token, the next command", async () => {
    const ended = await each((command) => holdfast(command, { env: none, cwd: empty }));
    for (const [i, { code, stdout, stderr }] of ended.entries()) {
      assert.deepEqual([code, stdout], [refusedWith(commands[i]), ""], stderr);
      assert.equal(stderr, ended[0]?.stderr);
    }
    const [first = "", ...advice] = ended[0]?.stderr.trimEnd().split("\n") ?? [];
    assert.equal(first, "holdfast: no token for http://127.0.0.1:4280 (from default)");
    assert.match(advice[0] ?? "", /^ {2}Set HOLDFAST_TOKEN .* --token-file FILE$/);
    assert.match(advice[1] ?? "", /operator-token: .*holdfast token create --name ME --data DIR/);
    assert.match(advice[2] ?? "", /holdfast serve/);
  });

  test("with --json it is one code", async () => {
    const ended = await each((command) =>
      holdfast(withOptions(command, "--json"), { env: none, cwd: empty }),
    );
    for (const [i, { code, stdout }] of ended.entries()) {
      assert.equal(code, refusedWith(commands[i]), stdout);
      const { ok, error } = JSON.parse(stdout);
      assert.deepEqual([ok, error.code], [false, "authentication_required"]);
      assert.match(error.message, /^no token for .*HOLDFAST_TOKEN.*--data DIR/);
    }
  });

  test("what it advises works: the data directory gives server and token, and a token for a worker", async () => {
    const data = temporaryDir("holdfast-own-");
    const port = await freePort();
    await using _ = await startServer({
      dataDir: data,
      port,
      env: { HOLDFAST_TOKENS: undefined, HOLDFAST_ADMIN_TOKEN: undefined },
    });
    assert.ok(existsSync(join(data, "operator-token")));
    const made = await holdfast(["token", "create", "--name", "me", "--data", data], {
      env: none,
      cwd: empty,
    });
    assert.equal(made.code, 0, made.text);
    const env = { ...none, HOLDFAST_URL: `http://127.0.0.1:${port}`, HOLDFAST_TOKEN: made.stdout.trim() };
    const taken = await holdfast(["lock", "acquire", "first"], { env, cwd: empty });
    assert.equal(taken.code, 0, taken.text);
  });
});

describe("a wrong setting", () => {
  test("an address that is none is told as that, with or without a token", async () => {
    for (const address of ["foo", "localhost:4280", "ftp://localhost", "http://"]) {
      for (const token of [{}, { HOLDFAST_TOKEN: "t" }]) {
        const ended = await each((command) =>
          holdfast(withOptions(command, "--server", address), { env: { ...none, ...token }, cwd: empty }),
        );
        for (const { code, stderr } of ended)
          assert.deepEqual(
            [code, stderr],
            [2, `holdfast: --server: ${address} is no URL of a server: write one as http://127.0.0.1:4280\n`],
          );
      }
    }
    const env = { ...none, HOLDFAST_URL: "foo" };
    const { code, stderr } = await holdfast(["status"], { env, cwd: empty });
    assert.equal(code, 2);
    assert.match(stderr, /^holdfast: HOLDFAST_URL: foo is no URL/);
  });

  test("a token with a character that none has: the variable or the file is named, the token is not", async () => {
    const file = join(temporaryDir("holdfast-bad-token-"), "token");
    writeFileSync(file, "one two\n");
    const home = temporaryDir("holdfast-bad-config-");
    mkdirSync(join(home, "holdfast"));
    writeFileSync(join(home, "holdfast", "config.toml"), 'token = "t\u00f6ken"', { mode: 0o600 });
    const rows: [env: Record<string, string>, says: string][] = [
      [{ HOLDFAST_TOKEN: "\u201cone-two\u201d" }, "HOLDFAST_TOKEN"],
      [{ HOLDFAST_TOKEN_FILE: file }, `HOLDFAST_TOKEN_FILE ${file}`],
      [{ XDG_CONFIG_HOME: home }, join(home, "holdfast", "config.toml")],
    ];
    for (const [env, from] of rows) {
      const ended = await each((command) => holdfast(command, { env: { ...none, ...env }, cwd: empty }));
      for (const { code, stderr } of ended) {
        assert.equal(code, 2, stderr);
        assert.ok(
          stderr.startsWith(`holdfast: ${from}: the token holds a character that no token has`),
          stderr,
        );
        assert.doesNotMatch(stderr, /one.two|t\u00f6ken/);
      }
    }
    const doctor = await holdfast(["doctor"], { env: { ...none, HOLDFAST_TOKEN: "a b" }, cwd: empty });
    assert.equal(doctor.code, 2);
    assert.match(doctor.stdout, /^✗ HOLDFAST_TOKEN: the token holds a character/m);
  });
});

describe("another program at the port", () => {
  let other: HttpServer;
  let url = "";
  let [status, answer] = [200, "{}"];
  before(async () => {
    other = createServer((_, response) => {
      response.writeHead(status, { "content-type": "application/json" }).end(answer);
    }).listen(0, "127.0.0.1");
    await once(other, "listening");
    const address = other.address();
    assert.ok(address !== null && typeof address === "object");
    url = `http://127.0.0.1:${address.port}`;
  });
  after(() => {
    other.closeAllConnections();
    other.close();
  });

  test("every command says that this is no Holdfast server, and nothing of its own insides", async () => {
    const env = { ...none, HOLDFAST_URL: url, HOLDFAST_TOKEN: "t" };
    const talking = commands.filter(([word]) => word !== "verify");
    for (const command of talking) {
      const { code, stdout, stderr } = await holdfast(command, { env, cwd: empty });
      assert.deepEqual([code, stdout], [5, ""], `${command}: ${stderr}`);
      assert.ok(stderr.startsWith(`holdfast: ${url} does not answer as a Holdfast server`), stderr);
      const json = await holdfast(withOptions(command, "--json"), { env, cwd: empty });
      assert.equal(JSON.parse(json.stdout).error.code, "not_holdfast", json.text);
    }
    assert.ok(!existsSync(copy), "no page was kept as a backup");
  });

  test("a refusal by a code that this version does not know is a failure all the same", async () => {
    [status, answer] = [418, '{"error":"no","code":"teapot","details":"I am a teapot."}'];
    const env = { ...none, HOLDFAST_URL: url, HOLDFAST_TOKEN: "t" };
    for (const command of [["status"], ["lock", "acquire", "x"], ["token", "list"]]) {
      const { code, stderr } = await holdfast(command, { env, cwd: empty });
      assert.deepEqual([code, stderr], [1, "holdfast: I am a teapot.\n"]);
    }
  });
});

describe("a broken project file further up", () => {
  const above = temporaryDir("holdfast-broken-project-");
  const cwd = join(above, "deep", "er");
  mkdirSync(cwd, { recursive: true });
  writeFileSync(join(above, ".holdfast.toml"), 'lock_policy = "warn"\nrequire = [\n');
  const told = /the project file is ignored: .*\.holdfast\.toml:\d+:\d+: Invalid TOML document/;

  test("help and version do not look at it", async () => {
    for (const args of [["--help"], ["--version"], ["lock", "acquire", "--help"]]) {
      const { code, stderr } = await holdfast(args, { env: none, cwd });
      assert.deepEqual([code, stderr], [0, ""]);
    }
  });

  test("doctor reports it and goes on; other commands warn and work", async () => {
    await using server = await startServer();
    const env = { ...none, HOLDFAST_URL: server.url, HOLDFAST_TOKEN: "secret-a" };
    const doctor = await holdfast(["doctor"], { env, cwd });
    assert.equal(doctor.code, 0, doctor.text);
    assert.match(doctor.stdout, new RegExp(`^! ${told.source}`, "m"));
    assert.match(doctor.stdout, /^✓ a lease on doctor/m);
    const status = await holdfast(["status"], { env, cwd });
    assert.equal(status.code, 0);
    assert.match(status.stderr, told);
    assert.equal(status.stdout, "Nothing is held.\n");
  });
});
