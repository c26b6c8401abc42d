// The command line as people and scripts use it: tokens against a running server and against the file when none
// runs, help, suggestions, and the exit codes 0 done, 2 wrong use, 3 not found, 4 conflict, 5 storage or network,
// 1 anything else.
import assert from "node:assert/strict";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { freePort, type Server, startServer, temporaryDir } from "./server.js";
import { Client } from "./system-client.js";
import { type Ended, holdfast } from "./system-program.js";

interface TokenRow {
  readonly id: string;
  readonly name: string;
  readonly token?: string;
}

const lines = ({ stdout }: Ended): string[] => stdout.trimEnd().split("\n");
const rowsOf = (ended: Ended): TokenRow[] => (JSON.parse(ended.stdout) as { tokens: TokenRow[] }).tokens;

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
    assert.match(made.stderr, /shown this once/);
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
    assert.match(list.stdout, /ci +worker +deploy-\*/);
    assert.ok(![list, json].some(({ stdout }) => stdout.includes(secret)), "a list shows no secret");
    assert.deepEqual(
      rowsOf(json).map(({ name }) => name),
      ["ci"],
    );
    assert.equal(twice.code, 4, twice.text);
    assert.match(twice.stderr, /exists/);
  });

  test("rotate replaces the secret, revoke ends it, by name or id", async () => {
    const first = JSON.parse((await done("create", "--name", "worker-1", "--json")).stdout) as TokenRow;
    const [second = ""] = lines(await done("rotate", "worker-1"));
    assert.deepEqual(
      [await statusOf(server.url, first.token ?? ""), await statusOf(server.url, second)],
      [401, 200],
    );
    assert.match((await done("revoke", first.id)).stdout, /Revoked/);
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
      [2, /required option '--name/, ["create"], env],
      [2, /missing required argument 'id'/, ["revoke"], env],
      [2, /no token for/, ["list", "--server", closed], env],
      [2, /is no URL/, ["list", "--server", "nonsense"], env],
      [
        5,
        /cannot reach .*ECONNREFUSED.*holdfast serve/,
        ["list", "--server", closed],
        { HOLDFAST_TOKEN: "x" },
      ],
      [2, /no token for http:\/\/127.0.0.1:4280/, ["list"], elsewhere],
      [1, /unknown, revoked or expired/, ["list"], { ...env, HOLDFAST_TOKEN: "wrong" }],
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

  test("all of it works on the file when no server runs, and holds when one does again", async () => {
    assert.equal(await server.stop(), 0);
    const [kept = ""] = lines(await done("create", "--name", "offline"));
    assert.equal((await token("create", "--name", "offline")).code, 4);
    const [gone = ""] = lines(await done("create", "--name", "short-lived"));
    const [rotated = ""] = lines(await done("rotate", "offline"));
    await done("revoke", "short-lived");
    assert.equal((await token("revoke", "short-lived")).code, 3);
    assert.ok(rowsOf(await done("list", "--json")).some(({ name }) => name === "offline"));
    assert.equal(statSync(join(server.dataDir, "holdfast.db")).mode & 0o777, 0o600);
    server = await server.restart();
    const seen = await Promise.all([rotated, kept, gone].map((secret) => statusOf(server.url, secret)));
    assert.deepEqual(seen, [200, 401, 401]);
    const audit = readFileSync(join(server.dataDir, "operator-token"), "utf8").trim();
    assert.equal(await statusOf(server.url, audit, "/audit"), 200);
  });
});

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
