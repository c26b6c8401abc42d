// Starting: what is said when all is well, where the first token goes, and that everything that can be wrong ends
// in one clear line and the exit code of its kind, never in a stack trace.
import assert from "node:assert/strict";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { startServer, temporaryDir } from "./server.js";
import { Client, logLines } from "./system-client.js";
import { type Ended, holdfast, runToEnd } from "./system-program.js";

const noTokens = { HOLDFAST_TOKENS: undefined, HOLDFAST_ADMIN_TOKEN: undefined };

describe("the first start", { concurrency: 3 }, () => {
  test("prints one block with a token that works, keeps it for its user alone, and never prints it again", async () => {
    await using server = await startServer({ env: noTokens });
    const block = server.stdout();
    assert.match(block, new RegExp(`^  URL +${server.url} `, "m"));
    assert.ok(block.includes(join(server.dataDir, "holdfast.db")), block);
    const [token = ""] = /hf_\w+/.exec(block) ?? [];
    assert.match(block, new RegExp(`^  Token +${token}$`, "m"));
    const file = join(server.dataDir, "operator-token");
    assert.ok(block.includes(file));
    assert.equal(readFileSync(file, "utf8").trim(), token);
    assert.equal(statSync(file).mode & 0o777, 0o600);
    assert.equal(statSync(join(server.dataDir, "holdfast.db")).mode & 0o777, 0o600);
    await pasteCurl(block, "acquired");

    const client = new Client(server.url, token);
    assert.equal((await client.get("/whoami")).status, 200);
    client.close();
    assert.equal(await server.stop(), 0);
    assert.ok(logLines(server).length >= 3, "the log is JSON on standard error");
    assert.ok(!server.stderr().includes(token));

    await using again = await server.restart();
    assert.ok(!(again.stdout() + again.stderr()).includes(token), "it is shown once");
    assert.ok(again.stdout().includes(file), "but where it is kept is said");
    await pasteCurl(again.stdout(), "held");
  });

  test("a data directory that is new is closed to others", async () => {
    const dataDir = join(temporaryDir("holdfast-new-"), "a", "b");
    mkdirSync(join(dataDir, ".."), { recursive: true });
    await using server = await startServer({ dataDir, cwd: "/", env: noTokens });
    assert.equal(statSync(dataDir).mode & 0o777, 0o700);
    const again = await holdfast(["serve", "--port", String(server.port)], {
      env: { HOLDFAST_DATA: dataDir },
    });
    refusedWith(again, 5, new RegExp(`${dataDir}/holdfast.db is in use by another Holdfast process`));
    assert.ok(again.text.includes(`process ${server.pid}`), again.text);
    const [token] = /hf_\w+/.exec(server.stdout()) ?? [];
    assert.equal(
      readFileSync(join(dataDir, "operator-token"), "utf8").trim(),
      token,
      "the token is as it was",
    );

    const elsewhere = temporaryDir("holdfast-port-");
    const sameport = await holdfast(["serve", "--port", String(server.port), "--data", elsewhere]);
    refusedWith(sameport, 5, new RegExp(`port ${server.port} on 127.0.0.1 is in use`));
    assert.deepEqual(readdirSync(elsewhere), [], "nothing was made");
    await using next = await startServer({ dataDir: elsewhere, env: noTokens });
    assert.match(next.stdout(), /hf_\w+/);
  });

  test("with tokens that were given, the one that an earlier start made is not valid", async () => {
    await using first = await startServer({ env: noTokens });
    const token = readFileSync(join(first.dataDir, "operator-token"), "utf8").trim();
    const statusOf = async (url: string): Promise<number> => {
      const client = new Client(url, token);
      const { status } = await client.get("/whoami");
      client.close();
      return status;
    };
    assert.equal(await statusOf(first.url), 200);
    await using given = await first.restart({ env: { ...noTokens, HOLDFAST_TOKENS: "a:secret-a" } });
    assert.equal(await statusOf(given.url), 401);
    assert.ok(!given.stdout().includes("operator-token"), given.stdout());
    assert.match(given.stderr(), /the kept operator token is not valid/);
    await using again = await given.restart({ env: noTokens });
    assert.equal(await statusOf(again.url), 200);
  });

  test("with tokens that were given, the line to try names one that is there", async () => {
    await using given = await startServer({ tokens: "eye:secret-e:observer,runner-1:secret-a" });
    assert.match(given.stdout(), /Bearer \$HOLDFAST_ADMIN_TOKEN"/);
    await using named = await given.restart({ env: { HOLDFAST_ADMIN_TOKEN: undefined } });
    assert.match(named.stdout(), /Bearer <secret of runner-1>"/);
  });

  test("warns of what may not be meant: plain HTTP for all, a setting that is none, an empty file", async () => {
    const dataDir = temporaryDir("holdfast-warned-");
    writeFileSync(join(dataDir, "holdfast.db"), "");
    const env = { HOLDFAST_HOST: "0.0.0.0", HOLDFAST_PROT: "1", HOLDFAST_CONNECTIONS_MAX: "1000000" };
    await using server = await startServer({ dataDir, env });
    const { port } = server;
    assert.match(server.stdout(), new RegExp(`curl -X POST http://127.0.0.1:${port}/locks/try-me/acquire`));
    assert.match(server.stdout(), /on every address of this machine \(0\.0\.0\.0\)/);
    assert.equal(await server.stop(), 0);
    const warned = logLines(server).filter(({ level }) => level === 40);
    for (const says of [
      /plain HTTP beyond loopback/,
      /PROT .*did you mean HOLDFAST_PORT/,
      /empty: it begins anew/,
    ])
      assert.ok(
        warned.some(({ msg }) => says.test(String(msg))),
        `${says}: ${server.stderr()}`,
      );
  });

  test("memory: keeps nothing, and says where the data is", async () => {
    const env = { HOLDFAST_STORE: "memory:" };
    await using server = await startServer({ env });
    assert.match(server.stdout(), /^ {2}Data +.*memory/m);
    const client = new Client(server.url, "secret-a");
    assert.equal((await client.acquire("gone")).body.fencing_token, 1);
    await using again = await server.restart();
    assert.equal((await client.look("gone")).body.fencing_token, 0);
    client.close();
    assert.equal(await again.stop(), 0);
  });
});

describe("a start that cannot be", { concurrency: 4 }, () => {
  const secret = "sup3r-s3cret-value";
  // One of each way to be told; src/config.test.ts has the others.
  const rows: [what: string, args: string[], env: Record<string, string>, says: RegExp][] = [
    ["a port that is none", ["--port", "eighty"], {}, /--port.*eighty.*whole number from 0 to 65535/],
    ["tokens without a name", [], { HOLDFAST_TOKENS: secret }, /HOLDFAST_TOKENS entry 1: write name:secret/],
    ["listening to all without a token", ["--host", "0.0.0.0"], {}, /0\.0\.0\.0 is reachable by others/],
    ["a certificate that is not there", ["--tls-cert", "x", "--tls-key", "y"], {}, /x cannot be read/],
    [
      "a switch that is neither on nor off",
      [],
      { HOLDFAST_TRUST_PROXY: "maybe" },
      /TRUST_PROXY=maybe: use 1/,
    ],
    [
      "an origin that is none",
      [],
      { HOLDFAST_CORS_ORIGINS: "foo" },
      /HOLDFAST_CORS_ORIGINS: foo is no origin/,
    ],
    ["a flag that there is not", ["--prot", "4280"], {}, /unknown option '--prot'[\s\S]*--port/],
  ];
  for (const [what, args, env, says] of rows)
    test(`${what}: exit 2`, async () => {
      const HOLDFAST_DATA = temporaryDir("holdfast-wrong-");
      const ended = await holdfast(["serve", ...args], {
        env: { HOLDFAST_DATA, HOLDFAST_PORT: "0", ...env },
      });
      refusedWith(ended, 2, says);
      assert.ok(!ended.text.includes(secret), "the secret is not shown");
    });

  test("a file that is damaged, cut off, newer, foreign or none at all: exit 5, and it is left as it is", async () => {
    const good = temporaryDir("holdfast-good-");
    const server = await startServer({ dataDir: good });
    const client = new Client(server.url, "secret-a");
    for (let i = 0; i < 50; i++) await client.acquire(`n-${i}`, { metadata: "m".repeat(500) });
    client.close();
    assert.equal(await server.stop(), 0);
    const bytes = readFileSync(join(good, "holdfast.db"));
    const changed = (change: (copy: Buffer) => Buffer | undefined): Buffer => {
      const copy = Buffer.from(bytes);
      return change(copy) ?? copy;
    };
    const files: [what: string, content: Buffer, says: RegExp][] = [
      [
        "damaged",
        // After the first page: further on it might hit pages that are free, which does no harm.
        changed((copy) => void copy.fill(0xa5, 4096, 4096 + 6000)),
        /is damaged/,
      ],
      ["cut off", changed((copy) => copy.subarray(0, copy.length - 5000)), /is damaged/],
      // Bytes 60 and 68 of the header hold the schema version and the mark of the application.
      [
        "newer",
        changed((copy) => void copy.writeUInt32BE(99, 60)),
        /written by a newer Holdfast \(schema 99/,
      ],
      ["foreign", changed((copy) => void copy.writeUInt32BE(7, 68)), /not one of Holdfast/],
      [
        "none",
        Buffer.from("Dear diary, this is not a database at all. ".repeat(200)),
        /is not a Holdfast data file/,
      ],
    ];
    const refusals = files.map(async ([what, content, says]) => {
      const dir = temporaryDir(`holdfast-${what.replace(" ", "-")}-`);
      const file = join(dir, "holdfast.db");
      writeFileSync(file, content);
      const ended = await holdfast(["serve", "--port", "0", "--data", dir]);
      refusedWith(ended, 5, says);
      assert.ok(ended.stderr.includes(file), `${what}: ${ended.stderr}`);
      assert.ok(readFileSync(file).equals(content), `${what}: the file was changed`);
      if (what === "none") assert.deepEqual(readdirSync(dir), ["holdfast.db"], "nothing was made beside it");
    });
    await Promise.all(refusals);
  });

  test("a configured name that a stored token has: exit 2, until that is revoked", async () => {
    const dataDir = temporaryDir("holdfast-twin-");
    await using server = await startServer({ dataDir });
    assert.equal(await server.stop(), 0);
    const token = (...args: string[]): Promise<Ended> => holdfast(["token", ...args, "--data", dataDir]);
    for (const args of [
      ["--name", "far"],
      ["--name", "near", "--space", "other"],
    ])
      assert.equal((await token("create", ...args)).code, 0);
    const env = { HOLDFAST_TOKENS: "near:secret-n,far:secret-f" };
    const ended = await holdfast(["serve", "--port", "0", "--data", dataDir], { env });
    refusedWith(ended, 2, /HOLDFAST_TOKENS names far, and so does a token in the data.*token revoke far/);
    assert.equal((await token("revoke", "far")).code, 0);
    await using again = await startServer({ dataDir, env });
    assert.equal(await again.stop(), 0);
  });

  test("a directory that cannot be: exit 5", async () => {
    const file = join(temporaryDir("holdfast-file-"), "file");
    copyFileSync("/etc/hostname", file);
    for (const where of [
      ["--data", join(file, "x")],
      ["--data", file],
      ["--store", `sqlite:${file}/y.db`],
      ["--data", "/proc/holdfast"],
    ]) {
      const ended = await holdfast(["serve", "--port", "0", ...where]);
      refusedWith(ended, 5, /is no directory/);
      assert.ok(
        ended.stderr.includes(where[1]?.replace(/^sqlite:|\/[xy](\.db)?$/g, "") ?? file),
        ended.stderr,
      );
    }
  });

  test("a log without its file, a place that cannot be written: exit 5, and nothing is lost", async () => {
    const dir = temporaryDir("holdfast-orphan-");
    const log = join(dir, "holdfast.db-wal");
    writeFileSync(log, "what was acknowledged");
    const orphan = ["serve", "--port", "0", "--data", dir];
    refusedWith(
      await holdfast(orphan),
      5,
      /holdfast\.db is gone, but .*-wal is there and holds part of the data/,
    );
    writeFileSync(join(dir, "holdfast.db"), "");
    refusedWith(await holdfast(orphan), 5, /holdfast\.db is empty, but .*-wal is there/);
    assert.equal(readFileSync(log, "utf8"), "what was acknowledged");
    const closed = temporaryDir("holdfast-closed-");
    mkdirSync(join(closed, "holdfast.db.lock"));
    refusedWith(
      await holdfast(["serve", "--port", "0", "--data", closed]),
      5,
      /db\.lock cannot be opened .*write/,
    );
    const backup = await holdfast(["backup", join(closed, "no", "b.db"), "--data", closed]);
    refusedWith(backup, 2, /there is no directory .*\/no: make it first/);
  });
});

/** Runs the curl lines of the block in a shell, as they stand. */
async function pasteCurl(block: string, status: string): Promise<void> {
  const lines = block.split("\n");
  const from = lines.findIndex((line) => line.trim().startsWith("curl "));
  const { code, stdout, stderr } = await runToEnd("sh", ["-c", lines.slice(from).join("\n")]);
  assert.equal(code, 0, stderr);
  assert.equal((JSON.parse(stdout) as { status: string }).status, status, stdout);
}

function refusedWith(ended: Ended, code: number, says: RegExp): void {
  assert.equal(ended.code, code, ended.text);
  assert.match(ended.stderr, says);
  assert.match(ended.stderr, /^(?:holdfast|error): /m);
  assert.doesNotMatch(ended.text, /^\s+at .*[:(]\d+/m, "a stack trace");
  assert.equal(ended.stdout, "", "nothing was announced");
}
