// The steps of deploy/Dockerfile, carried out from a fresh copy of what a build would be sent: what they leave is a server that
// answers /ready, with its own health check, and nothing that it does not need.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { cpSync, existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { buildImage, type Image, stepsOf } from "./deploy-image.js";
import { call, startServer, temporaryDir } from "./server.js";

const root = fileURLToPath(new URL("../../", import.meta.url));
const dockerfile = join(root, "deploy/Dockerfile");
/** The size of what is added to the base image, with the dependencies: about twice what it is. */
const bytesMax = 40 * 2 ** 20;

/** What Dockerfile.dockerignore lets through. */
function contextOf(): string {
  const lines = readFileSync(`${dockerfile}.dockerignore`, "utf8").split("\n");
  const rules = lines.filter((line) => line !== "" && !line.startsWith("#"));
  assert.equal(rules[0], "*", "nothing is sent but what is named");
  const context = temporaryDir("holdfast-context-");
  for (const rule of rules.slice(1)) {
    assert.match(rule, /^![\w.-]+$/, "a plain name");
    cpSync(join(root, rule.slice(1)), join(context, rule.slice(1)), { recursive: true });
  }
  return context;
}

const bytesIn = (folder: string): number =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0);

describe("the image", () => {
  let image: Image;
  let home: string;

  before(async () => {
    image = await buildImage(dockerfile, contextOf());
    home = join(image.root, "opt/holdfast");
  });

  test("is built without install scripts, from the lock file", () => {
    assert.ok(image.ran.includes("npm ci --ignore-scripts"), image.ran.join("\n"));
  });

  test("holds no compiler, no tests, no sources, and little", () => {
    const files = readdirSync(home, { recursive: true, encoding: "utf8" });
    assert.deepEqual(
      files.filter((file) => /^dist\/.*\.test\.|prebuilds\/(?!linux).*\.node$/.test(file)),
      [],
    );
    assert.ok(!existsSync(join(home, "node_modules/typescript")));
    assert.ok(!existsSync(join(home, "src")));
    assert.ok(bytesIn(home) < bytesMax, `${bytesIn(home)} bytes`);
  });

  test("does not run as root and keeps its data in a folder of its own", () => {
    assert.equal(image.user, "node");
    assert.equal(statSync(join(image.root, image.env["HOLDFAST_DATA"] ?? "-")).mode & 0o777, 0o700);
    assert.deepEqual(image.ports, [image.env["HOLDFAST_PORT"]]);
  });

  test("serves, is found ready by its own health check, and is not once it has gone", async () => {
    const [, program = ""] = image.entrypoint;
    assert.deepEqual(image.cmd, ["serve"]);
    const server = await startServer({
      program: [process.execPath, join(image.root, program)],
      dataDir: join(image.root, image.env["HOLDFAST_DATA"] ?? "-"),
      env: { NODE_ENV: image.env["NODE_ENV"] },
    });
    const { body } = await call(server, "POST", "/locks/in-the-image/acquire", {
      token: "secret-a",
      body: { ttl_seconds: 60 },
    });
    assert.equal(body["status"], "acquired");
    assert.equal(await checked(image, server.port), 0);
    await server.stop();
    assert.equal(await checked(image, server.port), 1);
  });
});

/** The exit code of the image's health check. */
function checked({ healthcheck: [, ...args] }: Image, port: number): Promise<number | null> {
  const child = spawn(process.execPath, args, { env: { HOLDFAST_PORT: String(port) }, stdio: "inherit" });
  return new Promise((resolve) => child.once("exit", resolve));
}

test("the reader joins lines and leaves comments out", () => {
  assert.deepEqual(stepsOf('FROM a AS b\n# no\nCMD ["x", \\\n  "y"]\n'), [
    { word: "FROM", rest: "a AS b" },
    { word: "CMD", rest: '["x", "y"]' },
  ]);
  assert.throws(() => stepsOf("from a"), /not an instruction/);
});
