// What users get: the packed tarball, installed without install scripts into an empty directory, must serve on
// every supported Node, and hold the program and nothing else. Uses the dist/ that the test command has built
// (`--ignore-scripts` also keeps `npm pack` from rebuilding it under the other tests) and the npm registry.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { copyFileSync, readdirSync } from "node:fs";
import { basename, delimiter, dirname, join } from "node:path";
import { before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { fetchNode, npm } from "./runtimes/fetch.js";
import { call, type Server, startServer, temporaryDir } from "./server.js";

const START_WITHIN_MS = 120_000; // npx installs before it starts

const root = fileURLToPath(new URL("../../", import.meta.url));
const execute = promisify(execFile);

// The npm registry carries Node itself, packed per platform; we fetch the one that CI runs on.
const canFetchNode = process.platform === "linux" && process.arch === "x64";
const runningMajor = Number(process.versions.node.split(".")[0]);
const otherMajors = canFetchNode ? [20, 22, 24].filter((major) => major !== runningMajor) : [];
const onlyHere = canFetchNode ? "" : " (the only Node tested on this platform)";

describe("the package", () => {
  const packed = temporaryDir("holdfast-pack-");
  const installed = temporaryDir("holdfast-installed-");
  let tarball = "";

  before(async () => {
    await npm(root, "pack", "--ignore-scripts", "--pack-destination", packed);
    const [name, ...others] = readdirSync(packed);
    assert.ok(name !== undefined && others.length === 0, `one tarball, not ${[name, ...others]}`);
    tarball = join(packed, name);
    await npm(installed, "init", "-y");
    // Strict: nothing that is installed may ask for a newer Node than we do. Overrides do not reach this far.
    await npm(installed, "install", "--ignore-scripts", "--engine-strict", tarball);
  });

  test("holds the program and its documents, no tests and no sources", async () => {
    const { stdout } = await execute("tar", ["-tzf", tarball]);
    const files = stdout
      .trim()
      .split("\n")
      .map((file) => file.replace(/^package\//, ""));
    const needed = ["package.json", "README.md", "LICENSE", "CHANGELOG.md", "dist/bin/holdfast.cjs"];
    const linked = ["CONTRIBUTING.md", "SECURITY.md", "docs/operations.md", "deploy/kubernetes/shared.yaml"];
    assert.deepEqual(
      [...needed, ...linked].filter((file) => !files.includes(file)),
      [],
      "missing",
    );
    const isUnwanted = (file: string) =>
      /(?:^|\/)(?:test|bench|scripts|node_modules)\/|\.test\./.test(file) ||
      (file.endsWith(".ts") && !file.endsWith(".d.ts"));
    assert.deepEqual(files.filter(isUnwanted), [], "unwanted");
  });

  test(`npx holdfast serve, installed, on Node ${process.version}${onlyHere}`, async () => {
    await using server = await startServer({
      program: ["npx", "--no-install", "holdfast"],
      cwd: installed,
      readyWithinMs: START_WITHIN_MS,
    });
    await serves(server);
  });

  test(`npx ./holdfast-*.tgz serve in an empty directory on Node ${process.version}${onlyHere}`, async () => {
    await using server = await serveByNpx(tarball, dirname(process.execPath));
    await serves(server);
  });

  for (const major of otherMajors) {
    test(`the installed program and npx ./holdfast-*.tgz serve on Node ${major}`, async () => {
      const node = await fetchNode(major);
      const { stdout: version } = await execute(node, ["--version"]);
      assert.ok(version.startsWith(`v${major}.`), version);
      {
        const bin = join(installed, "node_modules", ".bin", "holdfast");
        await using server = await startServer({ program: [node, bin], cwd: installed });
        await serves(server);
        assert.equal(await server.stop(), 0);
      }
      await using server = await serveByNpx(tarball, dirname(node));
      await serves(server);
    });
  }
});

/** As a stranger would: an empty directory but for the tarball, an empty npm cache, no install scripts. */
async function serveByNpx(tarball: string, nodeDir: string): Promise<Server> {
  const empty = temporaryDir("holdfast-empty-");
  copyFileSync(tarball, join(empty, basename(tarball)));
  return startServer({
    program: ["npx", "--yes", "--ignore-scripts", `./${basename(tarball)}`],
    cwd: empty,
    env: {
      PATH: [nodeDir, process.env.PATH].join(delimiter),
      // npx keeps what it installed in the cache under the tarball's name: a shared one might hold an old build.
      npm_config_cache: temporaryDir("holdfast-npm-cache-"),
    },
    readyWithinMs: START_WITHIN_MS,
  });
}

async function serves(server: Server): Promise<void> {
  const health = await call(server, "GET", "/health");
  assert.equal(health.status, 200);
  const acquired = await call(server, "POST", "/locks/packaged/acquire", {
    token: "secret-a",
    body: { ttl_seconds: 60 },
  });
  assert.equal(acquired.status, 200, JSON.stringify(acquired.body));
  assert.equal(acquired.body.status, "acquired");
}
