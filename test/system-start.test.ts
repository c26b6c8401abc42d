// Starting: what is said when all is well, where the first token goes, and that everything that can be wrong ends
// in one clear line and the exit code of its kind, never in a stack trace.
import assert from "node:assert/strict";
import { copyFileSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
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
    // The token that it made was seen by nobody: the next start makes another and shows it.
    await using next = await startServer({ dataDir: elsewhere, env: noTokens });
    assert.match(next.stdout(), /hf_\w+/);
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
        changed((copy) => void copy.fill(0xa5, copy.length / 2, copy.length / 2 + 6000)),
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
        /damaged|not a database/,
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
    });
    await Promise.all(refusals);
  });

  test("a directory that cannot be: exit 5", async () => {
    const file = join(temporaryDir("holdfast-file-"), "file");
    copyFileSync("/etc/hostname", file);
    for (const where of [
      ["--data", join(file, "x")],
      ["--data", file],
      ["--store", `sqlite:${file}/y.db`],
    ]) {
      const ended = await holdfast(["serve", "--port", "0", ...where]);
      refusedWith(ended, 5, /is no directory/);
      assert.ok(ended.stderr.includes(file), ended.stderr);
    }
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
