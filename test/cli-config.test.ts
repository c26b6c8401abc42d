// Settings as the program finds them: `config show`, who is sent a token and who is not, and the one shape of --json,
// also for whatever goes wrong.
import assert from "node:assert/strict";
import { once } from "node:events";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { adminToken, freePort, type Server, startServer, temporaryDir } from "./server.js";
import { type Ended, holdfast } from "./system-program.js";

const empty = temporaryDir("holdfast-no-settings-");
const secret = "hf_Ab12Cd34Ef56_thisIsTheSecretPart00000000";

function userFile(text: string, mode = 0o600): { XDG_CONFIG_HOME: string } {
  const home = temporaryDir("holdfast-config-");
  const file = join(home, "holdfast", "config.toml");
  mkdirSync(join(home, "holdfast"));
  writeFileSync(file, text);
  chmodSync(file, mode);
  return { XDG_CONFIG_HOME: home };
}

const none = { XDG_CONFIG_HOME: empty };

interface Shown {
  readonly url: { value: string; from: string };
  readonly token: { value: string; from: string } | null;
  readonly unused: string[];
  readonly warnings: string[];
  readonly policy: Record<string, { value: unknown; from: string }>;
}
const shown = async (args: string[], env: Record<string, string>, cwd = empty): Promise<Shown> => {
  const ended = await holdfast(["config", "show", "--json", ...args], { env, cwd });
  assert.equal(ended.code, 0, ended.text);
  assert.doesNotMatch(ended.text, /thisIsTheSecret/);
  return (JSON.parse(ended.stdout) as { data: Shown }).data;
};

describe("holdfast config show", () => {
  test("says where each value came from and masks secrets", async () => {
    const env = userFile(`url = "http://locks.example"\ntoken = "${secret}"`);
    const file = join(env.XDG_CONFIG_HOME, "holdfast", "config.toml");
    const { stdout, stderr } = await holdfast(["config", "show"], { env, cwd: empty });
    assert.match(stdout, new RegExp(`^url +http://locks\\.example +${file}$`, "m"));
    assert.match(stdout, new RegExp(`^token +hf_Ab12Cd… +${file}$`, "m"));
    assert.equal(stderr, "");
    const flag = await shown(["--server", "http://flag", "--token", secret], env);
    assert.deepEqual([flag.url.from, flag.token], ["--server", { value: "hf_Ab12Cd…", from: "--token" }]);
    const variables = await shown([], {
      ...env,
      HOLDFAST_URL: "http://env",
      HOLDFAST_TOKEN: "thisIsTheSecret",
    });
    assert.deepEqual(variables.token, { value: "(hidden)", from: "HOLDFAST_TOKEN" });
    assert.deepEqual((await shown([], none)).url, { value: "http://127.0.0.1:4280", from: "default" });
  });

  test("warns of what a project file must not set, and shows what it may", async () => {
    const cwd = temporaryDir("holdfast-clone-");
    const file = join(cwd, ".holdfast.toml");
    writeFileSync(file, 'url = "http://thief"\nstore = "x"\ntoken = "t"\nlock_policy = "require"\n');
    const { url, warnings, policy } = await shown([], none, cwd);
    assert.equal(url.from, "default");
    assert.equal(warnings.filter((line) => line.startsWith(file) && line.includes("is ignored")).length, 3);
    assert.deepEqual(policy, { lock_policy: { value: "require", from: file } });
    const { stderr } = await holdfast(["config", "show"], { env: none, cwd });
    assert.match(stderr, /\.holdfast\.toml: url is ignored/);
  });

  test("warns of a configuration with a token that others can read", async () => {
    const { warnings } = await shown([], userFile(`token = "${secret}"`, 0o644));
    assert.match(warnings.join(), /can be read by others: chmod 600/);
  });
});

describe("a token", () => {
  let heard: (string | undefined)[] = [];
  const thief = createServer((request: IncomingMessage, response) => {
    heard.push(request.headers.authorization);
    response.statusCode = 307;
    response.setHeader("location", "http://127.0.0.1:1/").end("{}");
  });
  let url = "";
  before(async () => {
    thief.listen(0, "127.0.0.1");
    await once(thief, "listening");
    const address = thief.address();
    assert.ok(address !== null && typeof address === "object");
    url = `http://127.0.0.1:${address.port}`;
  });
  after(() => {
    thief.closeAllConnections();
    thief.close();
  });

  test("that belongs to one address is sent to no other, and the message says which and why", async () => {
    heard = [];
    const file = userFile(`url = "http://mine.example"\ntoken = "${secret}"`);
    const both = { ...none, HOLDFAST_URL: "http://mine.example", HOLDFAST_TOKEN: secret };
    const rows: [args: string[], env: Record<string, string>, code: number, says: RegExp][] = [
      [
        ["status", "--server", url],
        both,
        1,
        /the token from HOLDFAST_TOKEN was not used: it belongs to http:\/\/mine\.example \(HOLDFAST_URL\)/,
      ],
      [["lock", "status", "--server", url], both, 1, /was not used/],
      [
        ["status"],
        { ...file, HOLDFAST_URL: url },
        1,
        /config\.toml was not used: it belongs to http:\/\/mine\.example there/,
      ],
      [["token", "list", "--server", url], both, 1, /was not used/],
      [["verify", "--url", url], both, 2, /was not used/],
      [
        ["backup", join(empty, "x.db"), "--server", url],
        { ...none, HOLDFAST_URL: "http://mine.example", HOLDFAST_ADMIN_TOKEN: secret },
        1,
        /the token from HOLDFAST_ADMIN_TOKEN was not used/,
      ],
    ];
    for (const [args, env, code, says] of rows) {
      const ended = await holdfast(args, { env, cwd: empty });
      assert.equal(ended.code, code, ended.text);
      assert.match(ended.stderr, says);
      assert.doesNotMatch(ended.text, /thisIsTheSecret/);
    }
    assert.deepEqual(heard, []);
  });

  test("is not sent on where a server points elsewhere", async () => {
    heard = [];
    const env = { ...none, HOLDFAST_URL: url, HOLDFAST_TOKEN: "loose" };
    const looked = await holdfast(["status"], { env, cwd: empty });
    const listed = await holdfast(["token", "list"], { env, cwd: empty });
    assert.notEqual(looked.code, 0);
    assert.notEqual(listed.code, 0);
    assert.ok(heard.length >= 2 && heard.every((one) => one === "Bearer loose"), String(heard));
  });

  test("of an environment with an address beside it goes nowhere because of a clone", async () => {
    heard = [];
    const cwd = temporaryDir("holdfast-clone-");
    writeFileSync(join(cwd, ".holdfast.toml"), `url = "${url}"\n`);
    const nowhere = `http://127.0.0.1:${await freePort()}`;
    const env = { ...none, HOLDFAST_URL: nowhere, HOLDFAST_TOKEN: secret };
    assert.equal((await holdfast(["doctor"], { env, cwd })).code, 5);
    assert.deepEqual(heard, []);
  });
});

describe("--json", () => {
  let server: Server;
  before(async () => {
    server = await startServer();
  });
  after(() => server[Symbol.asyncDispose]());

  const envelope = ({
    stdout,
  }: Ended): {
    schema_version: number;
    ok: boolean;
    data?: unknown;
    error?: { code: string; message: string; details: object };
  } => {
    assert.equal(stdout.trimEnd().split("\n").length, 1, stdout);
    return JSON.parse(stdout);
  };

  test("is one object in one shape, whatever the command", async () => {
    const env = { ...none, HOLDFAST_URL: server.url, HOLDFAST_TOKEN: adminToken };
    const file = join(temporaryDir("holdfast-json-"), "copy.db");
    const rows = [
      ["status"],
      ["doctor"],
      ["config", "show"],
      ["completion", "bash"],
      ["backup", file],
      ["restore", file, "--data", `${file}-restored`],
      ["token", "create", "--name", "json"],
      ["token", "list"],
      ["token", "rotate", "json"],
      ["token", "revoke", "json"],
    ];
    for (const args of rows) {
      const ended = await holdfast([...args, "--json"], { env, cwd: empty });
      assert.equal(ended.code, 0, `${args}: ${ended.text}`);
      const { schema_version, ok, data } = envelope(ended);
      assert.deepEqual([schema_version, ok, typeof data], [1, true, "object"], String(args));
    }
  });

  test("also for what goes wrong, with the exit code of its kind", async () => {
    const closed = { ...none, HOLDFAST_URL: `http://127.0.0.1:${await freePort()}`, HOLDFAST_TOKEN: "x" };
    const here = { ...none, HOLDFAST_URL: server.url };
    const rows: [args: string[], env: Record<string, string>, exit: number, code: string, says: RegExp][] = [
      [
        ["statu"],
        none,
        2,
        "usage",
        /unknown command 'statu' \(Did you mean status\?\)\. See: holdfast --help/,
      ],
      [
        ["status", "--mien"],
        none,
        2,
        "usage",
        /unknown option '--mien' \(Did you mean --mine\?\)\. See: holdfast status --help/,
      ],
      [["config", "shwo"], none, 2, "usage", /Did you mean show\?\)\. See: holdfast config --help/],
      [["completion", "tcsh"], none, 2, "usage", /Allowed choices are bash, zsh, fish/],
      [["config"], none, 2, "usage", /holdfast config needs a command/],
      [["revoke", "x"], none, 2, "usage", /Did you mean holdfast token revoke\?/],
      [["status"], here, 1, "authentication_required", /no token for/],
      [["status"], { ...here, HOLDFAST_TOKEN: "wrong" }, 1, "authentication_failed", /unknown, revoked/],
      [["status"], closed, 5, "unreachable", /No reply from/],
      [["watch"], closed, 5, "unreachable", /No reply from/],
      [["token", "list"], closed, 5, "unavailable", /cannot reach/],
      [
        ["token", "revoke", "nobody"],
        { ...here, HOLDFAST_TOKEN: adminToken },
        3,
        "not_found",
        /there is no token/,
      ],
      [["restore", "/no/such"], none, 3, "not_found", /there is no backup/],
      [["verify", "--duration", "soon"], { ...here, HOLDFAST_TOKEN: "x" }, 2, "usage", /--duration/],
    ];
    const all = rows.map(async ([args, env, exit, code, says]) => {
      const ended = await holdfast([...args, "--json"], { env, cwd: empty });
      assert.equal(ended.code, exit, `${args}: ${ended.text}`);
      const { schema_version, ok, error } = envelope(ended);
      assert.deepEqual([schema_version, ok, error?.code], [1, false, code], ended.stdout);
      assert.match(error?.message ?? "", says);
      assert.equal(typeof error?.details, "object");
      assert.doesNotMatch(ended.text, /^\s+at .*[:(]\d+/m);
    });
    await Promise.all(all);
  });
});
