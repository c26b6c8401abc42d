// The client's suite in every runtime that is promised: Node 20, 22 and 24, Bun, Deno, and a browser whose page comes
// from another origin than the server. Node's others, Bun and Deno come from the npm registry, chromium from Debian.
import assert from "node:assert/strict";
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { join, normalize } from "node:path";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { freePort, type Server, startServer, temporaryDir } from "../server.js";
import { fetchBun, fetchDeno, fetchNode } from "./fetch.js";
import type { Given, Result } from "./suite.js";

const RUN_TIMEOUT_MS = 120_000;
const CASES = 9;

const execute = promisify(execFile);
const built = fileURLToPath(new URL("../../", import.meta.url));
const runFile = join(built, "test", "runtimes", "run.js");

let server: Server;
let pagePort: number;

before(async () => {
  pagePort = await freePort();
  server = await startServer({ env: { HOLDFAST_CORS_ORIGINS: `http://127.0.0.1:${pagePort}` } });
});
after(() => server[Symbol.asyncDispose]());

const given = (prefix: string, hasThreads: boolean): Given => ({
  url: server.url,
  token: "secret-a",
  rivalToken: "secret-b",
  prefix,
  hasThreads,
});

function assertAllPassed(results: readonly Result[]): void {
  const failed = results.filter(({ problem }) => problem !== null);
  assert.deepEqual(failed, [], failed.map(({ name, problem }) => `${name}: ${problem}`).join("\n"));
  assert.equal(results.length, CASES);
}

/** Runs the suite to its end in a runtime that is given a file and arguments. */
async function runIn(command: string, before: readonly string[], task: Given): Promise<void> {
  const args = [...before, runFile, JSON.stringify(task)];
  const { stdout } = await execute(command, args, { timeout: RUN_TIMEOUT_MS, killSignal: "SIGKILL" });
  assertAllPassed(JSON.parse(stdout.trim().split("\n").at(-1) ?? "") as Result[]);
}

describe("the client's suite", () => {
  for (const major of [20, 22, 24])
    test(`in Node ${major}`, async () => {
      const isThis = process.versions.node.startsWith(`${major}.`);
      const node = isThis ? process.execPath : await fetchNode(major);
      const { stdout } = await execute(node, ["--version"]);
      assert.ok(stdout.startsWith(`v${major}.`), stdout);
      await runIn(node, [], given(`node-${major}`, true));
    });

  test("in Bun", async () => {
    await runIn(await fetchBun(), ["run"], given("bun", true));
  });

  test("in Deno", async () => {
    await runIn(await fetchDeno(), ["run", "--allow-net=127.0.0.1", "--allow-read"], given("deno", true));
  });

  test("in chromium, on a page from another origin", async () => {
    assertAllPassed(await inChromium(given("chromium", false)));
  });
});

/** Opens a page that runs the suite and waits for what it reports. */
async function inChromium(task: Given): Promise<Result[]> {
  const html = `<!doctype html><script type="module">
    import { runSuite } from "/test/runtimes/suite.js";
    const results = await runSuite(${JSON.stringify(task)});
    await fetch("/results", { method: "POST", body: JSON.stringify(results) });
  </script>`;
  let tell: (results: Result[]) => void = () => undefined;
  const reported = new Promise<Result[]>((resolve) => {
    tell = resolve;
  });
  const pages = createServer(async (request, response) => {
    if (request.method !== "POST") return serveFile(request, response, html);
    let text = "";
    for await (const part of request.setEncoding("utf8")) text += part;
    response.end();
    tell(JSON.parse(text) as Result[]);
  }).listen(pagePort, "127.0.0.1");
  await once(pages, "listening");
  const chromium = startChromium(`http://127.0.0.1:${pagePort}/`);
  try {
    return await Promise.race([reported, chromium.failed]);
  } finally {
    await chromium.stop();
    pages.close();
    pages.closeAllConnections();
  }
}

function serveFile({ url = "/" }: IncomingMessage, response: ServerResponse, html: string): void {
  if (url === "/") return void response.setHeader("content-type", "text/html").end(html);
  const path = normalize(decodeURIComponent(url));
  try {
    const text = readFileSync(join(built, path), "utf8");
    response.setHeader("content-type", "text/javascript").end(text);
  } catch {
    response.writeHead(404).end();
  }
}

function startChromium(url: string) {
  const args = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    `--user-data-dir=${temporaryDir("holdfast-chromium-")}`,
    url,
  ];
  const child = spawn("chromium", args, { stdio: ["ignore", "ignore", "pipe"], detached: true });
  let stderr = "";
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  const kill = (): void => killGroup(child);
  process.once("exit", kill);
  const failed = new Promise<never>((_, reject) => {
    const fail = (why: string): void => reject(new Error(`${why}\n${stderr.slice(-2000)}`));
    child.once("error", (error) =>
      fail(`chromium cannot be started (apt-get install chromium): ${error.message}`),
    );
    child.once("exit", (code) => fail(`chromium ended (${code}) before the page reported`));
    setTimeout(() => fail(`no report within ${RUN_TIMEOUT_MS} ms`), RUN_TIMEOUT_MS).unref();
  });
  return {
    failed,
    async stop(): Promise<void> {
      process.off("exit", kill);
      failed.catch(() => undefined);
      if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
      const ended = once(child, "exit");
      kill();
      await ended;
    },
  };
}

function killGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, "SIGKILL");
  } catch {
    // nothing left of it
  }
}
