// TLS with a certificate made here: the whole API over https, the command line too, and a start that says what is
// wrong with a certificate or a key.
import assert from "node:assert/strict";
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import { adminToken, mainFile, temporaryDir } from "./server.js";
import { Client, eventOf, until, watching } from "./system-client.js";
import { holdfast } from "./system-program.js";

describe("TLS", { concurrency: 1 }, () => {
  const dir = temporaryDir("holdfast-tls-");
  const [cert, key] = selfSigned(dir, "server");
  const children: ChildProcess[] = [];
  after(() => {
    for (const child of children) child.kill("SIGKILL");
  });

  test("serves https, and only https", async () => {
    const data = join(dir, "data");
    const child = spawn(
      process.execPath,
      [mainFile, "serve", "--port", "0", "--data", data, "--tls-cert", cert, "--tls-key", key],
      {
        env: {
          PATH: process.env["PATH"],
          HOLDFAST_TOKENS: "runner-1:secret-a",
          HOLDFAST_ADMIN_TOKEN: adminToken,
        },
        stdio: ["ignore", "pipe", "inherit"],
      },
    );
    children.push(child);
    let block = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      block += text;
    });
    const url = await until(() => /URL +(https:\S+)/.exec(block)?.[1], "the block is printed", 30_000);
    const client = new Client(url, "secret-a", { ca: readFileSync(cert, "utf8") });
    const { body } = await client.acquire("over-tls");
    assert.equal(body.status, "acquired");
    assert.equal((await client.renew("over-tls", body.lease_id)).status, 200);
    const stream = watching(client, "/locks/over-tls/watch");
    assert.equal((await eventOf(stream, "snapshot")).data.name, "over-tls");
    await stream.return(undefined);
    const stranger = new Client(url, "secret-a");
    await assert.rejects(stranger.look("over-tls"), /self-signed|certificate/);
    const plain = new Client(url.replace("https:", "http:"), "secret-a");
    await assert.rejects(plain.look("over-tls"), "no answer to plain http");

    const env = { HOLDFAST_DATA: data, HOLDFAST_TOKEN: adminToken };
    const distrust = await holdfast(["token", "list"], { env });
    assert.equal(distrust.code, 5, distrust.text);
    assert.match(distrust.stderr, /certificate is not trusted \(\w+\)\. .*NODE_EXTRA_CA_CERTS/);
    const trust = await holdfast(["token", "list"], { env: { ...env, NODE_EXTRA_CA_CERTS: cert } });
    assert.equal(trust.code, 0, trust.text);
    const looked = await holdfast(["status"], { env: { ...env, NODE_EXTRA_CA_CERTS: cert } });
    assert.equal(looked.code, 0, looked.text);
    const unsure = await holdfast(["status"], { env });
    assert.equal(unsure.code, 5, unsure.text);
    assert.match(
      unsure.stderr,
      /No reply from https:.*certificate is not trusted \(\w+\)\. .*NODE_EXTRA_CA_CERTS/,
    );
    for (const caller of [client, stranger, plain]) caller.close();
    child.kill("SIGTERM");
    const [code] = await once(child, "exit");
    assert.equal(code, 0);
  });

  test("a certificate or key that cannot work is told at the start: exit 2", async () => {
    const [, otherKey] = selfSigned(dir, "other");
    const garbage = join(dir, "garbage.pem");
    writeFileSync(garbage, "not a certificate\n");
    const starts = [
      [garbage, key],
      [cert, garbage],
      [cert, otherKey],
    ].map(async ([useCert = "", useKey = ""]) => {
      const args = [
        "serve",
        "--port",
        "0",
        "--data",
        join(dir, "unused"),
        "--tls-cert",
        useCert,
        "--tls-key",
        useKey,
      ];
      const ended = await holdfast(args);
      assert.equal(ended.code, 2, ended.text);
      assert.match(ended.stderr, /are not a certificate and its key in PEM/);
      assert.ok(!ended.stderr.includes("PRIVATE KEY"));
    });
    await Promise.all(starts);
  });
});

function selfSigned(dir: string, name: string): [cert: string, key: string] {
  const [cert, key] = [join(dir, `${name}.pem`), join(dir, `${name}.key`)];
  const made = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  const about = [
    "-days",
    "2",
    "-subj",
    "/CN=localhost",
    "-addext",
    "subjectAltName=IP:127.0.0.1,DNS:localhost",
  ];
  execFileSync("openssl", [...made, ...about, "-keyout", key, "-out", cert], { stdio: "pipe" });
  return [cert, key];
}
