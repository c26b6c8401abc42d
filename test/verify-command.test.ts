// `holdfast verify` against real servers: what it reports, that it leaves nothing behind however it ends, what it
// refuses, that it heeds a rate limit, and that a service which breaks its promises does not get away with it.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { check } from "../src/verify/check.js";
import { resultFromJson } from "../src/verify/report/json.js";
import type { Result } from "../src/verify/result.js";
import { adminToken, call, freePort, mainFile, type Server, startServer, temporaryDir } from "./server.js";
import { type Ended, holdfast } from "./system-program.js";

interface Summary extends Pick<Result, "outcome" | "seed" | "leftBehind"> {
  readonly workloads: readonly { readonly workload: string; readonly history?: unknown }[];
}

const reports = temporaryDir("holdfast-verify-");
const verify = (url: string, ...more: string[]): Promise<Ended> =>
  holdfast(["verify", "--url", url, ...more], { env: { HOLDFAST_TOKEN: "secret-a" }, cwd: reports });
const reportOf = (name: string): Result => resultFromJson(readFileSync(join(reports, name), "utf8"));

async function namesHeld(server: Server): Promise<string[]> {
  const path = "/locks?prefix=verify-&limit=1000";
  const { body } = await call<{ locks: { name: string }[] }>(server, "GET", path, { token: adminToken });
  return body.locks.map(({ name }) => name);
}

describe("holdfast verify", () => {
  let server: Server;
  before(async () => {
    server = await startServer();
  });
  after(() => server[Symbol.asyncDispose]());

  test("finds no violation in a server that keeps its promises, and says what it did", async () => {
    const files = ["--report", "all.html", "all.json"];
    const tokens = ["--token", "secret-a", "secret-b"];
    const ended = await verify(server.url, "--duration", "10s", ...files, ...tokens);
    const { outcome, seed, workloads, principals } = reportOf("all.json");
    assert.equal(ended.code, 0, ended.text);
    assert.equal(outcome, "ok");
    assert.deepEqual(principals, ["runner-1", "runner-2"]);
    assert.match(ended.stdout, /^workload +names +operations +lost replies +violations +unknown\nmutex +5 /);
    assert.match(
      ended.stdout,
      new RegExp(`No violation found: [\\d,]+ operations in 1\\d s, seed ${seed}\n$`),
    );
    const names = "mutex retry-storm queue watch-replay sessions tokens counter";
    assert.equal(workloads.map(({ workload }) => workload).join(" "), names);
    for (const { history, verdict } of workloads) assert.deepEqual(check(history), verdict);
    assert.match(readFileSync(join(reports, "all.html"), "utf8"), /<strong>No violation found<\/strong>/);
    assert.deepEqual(await namesHeld(server), []);
    assert.doesNotMatch(
      server.stderr(),
      /Warning/,
      "many waiters with one bearer token are nothing to warn of",
    );
  });

  test("names no secret in its reports", () => {
    const text =
      readFileSync(join(reports, "all.json"), "utf8") + readFileSync(join(reports, "all.html"), "utf8");
    for (const secret of [/secret-a/, /ls_[0-9a-f]{8}-/, /ss_\w{8}/]) assert.doesNotMatch(text, secret);
  });

  test("runs the workloads that are named, with the seed that is given, and prints JSON for scripts", async () => {
    const ended = await verify(
      server.url,
      "--duration",
      "2s",
      "--workloads",
      "mutex,counter",
      "--seed",
      "7",
      "--json",
    );
    const summary = JSON.parse(ended.stdout) as Summary;
    assert.equal(ended.code, 0, ended.text);
    assert.deepEqual([summary.outcome, summary.seed, summary.leftBehind], ["ok", 7, []]);
    assert.deepEqual(
      summary.workloads.map(({ workload, history }) => [workload, history]),
      [
        ["mutex", undefined],
        ["counter", undefined],
      ],
    );
  });

  test("interrupted, it lets go of everything and reports what it has", async () => {
    const args = ["verify", "--url", server.url, "--token", "secret-b", "--duration", "5m", "--json"];
    const child = spawn(process.execPath, [mainFile, ...args], {
      cwd: reports,
      stdio: ["ignore", "pipe", "pipe"],
    });
    let output = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      output += text;
    });
    while ((await namesHeld(server)).length < 5) await delay(20);
    child.kill("SIGINT");
    const [code] = await once(child, "close");
    assert.equal(code, 130, output);
    assert.deepEqual((JSON.parse(output) as Summary).leftBehind, []);
    assert.deepEqual(await namesHeld(server), []);
  });

  test("refuses another machine without --yes, and whatever else cannot work, before it begins", async () => {
    const nobody = `http://127.0.0.1:${await freePort()}`;
    const rows: [Promise<Ended>, number, RegExp][] = [
      [verify("http://locks.example:4280"), 2, /locks\.example is not this machine\. .* add --yes/],
      [verify("http://127.0.0.1.example"), 2, /is not this machine/],
      [verify("http://locks.invalid:4280", "--yes"), 5, /cannot reach http:\/\/locks\.invalid:4280/],
      [verify("ftp://localhost"), 2, /is no URL of a server/],
      [verify(nobody), 5, /cannot reach .*ECONNREFUSED.* Is it running\?/],
      [verify(server.url, "--workloads", "mutex,nothing"), 2, /"nothing": there are mutex, retry-storm, /],
      [verify(server.url, "--report", "x.pdf"), 2, /name it \.html for people or \.json/],
      [verify(server.url, "--report", "/nowhere/x.html"), 2, /cannot write into \/nowhere/],
      [verify(server.url, "--duration", "soon"), 2, /--duration "soon"/],
      [verify(server.url, "--seed", "-1"), 2, /--seed "-1"/],
      [verify(server.url, "--token", "wrong"), 2, /refuses \(401\)/],
      [
        verify(server.url, "--token", "secret-v"),
        2,
        /refuses \(403\).* needs a worker's token for names as verify-/,
      ],
    ];
    for (const [ended, code, says] of rows) {
      const { code: found, stderr } = await ended;
      assert.match(stderr, says);
      assert.equal(found, code, stderr);
    }
  });
});

test("a rate limit is heeded: few calls are refused, and none of them leaves a mark", async () => {
  await using server = await startServer({ env: { HOLDFAST_RATE_LIMIT: "60" } });
  await verify(server.url, "--duration", "8s", "--workloads", "mutex,tokens", "--report", "slow.json");
  const { workloads, outcome, leftBehind } = reportOf("slow.json");
  const replies = workloads.flatMap(({ history }) => history.operations.map(({ reply }) => reply));
  const refused = replies.filter((reply) => reply.kind === "refused" && reply.code === "rate_limited").length;
  assert.ok(refused > 0 && refused < replies.length / 5, `${refused} of ${replies.length}`);
  assert.ok(outcome !== "violated" && outcome !== "unknown", outcome);
  assert.deepEqual(leftBehind, []);
});

test("a service that grants a name twice is found out", async () => {
  let token = 0;
  const answer = ({ method = "", url = "" }: IncomingMessage): object | null => {
    if (url === "/whoami") return { principal: "anybody" };
    if (url.startsWith("/locks?")) return { locks: [] };
    if (method === "GET") return { status: "held", fencing_token: token };
    if (url.endsWith("/release")) return null;
    return { status: "acquired", lease_id: `lease-${++token}`, fencing_token: token, expires_in_ms: 3000 };
  };
  const generous = createServer((request, response) => {
    request.resume();
    response.setHeader("content-type", "application/json").end(JSON.stringify(answer(request)));
  }).listen(0, "127.0.0.1");
  await once(generous, "listening");
  const address = generous.address();
  assert.ok(address !== null && typeof address === "object");
  try {
    const url = `http://127.0.0.1:${address.port}`;
    const ended = await verify(url, "--duration", "2s", "--workloads", "mutex", "--report", "bad.html");
    assert.equal(ended.code, 1, ended.text);
    assert.match(ended.stdout, /^I\d+ mutex, verify-\w+\/mutex\/n\d: /);
    assert.match(ended.stdout, /\nViolated: /);
    const page = readFileSync(join(reports, "bad.html"), "utf8");
    assert.match(page, /<div class="verdict violated"><strong>\d+ violations?<\/strong>/);
    assert.ok(page.indexOf("<h2>Violations") < page.indexOf("<h2>Workloads"));
  } finally {
    generous.closeAllConnections();
    generous.close();
  }
});
