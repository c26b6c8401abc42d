// The command line as people and scripts use it: tokens against a running server and against the file when none
// runs, help, suggestions, and the exit codes 0 done, 2 wrong use, 3 not found, 4 conflict, 5 storage or network,
// 1 anything else.
import assert from "node:assert/strict";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { policyDefault } from "../src/core/limits.js";
import { openStore } from "../src/engines/open.js";
import { Tokens } from "../src/service/tokens.js";
import { freePort, type Server, startServer, temporaryDir } from "./server.js";
import { Client, until } from "./system-client.js";
import { type Ended, holdfast } from "./system-program.js";

interface TokenRow {
  readonly id: string;
  readonly name: string;
  readonly token?: string;
}

const lines = ({ stdout }: Ended): string[] => stdout.trimEnd().split("\n");
const dataOf = <Data>({ stdout }: Ended): Data => {
  const { schema_version, ok, data } = JSON.parse(stdout) as { schema_version: 1; ok: true; data: Data };
  assert.deepEqual([schema_version, ok], [1, true]);
  return data;
};
const rowsOf = (ended: Ended): TokenRow[] => dataOf<{ tokens: TokenRow[] }>(ended).tokens;

async function statusOf(url: string, token: string, path = "/whoami"): Promise<number> {
  const client = new Client(url, token);
  try {
    return (await client.get(path)).status;
  } finally {
    client.close();
  }
}

describe("holdfast token", () => {
  let server: Server;
  /** Nothing but the directory: the running server and its token are found from there. */
  let env: Record<string, string>;
  const token = (...args: string[]): Promise<Ended> => holdfast(["token", ...args], { env });
  const done = async (...args: string[]): Promise<Ended> => {
    const ended = await token(...args);
    assert.equal(ended.code, 0, ended.text);
    return ended;
  };

  before(async () => {
    server = await startServer({ env: { HOLDFAST_TOKENS: undefined, HOLDFAST_ADMIN_TOKEN: undefined } });
    env = { HOLDFAST_DATA: server.dataDir };
  });
  after(() => server[Symbol.asyncDispose]());

  test("create prints the token alone and once; it is what it was asked to be", async () => {
    const made = await done("create", "--name", "ci", "--scope", "deploy-*", "--expires", "90d");
    const [secret = "", ...more] = lines(made);
    assert.match(secret, /^hf_\w+$/);
    assert.deepEqual(more, []);
    assert.ok(
      made.stderr.includes(`in space default, made in ${server.url}. It is shown this once`),
      made.stderr,
    );
    assert.ok(!made.stderr.includes(secret));
    const client = new Client(server.url, secret);
    assert.equal((await client.acquire("deploy-main")).status, 200);
    assert.equal((await client.acquire("other")).status, 403, "outside its scope");
    client.close();
    const [list, json, twice] = await Promise.all([
      done("list"),
      done("list", "--json"),
      token("create", "--name", "ci"),
    ]);
    assert.match(
      list.stdout,
      /^ID +NAME +ROLE +SPACE +EXPIRES +SCOPES\n\w+ +ci +worker +default +2\d{3}-\S+Z +deploy-\*$/m,
    );
    assert.ok(![list, json].some(({ stdout }) => stdout.includes(secret)), "a list shows no secret");
    assert.deepEqual(
      rowsOf(json).map(({ name }) => name),
      ["ci"],
    );
    assert.equal(twice.code, 4, twice.text);
    assert.match(twice.stderr, /exists/);
  });

  test("rotate replaces the secret, revoke ends it, by name or id", async () => {
    const first = dataOf<TokenRow>(await done("create", "--name", "worker-1", "--json"));
    const [second = ""] = lines(await done("rotate", "worker-1"));
    assert.deepEqual(
      [await statusOf(server.url, first.token ?? ""), await statusOf(server.url, second)],
      [401, 200],
    );
    assert.equal((await done("revoke", first.id)).stdout, `Revoked ${first.id} in ${server.url}.\n`);
    assert.equal(await statusOf(server.url, second), 401);
    const missing = await Promise.all([token("revoke", "worker-1"), token("rotate", "nobody")]);
    for (const { code, stderr } of missing) {
      assert.equal(code, 3);
      assert.match(stderr, /there is no token/);
    }
  });

  test("a space is made and seen only by its own name", async () => {
    const [secret = ""] = lines(
      await done("create", "--name", "tenant", "--space", "acme", "--role", "admin"),
    );
    assert.equal(await statusOf(server.url, secret), 200);
    const [here, there] = await Promise.all([
      done("list", "--json"),
      done("list", "--json", "--space", "acme"),
    ]);
    assert.ok(!rowsOf(here).some(({ name }) => name === "tenant"));
    assert.deepEqual(
      rowsOf(there).map(({ name }) => name),
      ["tenant"],
    );
    await done("revoke", "tenant", "--space", "acme");
    assert.equal(await statusOf(server.url, secret), 401);
  });

  test("what goes wrong has the exit code of its kind and one line that helps", async () => {
    const closed = `http://127.0.0.1:${await freePort()}`;
    const elsewhere = { HOLDFAST_DATA: temporaryDir("holdfast-nothing-") };
    const asked = { HOLDFAST_TOKEN: "x" };
    const [secret = ""] = lines(await done("create", "--name", "viewer", "--role", "observer"));
    const rows: [code: number, says: RegExp, args: string[], env: Record<string, string>][] = [
      [2, /--role boss: use worker, observer or admin/, ["create", "--name", "x", "--role", "boss"], env],
      [
        2,
        /--expires "soon": give a duration as 30s, 15m, 1h or 90d/,
        ["create", "--name", "x", "--expires", "soon"],
        env,
      ],
      [2, /--name must be/, ["create", "--name", "no blanks"], env],
      [2, /--expires 3651d: at most 3650d/, ["create", "--name", "x", "--expires", "3651d"], env],
      [2, /--scope takes 1 to 32 patterns of 1 to 256/, ["create", "--name", "x", "--scope", ""], env],
      [2, /--scope takes/, ["create", "--name", "x", "--scope", "s".repeat(257)], env],
      [2, /--scope takes/, ["create", "--name", "x", "--scope", ...Array<string>(33).fill("s")], env],
      [2, /required option '--name/, ["create"], env],
      [2, /missing required argument 'id'/, ["revoke"], env],
      [1, /no token for/, ["list", "--server", closed], env],
      [2, /is no URL of a server: write one as http:/, ["list", "--server", "nonsense"], env],
      [2, /is no URL/, ["list", "--server", "127.0.0.1:4280"], { HOLDFAST_TOKEN: "x" }],
      [2, /is no URL/, ["list", "--server", "localhost:4280"], { HOLDFAST_TOKEN: "x" }],
      [
        5,
        /cannot reach .*\((?:ENOTFOUND|EAI_AGAIN)\)/,
        ["list"],
        { ...asked, HOLDFAST_URL: "http://no.invalid" },
      ],
      [
        5,
        /cannot reach .*nothing listens there \(ECONNREFUSED\)\. .*holdfast serve/,
        ["list", "--server", closed],
        { HOLDFAST_TOKEN: "x" },
      ],
      [1, /no token for http:\/\/127.0.0.1:4280/, ["list"], {}],
      [3, /there is no data in .*holdfast-nothing/, ["list"], { ...asked, ...elsewhere }],
      [3, /there is no data in \/.*\/x and no server/, ["create", "--name", "n", "--data", "./x"], asked],
      [
        1,
        /unknown, revoked or expired.*taken from HOLDFAST_TOKEN/,
        ["list"],
        { ...env, HOLDFAST_TOKEN: "wrong" },
      ],
      [4, /comes from the server's configuration/, ["create", "--name", "operator"], env],
      [1, /needs the role admin/, ["list"], { ...env, HOLDFAST_TOKEN: secret }],
    ];
    const failures = rows.map(async ([code, says, args, rowEnv]) => {
      const ended = await holdfast(["token", ...args], { env: rowEnv, cwd: elsewhere.HOLDFAST_DATA });
      assert.equal(ended.code, code, `${args.join(" ")}: ${ended.text}`);
      assert.match(ended.stderr, says);
      assert.doesNotMatch(ended.text, /^\s+at .*[:(]\d+/m);
    });
    await Promise.all(failures);
    const operator = readFileSync(join(server.dataDir, "operator-token"), "utf8").trim();
    assert.equal(await statusOf(server.url, operator), 200);
  });

  test("a kept token that the server no longer takes is told with its file", async () => {
    const dataDir = temporaryDir("holdfast-stale-");
    await using first = await startServer({
      dataDir,
      env: { HOLDFAST_TOKENS: undefined, HOLDFAST_ADMIN_TOKEN: undefined },
    });
    await using second = await first.restart({ env: { HOLDFAST_ADMIN_TOKEN: "another-secret" } });
    const ended = await holdfast(["token", "list"], { env: { HOLDFAST_DATA: second.dataDir } });
    assert.equal(ended.code, 1, ended.text);
    assert.ok(ended.stderr.includes(`taken from ${join(dataDir, "operator-token")}`), ended.stderr);
  });

  test("all of it works on the file when no server runs, and holds when one does again", async () => {
    assert.equal(await server.stop(), 0);
    const made = await done("create", "--name", "offline");
    const [kept = ""] = lines(made);
    assert.ok(made.stderr.includes(`made in ${join(server.dataDir, "holdfast.db")}`), made.stderr);
    await done("create", "--name", "brief", "--expires", "1s");
    for (const wrong of [
      ["--expires", "999999999d"],
      ["--scope", ""],
      ["--scope", "s".repeat(5000)],
    ])
      assert.equal((await token("create", "--name", "wrong", ...wrong)).code, 2);
    await storeFar(join(server.dataDir, "holdfast.db"));
    assert.match((await done("list")).stdout, /^\S+ +far +worker +default +9999-12-31T23:59:59\.999Z/m);
    assert.equal((await token("create", "--name", "offline")).code, 4);
    const [gone = ""] = lines(await done("create", "--name", "short-lived"));
    const [rotated = ""] = lines(await done("rotate", "offline"));
    const listed = await until(async () => {
      const { stdout } = await done("list");
      return stdout.includes("expired") ? stdout : undefined;
    }, "the brief one is marked");
    assert.match(listed, /^\S+ +brief +worker +default +expired 2\d{3}-/m);
    assert.match(listed, /^\S+ +offline +worker +default +never +\*$/m);
    await done("revoke", "short-lived");
    assert.equal((await token("revoke", "short-lived")).code, 3);
    assert.ok(rowsOf(await done("list", "--json")).some(({ name }) => name === "offline"));
    assert.equal(statSync(join(server.dataDir, "holdfast.db")).mode & 0o777, 0o600);
    server = await server.restart();
    const seen = await Promise.all([rotated, kept, gone].map((secret) => statusOf(server.url, secret)));
    assert.deepEqual(seen, [200, 401, 401]);
    const audit = readFileSync(join(server.dataDir, "operator-token"), "utf8").trim();
    assert.equal(await statusOf(server.url, audit, "/audit"), 200);
    assert.match((await done("list")).stdout, /^\S+ +far +worker +default +9999-12-31T23:59:59\.999Z/m);
    await done("revoke", "far");
  });
});

/** A token that expires later than any date can say: only a file of another hand has one. */
async function storeFar(file: string): Promise<void> {
  const store = await openStore(`sqlite:${file}`);
  const wish = { name: "far", space: "default", role: "worker", scopes: ["*"], reentrant: false } as const;
  const act = { by: "test", wallAt: Date.now() };
  await new Tokens(store, policyDefault, []).create({ ...wish, expiresInMs: 999_999_999 * 86_400_000 }, act);
  await store.close();
}

describe("holdfast", { concurrency: 3 }, () => {
  const help: [args: string[], says: RegExp[]][] = [
    [["--help"], [/serve/, /backup/, /restore/, /token/, /One live owner per job/]],
    [
      ["serve", "--help"],
      [/--port <number>.*4280/, /--data <dir>/, /memory:/, /--tls-cert/, /Example:/],
    ],
    [
      ["restore", "--help"],
      [/--no-wait/, /--wait <duration>/, /Example:/],
    ],
    [
      ["token", "create", "--help"],
      [/--scope <pattern/, /--reentrant/, /--expires/, /Example:/],
    ],
    [["--version"], [/^\d+\.\d+\.\d+$/m]],
  ];
  for (const [args, says] of help)
    test(`${args.join(" ")} says what there is`, async () => {
      const ended = await holdfast(args);
      assert.equal(ended.code, 0, ended.text);
      for (const expected of says) assert.match(ended.stdout, expected);
    });

  const wrong: [args: string[], says: RegExp][] = [
    [["serv"], /unknown command 'serv'[\s\S]*Did you mean serve\?/],
    [["token", "lst"], /unknown command 'lst'[\s\S]*Did you mean list\?/],
    [["serve", "--prt", "1"], /unknown option '--prt'[\s\S]*Did you mean --port\?/],
    [["backup"], /missing required argument 'file'/],
    [["serve", "now"], /too many arguments/],
    [[], /Usage: holdfast/],
    [["token"], /Usage: holdfast token/],
  ];
  for (const [args, says] of wrong)
    test(`${["holdfast", ...args].join(" ")}: exit 2 and what was meant`, async () => {
      const ended = await holdfast(args);
      assert.equal(ended.code, 2, ended.text);
      assert.match(ended.stderr, says);
    });
});
