import assert from "node:assert/strict";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, beforeEach, describe, test } from "node:test";
import type { CliError } from "./failure.js";
import { findSettings, type ServerFlags, settingsOf, tokenFor } from "./settings.js";

const root = mkdtempSync(join(tmpdir(), "holdfast-settings-"));
after(() => rmSync(root, { recursive: true, force: true }));

let home = "";
let cwd = "";
let count = 0;
beforeEach(() => {
  home = join(root, `home-${count}`);
  cwd = join(root, `work-${count++}`);
  mkdirSync(cwd);
});

function write(file: string, text: string, mode = 0o600): string {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
  chmodSync(file, mode);
  return file;
}
const user = (text: string, mode?: number): string =>
  write(join(home, "holdfast", "config.toml"), text, mode);
const project = (text: string): string => write(join(cwd, ".holdfast.toml"), text);
const serverOn = (dir: string, url: string, token = "kept"): void => {
  write(join(dir, "server-url"), `${url}\n`);
  write(join(dir, "operator-token"), `${token}\n`);
};
const look = (flags: ServerFlags = {}, env: Record<string, string> = {}): ReturnType<typeof settingsOf> =>
  settingsOf(flags, { XDG_CONFIG_HOME: home, ...env }, cwd);
const pair = async (flags: ServerFlags = {}, env: Record<string, string> = {}): Promise<string> => {
  const { url, token } = await look(flags, env);
  return `${url.value} ${token?.value ?? "none"}`;
};
const refusal = (says: RegExp, exitCode: number) => (error: CliError) => {
  assert.match(error.message, says);
  assert.equal(error.exitCode, exitCode);
  return true;
};

describe("which address and which token", () => {
  const U = { HOLDFAST_URL: "http://env" };
  const T = { HOLDFAST_TOKEN: "env-token" };
  const rows: [what: string, flags: ServerFlags, env: Record<string, string>, file: string, pair: string][] =
    [
      ["nothing anywhere", {}, {}, "", "http://127.0.0.1:4280 none"],
      ["flags come first", { server: "http://flag", token: "f" }, { ...U, ...T }, "", "http://flag f"],
      [
        "the environment next",
        {},
        { ...U, ...T },
        'url = "http://file"\ntoken = "file"',
        "http://env env-token",
      ],
      ["then the user's file", {}, {}, 'url = "http://file"\ntoken = "file"', "http://file file"],
      [
        "a token of a flag outranks that of the environment",
        { token: "f" },
        { ...U, ...T },
        "",
        "http://env f",
      ],
      [
        "a token without an address goes with the one in use",
        { server: "http://flag" },
        T,
        "",
        "http://flag env-token",
      ],
      ["also one from the file", {}, U, 'token = "file"', "http://env file"],
      ["and to the usual place", {}, T, "", "http://127.0.0.1:4280 env-token"],
      [
        "not one that stands beside another address",
        { server: "http://flag" },
        { ...U, ...T },
        "",
        "http://flag none",
      ],
      ["nor that of a file with another", {}, U, 'url = "http://file"\ntoken = "file"', "http://env none"],
      [
        "nor in passing over it to a later one that may",
        { server: "http://flag" },
        { ...U, ...T },
        'token = "file"',
        "http://flag file",
      ],
      [
        "the same address in other words is the same",
        { server: "http://LOCALHOST:80/" },
        { HOLDFAST_URL: "http://127.0.0.1", ...T },
        "",
        "http://LOCALHOST:80/ env-token",
      ],
      [
        "another port is another address",
        { server: "http://env:81" },
        { ...U, ...T },
        "",
        "http://env:81 none",
      ],
      ["another scheme, too", { server: "https://env" }, { ...U, ...T }, "", "https://env none"],
      [
        "an empty variable is none",
        {},
        { HOLDFAST_URL: "", HOLDFAST_TOKEN: "" },
        "",
        "http://127.0.0.1:4280 none",
      ],
    ];
  for (const [what, flags, env, file, expected] of rows)
    test(what, async () => {
      if (file !== "") user(file);
      assert.equal(await pair(flags, env), expected);
    });

  test("each value says where it came from, and a token that was not used is told with the reason", async () => {
    const file = user('url = "http://file"\ntoken = "file"');
    const { url, token } = await look();
    assert.deepEqual([url.from, token?.from], [file, file]);
    const { unused } = await look({ server: "http://flag" }, { ...U, ...T });
    assert.deepEqual(unused, [
      "the token from HOLDFAST_TOKEN was not used: it belongs to http://env (HOLDFAST_URL)",
      `the token from ${file} was not used: it belongs to http://file there`,
    ]);
  });

  test("a token may stand in a file of its own, named beside the configuration", async () => {
    const secret = write(join(root, "secret"), "  from-file\n");
    assert.equal(await pair({ tokenFile: secret }), "http://127.0.0.1:4280 from-file");
    assert.equal(await pair({}, { HOLDFAST_TOKEN_FILE: secret }), "http://127.0.0.1:4280 from-file");
    const file = user('url = "http://file"\ntoken_file = "mine"');
    write(join(dirname(file), "mine"), "beside");
    assert.equal(await pair(), "http://file beside");
  });

  test("an operator's command also takes HOLDFAST_ADMIN_TOKEN, others do not", async () => {
    const env = { XDG_CONFIG_HOME: home, HOLDFAST_ADMIN_TOKEN: "admin" };
    const found = await findSettings({}, env, cwd, "operator");
    assert.equal(tokenFor(found, "http://any").token?.value, "admin");
    assert.equal(await pair({}, env), "http://127.0.0.1:4280 none");
  });
});

describe("the server on a data directory", () => {
  const here = "http://127.0.0.1:4999";

  test("is used where nothing else is named, with the token kept there", async () => {
    serverOn(join(cwd, ".holdfast"), here);
    assert.equal(await pair(), `${here} kept`);
    assert.equal(await pair({}, { HOLDFAST_TOKEN: "mine" }), `${here} mine`);
    assert.equal(await pair({ server: here }), `${here} kept`);
    assert.equal(await pair({ server: "http://other" }), "http://other none");
    user('url = "http://file"\ntoken = "file"');
    assert.equal(await pair(), "http://file file");
  });

  test("outranks the user's file where the directory is named, and the environment where a flag names it", async () => {
    const data = join(cwd, "data");
    serverOn(data, here);
    user('url = "http://file"\ntoken = "file"');
    assert.equal(await pair({}, { HOLDFAST_DATA: data }), `${here} kept`);
    assert.equal(await pair({}, { HOLDFAST_DATA: data, HOLDFAST_URL: "http://env" }), "http://env none");
    assert.equal(await pair({ data }, { HOLDFAST_URL: "http://env", HOLDFAST_TOKEN: "t" }), `${here} kept`);
  });

  test("is an error where a flag names a directory that has none", async () => {
    await assert.rejects(look({ data: "nothing" }), refusal(/no server runs on .*nothing: start it with/, 3));
  });

  test("on another machine is not believed where nobody named the directory: it may have come with a clone", async () => {
    serverOn(join(cwd, ".holdfast"), "http://thief.example");
    const { url, token, warnings } = await look({}, { HOLDFAST_TOKEN: "mine" });
    assert.deepEqual([url.value, token?.value], ["http://127.0.0.1:4280", "mine"]);
    assert.match(warnings.join(), /server-url is ignored: http:\/\/thief\.example is not this machine/);
    assert.equal(await pair({ data: ".holdfast" }), "http://thief.example kept");
  });
});

describe("files", () => {
  test("a project file cannot name a server, a token or a store; policy in it is nobody's business here", async () => {
    const file = project(
      'url = "http://thief"\ntoken = "t"\nstore = "sqlite:x"\nlock_policy = "require"\nrequire = ["src/**"]',
    );
    mkdirSync(join(cwd, "deep", "er"), { recursive: true });
    const env = { XDG_CONFIG_HOME: home, HOLDFAST_TOKEN: "mine" };
    const { url, token, warnings } = await settingsOf({}, env, join(cwd, "deep", "er"));
    assert.deepEqual([url.value, token?.value], ["http://127.0.0.1:4280", "mine"]);
    assert.deepEqual(
      warnings.map((warning) => warning.slice(0, warning.indexOf(" is ignored"))),
      [`${file}: url`, `${file}: token`, `${file}: store`],
    );
  });

  test("of a project file only what is known and right counts; the rest is told with what was meant", async () => {
    const file = project(
      'lock_polcy = "warn"\nrequire = "src/**"\nauthority = "https://thief.example/x.git"\ncolour = 1\n',
    );
    const { warnings, project: found } = await look();
    assert.deepEqual(found.values, {});
    assert.deepEqual(warnings, [
      `${file}: unknown key "lock_polcy" is ignored: did you mean lock_policy?`,
      `${file}: require is ignored: it must be a list of patterns, as ["src/**"]`,
      `${file}: authority is ignored: it must be the name of a git remote, or "local", never a URL`,
      `${file}: unknown key "colour" is ignored: there are lock_policy, require, authority`,
    ]);
    project('lock_policy = "warn"\nrequire = ["src/**"]\nauthority = "origin"\n');
    const right = await look();
    assert.deepEqual(right.warnings, []);
    assert.deepEqual(right.project.values, { lock_policy: "warn", require: ["src/**"], authority: "origin" });
  });

  test("a broken project file stops nothing, and is told with its line", async () => {
    const file = project('lock_policy = "warn"\n\nrequire = [\n');
    const { url, warnings } = await look({ server: "http://flag" });
    assert.equal(url.value, "http://flag");
    assert.match(warnings.join(), /^the project file is ignored: .*:\d+:\d+: Invalid TOML document: /);
    assert.ok(warnings[0]?.includes(file));
  });

  test("the user's file is told to be closed when it holds a token and others can read it", async () => {
    const file = user('url = "http://file"\ntoken = "file"', 0o644);
    assert.deepEqual((await look()).warnings, [
      `${file} holds a token and can be read by others: chmod 600 ${file}`,
    ]);
    user('url = "http://file"', 0o644);
    assert.deepEqual((await look()).warnings, []);
  });

  test("what cannot be meant is refused", async () => {
    const wrong: [text: string, says: RegExp][] = [
      ['token = "t"\nurl = ', /config\.toml:2:7: Invalid TOML/],
      ['urll = "x"', /unknown key "urll": did you mean url\?/],
      ['colour = "x"', /unknown key "colour": there are url, token, token_file/],
      ["url = 7", /url must be text/],
      ['token_file = "nowhere"', /cannot read .*nowhere \(ENOENT\)/],
    ];
    for (const [text, says] of wrong) {
      user(text);
      await assert.rejects(look(), refusal(says, 2));
    }
    user("");
    await assert.rejects(look({ token: "a", tokenFile: "b" }), refusal(/twice: give one/, 2));
    await assert.rejects(look({ tokenFile: write(join(root, "empty"), "\n") }), refusal(/is empty/, 2));
    await assert.rejects(
      look({}, { HOLDFAST_TOKEN_FILE: "/no/such" }),
      refusal(/HOLDFAST_TOKEN_FILE: cannot read/, 2),
    );
  });
});
