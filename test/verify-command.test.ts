// `holdfast verify` against real servers: what it reports, that it leaves nothing behind however it ends, what it
// refuses, what it says when the server or a token goes away, that it heeds a rate limit, and that a service which breaks its promises does not get away with it.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type RequestListener } from "node:http";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { check } from "../src/verify/check.js";
import { resultFromJson } from "../src/verify/report/json.js";
import { situations } from "../src/verify/report/situations.js";
import { situationText } from "../src/verify/report/words.js";
import type { Result } from "../src/verify/result.js";
import { workloads } from "../src/verify/workloads/all.js";
import { adminToken, call, freePort, mainFile, type Server, startServer, temporaryDir } from "./server.js";
import { type Ended, holdfast } from "./system-program.js";

interface Summary extends Pick<Result, "outcome" | "seed" | "leftBehind"> {
  readonly workloads: readonly { readonly workload: string; readonly history?: unknown }[];
}

const reports = temporaryDir("holdfast-verify-");
const verify = (url: string, ...more: string[]): Promise<Ended> =>
  holdfast(["verify", "--url", url, ...more], { env: { HOLDFAST_TOKEN: "secret-a" }, cwd: reports });
const reportOf = (name: string): Result => resultFromJson(readFileSync(join(reports, name), "utf8"));

/** A bearer token of a worker in a space of its own or the usual one, made by the operator. */
async function workerToken(
  server: Server,
  name: string,
  { space = "default", ...more }: { readonly space?: string; readonly scopes?: readonly string[] } = {},
): Promise<Made> {
  const { body } = await call<Made>(server, "POST", "/tokens", {
    token: adminToken,
    headers: { "holdfast-space": space },
    body: { name, role: "worker", ...more },
  });
  return body;
}

interface Made {
  readonly id: string;
  readonly token: string;
}

async function untilHeld(server: Server, count: number): Promise<void> {
  while ((await namesHeld(server)).length < count) await delay(20);
}

async function namesHeld(server: Server): Promise<string[]> {
  const { body } = await call<{ locks: { name: string }[] }>(server, "GET", "/locks?limit=1000", {
    token: adminToken,
  });
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
    assert.match(
      ended.stdout,
      /^workload +names +operations +lost replies +violations +undecided\nmutex +5 /,
    );
    assert.match(
      ended.stdout,
      new RegExp(`No violation found: [\\d,]+ operations in 1\\d s, seed ${seed}\n$`),
    );
    const names = "mutex retry-storm queue watch-replay sessions tokens overlap counter";
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
      "5s",
      "--workloads",
      "mutex,counter,mutex",
      "--seed",
      "7",
      "--json",
    );
    const {
      schema_version,
      ok,
      data: summary,
    } = JSON.parse(ended.stdout) as {
      schema_version: 1;
      ok: true;
      data: Summary;
    };
    assert.equal(ended.code, 0, ended.text);
    assert.deepEqual([schema_version, ok], [1, true]);
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
    await untilHeld(server, 5);
    child.kill("SIGINT");
    const [code] = await once(child, "close");
    assert.equal(code, 130, output);
    const { ok, error } = JSON.parse(output) as { ok: false; error: { code: string; details: Summary } };
    assert.deepEqual([ok, error.code, error.details.leftBehind], [false, "interrupted", []]);
    assert.deepEqual(await namesHeld(server), []);
  });

  test("refuses another machine without --yes, and whatever else cannot work, before it begins", async () => {
    const nobody = `http://127.0.0.1:${await freePort()}`;
    const here = server.url;
    await using elsewhere = await webServer();
    await using busy = await webServer((_request, response) => {
      response.writeHead(503, { "retry-after": "60" }).end(JSON.stringify({ details: "Stopping." }));
    });
    const stranger = await workerToken(server, "stranger", { space: "elsewhere" });
    const plain = await workerToken(server, "plain-names", { scopes: ["verify-*"] });
    mkdirSync(join(reports, "folder.html"));
    const rows: [() => Promise<Ended>, number, RegExp][] = [
      [() => verify("http://locks.example:4280"), 2, /locks\.example is not this machine\. .* add --yes/],
      [() => verify("http://127.0.0.1.example"), 2, /is not this machine/],
      [() => verify("http://locks.invalid:4280", "--yes"), 5, /cannot reach http:\/\/locks\.invalid:4280/],
      [() => verify("ftp://localhost"), 2, /holdfast: ftp:\/\/localhost is no URL of a server/],
      [() => verify("http://me:hunter2@127.0.0.1:1"), 2, /^(?!.*hunter2).*a user or a password/],
      [() => verify("ftp://me:hunter2@127.0.0.1"), 2, /^(?!.*hunter2).*a user or a password/],
      [() => verify(nobody), 5, /cannot reach .*ECONNREFUSED.* Is it running\?/],
      [() => holdfast(["verify", "--server", nobody, "--token", "x"]), 5, /cannot reach .*ECONNREFUSED/],
      [() => verify(here, "--server", nobody), 2, /--url and --server say the same thing twice/],
      [() => verify(here, "--token", "x", "--token-file", "y"), 2, /--token and --token-file say the same/],
      [
        () => holdfast(["verify", "--url", here], { cwd: reports }),
        2,
        /no token for .*give --token-file FILE/s,
      ],
      [() => verify(busy.url), 5, /answers 503 to GET \/whoami: Stopping\. Try again when it has less to do/],
      [
        () => holdfast(["verify", "--data", reports, "--token", "x"]),
        3,
        /no server runs on .* holdfast serve --data/,
      ],
      [() => verify(here.replace("http:", "https:")), 5, /does not speak TLS there: use http:\/\//],
      [() => verify(elsewhere.url), 2, /is not a Holdfast server: GET \/whoami answered 404 and no JSON/],
      [() => verify(here, "--workloads", "mutex,nothing"), 2, /"nothing": there are mutex, retry-storm, /],
      [() => verify(here, "--workloads", "mutex,"), 2, /"mutex,": a name is missing beside a comma/],
      [() => verify(here, "--report", "x.pdf"), 2, /name it \.html for people or \.json/],
      [() => verify(here, "--report", "/nowhere/x.html"), 2, /cannot write into \/nowhere: there is no such/],
      [() => verify(here, "--report", "folder.html"), 2, /this is a directory, name a file/],
      [() => verify(here, "--report", join(mainFile, "x.html")), 2, /holdfast\.cjs is not a directory/],
      [() => verify(here, "--duration", "soon"), 2, /--duration "soon"/],
      [() => verify(here, "--duration", "25d"), 2, /--duration 25d: give from 5s, .* to 24h/],
      [() => verify(here, "--duration", "4s"), 2, /--duration 4s: give from 5s/],
      [() => verify(here, "--seed", "-1"), 2, /--seed "-1"/],
      [() => verify(here, "--token", "wrong"), 2, /refuses \(401\) the --token/],
      [() => verify(here, "--token", "secret-a", "wrong"), 2, /refuses \(401\) the second --token/],
      [
        () => holdfast(["verify", "--url", here], { env: { HOLDFAST_TOKEN: "wrong" } }),
        2,
        /the token from HOLDFAST_TOKEN/,
      ],
      [
        () => verify(here, "--token", "secret-a", "secret-v"),
        2,
        /refuses \(403\) the second --token \(viewer\).* needs a worker's token for names as verify-/,
      ],
      [
        () => verify(here, "--token", plain.token),
        2,
        /refuses \(403\).* for names as path:verify-.*, or leaves out the workload that uses them/,
      ],
      [
        () => verify(here, "--token", "secret-a", stranger.token),
        2,
        /different spaces \(the first --token of "default", the second --token of "elsewhere"\)/,
      ],
    ];
    const look = async ([run, code, says]: (typeof rows)[number]): Promise<void> => {
      const { code: found, stderr } = await run();
      assert.match(stderr, says);
      assert.doesNotMatch(stderr, /Verifying/, "only what passed these checks begins");
      assert.equal(found, code, stderr);
    };
    // A few at a time: each is a process.
    while (rows.length > 0) await Promise.all(rows.splice(0, 4).map(look));
  });

  test("takes its token from a file", async () => {
    writeFileSync(join(reports, "token"), "secret-a\n");
    const more = ["--token-file", "token", "--duration", "5s", "--workloads", "tokens", "--json"];
    const { code, stdout } = await holdfast(["verify", "--url", server.url, ...more], { cwd: reports });
    assert.equal(code, 0, stdout);
    assert.deepEqual(JSON.parse(stdout).data.principals, ["runner-1"]);
  });

  test("prints the verdict also where a report cannot be written in the end", async () => {
    const folder = join(reports, "goes-away");
    mkdirSync(folder);
    const file = join(folder, "x.json");
    const running = verify(
      server.url,
      "--duration",
      "5s",
      "--workloads",
      "mutex",
      "--report",
      file,
      "kept.json",
    );
    await untilHeld(server, 1);
    rmSync(folder, { recursive: true });
    const ended = await running;
    assert.equal(ended.code, 1, ended.text);
    assert.match(ended.stdout, /No violation found/);
    assert.match(ended.stderr, /--report .*x\.json was not written: ENOENT/);
    assert.equal(reportOf("kept.json").outcome, "ok");
  });

  test("a token that is revoked meanwhile is named, and ends the run", async () => {
    const { id, token } = await workerToken(server, "short-lived");
    const running = verify(
      server.url,
      "--duration",
      "5m",
      "--workloads",
      "mutex",
      "--token",
      "secret-a",
      token,
    );
    await untilHeld(server, 2);
    await call(server, "DELETE", `/tokens/${id}`, { token: adminToken });
    const ended = await running;
    assert.equal(ended.code, 2, ended.text);
    assert.match(
      ended.stdout,
      /^refused \(401\) the second --token \(short-lived\) from [\d.]+ s on: it was revoked/,
    );
    assert.deepEqual(await namesHeld(server), []);
  });
});

test("a server that goes away is said to be gone, and what was never sent is no operation", async () => {
  await using server = await startServer();
  const running = verify(server.url, "--duration", "8s", "--report", "gone.json", "--json");
  await untilHeld(server, 5);
  server.kill("SIGKILL");
  const ended = await running;
  assert.equal(ended.code, 5, ended.text);
  const { ok, error } = JSON.parse(ended.stdout) as { ok: false; error: { code: string; message: string } };
  assert.deepEqual([ok, error.code], [false, "unavailable"]);
  assert.match(error.message, /the server could not be reached from \d+\.\d s on \(\d+ calls?\)/);
  const { workloads, unreachable, unsent } = reportOf("gone.json");
  const replies = workloads.flatMap(({ history }) => history.operations.map(({ reply }) => reply));
  assert.deepEqual(
    replies.filter((reply) => reply.kind === "refused" && reply.code.startsWith("unsent")),
    [],
  );
  assert.ok(unsent > 0 && unsent < 200, `${unsent}: tries become rare`);
  assert.ok((unreachable?.calls ?? 0) >= unsent);
});

test("a rate limit is heeded: it is made use of, few calls are refused, and the run ends in time", async () => {
  await using server = await startServer({ env: { HOLDFAST_RATE_LIMIT: "50" } });
  // Ends within 2 × 5 + 15 s, or is killed.
  const ended = await verify(server.url, "--duration", "5s", "--report", "slow.json");
  assert.ok(ended.code === 0 || ended.code === 1, `${ended.code} ${ended.text}`);
  const { workloads, outcome, leftBehind, rateLimited, durationMs } = reportOf("slow.json");
  const replies = workloads.flatMap(({ history }) => history.operations.map(({ reply }) => reply));
  const refused = replies.filter((reply) => reply.kind === "refused" && reply.code === "rate_limited").length;
  // Streams that were refused count as well, and are no operations.
  assert.ok(refused <= rateLimited && rateLimited <= refused + 20, `${refused} of ${rateLimited}`);
  assert.ok(refused > 0 && refused < replies.length / 3, `${refused} of ${replies.length}`);
  const aSecond = (1000 * (replies.length - refused)) / durationMs;
  assert.ok(aSecond > 15, `${aSecond} calls a second of 50`);
  assert.match(ended.stdout, new RegExp(`\n${rateLimited} calls? refused by the rate limit \\(429\\)`));
  if (outcome === "too little")
    assert.match(ended.stdout, /\(429\)\. Raise the limit \(HOLDFAST_RATE_LIMIT\)/);
  assert.ok(outcome !== "violated" && outcome !== "unknown", outcome);
  assert.deepEqual(leftBehind, []);
});

/** A service that grants whatever it is asked for. */
async function generous(grant: () => object): Promise<AsyncDisposable & { readonly url: string }> {
  const answer = ({ method = "", url = "" }: IncomingMessage): object | null => {
    if (url === "/whoami") return { principal: "anybody" };
    if (url.startsWith("/locks?")) return { locks: [] };
    if (method === "GET") return { status: "held", fencing_token: 1 };
    return url.endsWith("/release") ? null : grant();
  };
  return webServer((request, response) => {
    request.resume();
    response.setHeader("content-type", "application/json").end(JSON.stringify(answer(request)));
  });
}

function newLeases(): () => object {
  let token = 0;
  return () => ({
    status: "acquired",
    lease_id: `lease-${++token}`,
    fencing_token: token,
    expires_in_ms: 3000,
  });
}

test("a service that grants a name twice is found out soon, and the run ends there", async () => {
  await using service = await generous(newLeases());
  const more = ["--duration", "10m", "--workloads", "mutex", "--report", "bad.html", "bad.json"];
  const ended = await verify(service.url, ...more);
  assert.equal(ended.code, 1, ended.text);
  assert.match(ended.stdout, /^I\d+ mutex, verify-\w+\/mutex\/n\d: /);
  assert.match(ended.stdout, /\nViolated: .* s, ended at the first violation, seed/);
  assert.equal(reportOf("bad.json").endedEarly, true);
  const page = readFileSync(join(reports, "bad.html"), "utf8");
  assert.match(page, /<div class="verdict violated"><strong>\d+ violations?<\/strong>/);
  assert.ok(page.indexOf("<h2>Violations") < page.indexOf("<h2>Workloads"));
});

test("with --keep-going the time is used all the same", async () => {
  await using service = await generous(newLeases());
  const more = ["--duration", "5s", "--workloads", "mutex", "--keep-going", "--report", "whole.json"];
  const ended = await verify(service.url, ...more);
  assert.equal(ended.code, 1, ended.text);
  const { endedEarly, durationMs, outcome } = reportOf("whole.json");
  assert.deepEqual([endedEarly, outcome], [false, "violated"]);
  assert.ok(durationMs >= 5000, `${durationMs}`);
});

test("an answer that lacks what it promises is a violation, not a lost reply", async () => {
  await using service = await generous(() => ({ status: "acquired", fencing_token: 1 }));
  const ended = await verify(service.url, "--duration", "10m", "--workloads", "mutex");
  assert.equal(ended.code, 1, ended.text);
  assert.match(ended.stdout, /^I20 mutex, verify-\w+\/mutex\/n\d: an answer that is none: /);
});

const nothingHere: RequestListener = (_request, response) => {
  response.writeHead(404, { "content-type": "text/html" }).end("<h1>Not found</h1>");
};

/** Some web server, which knows nothing of leases unless it is told. */
async function webServer(
  answer: RequestListener = nothingHere,
): Promise<AsyncDisposable & { readonly url: string }> {
  const server = createServer(answer).listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  assert.ok(address !== null && typeof address === "object");
  return {
    url: `http://127.0.0.1:${address.port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
}

describe("docs/verify.md", () => {
  const text = readFileSync(new URL("../../docs/verify.md", import.meta.url), "utf8");

  test("lists what must be reached, as it is enforced", () => {
    for (const { name, minimums, purpose = [] } of workloads) {
      const needed = Object.entries(minimums).map(
        ([situation, times]) =>
          `${situationText(situation)} ${times}${purpose.includes(situation) ? "*" : ""}`,
      );
      const row = text.split("\n").find((line) => line.startsWith(`| \`${name}\` |`) && / \d+/.test(line));
      assert.ok(row?.endsWith(`| ${needed.join(", ")} |`), `${name}: ${needed.join(", ")}`);
    }
  });

  test("explains every count", () => {
    const rows = Object.entries(situations).map(([name, says]) => `| ${situationText(name)} | ${says} |`);
    for (const row of rows) assert.ok(text.includes(row), row);
    for (const { minimums, never = {} } of workloads)
      for (const name of [...Object.keys(minimums), ...Object.keys(never)])
        assert.ok(name in situations, name);
  });
});
