// The programs in examples/ do what they say, as a reader would start them: against a real server, with `holdfast` on
// the PATH.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { call, mainFile, type Server, startServer, temporaryDir } from "./server.js";
import { type Ended, runToEnd } from "./system-program.js";

const root = fileURLToPath(new URL("../../", import.meta.url));
const examples = join(root, "examples");

interface Place {
  readonly dir: string;
  readonly env: Readonly<Record<string, string>>;
}

function placeFor(server: Server): Place {
  const dir = temporaryDir("holdfast-examples-");
  const bin = join(dir, "bin");
  mkdirSync(bin);
  writeFileSync(join(bin, "holdfast"), `#!/bin/sh\nexec "${process.execPath}" "${mainFile}" "$@"\n`, {
    mode: 0o755,
  });
  // As it is where the package is installed: the examples' copies find it by its name.
  mkdirSync(join(dir, "node_modules"));
  symlinkSync(root, join(dir, "node_modules", "holdfast"));
  for (const name of ["five-agents.mjs", "queue-consumers.mjs", "work-graph.mjs"])
    writeFileSync(join(dir, name), readFileSync(join(examples, name)));
  return {
    dir,
    env: {
      PATH: `${bin}:${process.env["PATH"]}`,
      HOME: dir,
      HOLDFAST_URL: server.url,
      HOLDFAST_TOKEN: "secret-a",
    },
  };
}

const node = (place: Place, file: string): Promise<Ended> =>
  runToEnd(process.execPath, [join(place.dir, file)], { env: place.env, cwd: place.dir });

const shell = (place: Place, file: string, args: readonly string[], env = {}): Promise<Ended> =>
  runToEnd("bash", [join(examples, file), ...args], { env: { ...place.env, ...env }, cwd: place.dir });

test("five agents: one works, the others see it, it is killed, another takes over", async () => {
  await using server = await startServer();
  const { code, stdout, stderr } = await node(placeFor(server), "five-agents.mjs");
  assert.equal(code, 0, stderr);
  const [owns, see, killed, took, finished] = stdout.trim().split("\n");
  const first = /^(agent-\d) owns issue-1842, token 1$/.exec(owns ?? "")?.[1];
  assert.ok(first !== undefined, stdout);
  assert.match(see ?? "", new RegExp(`see that ${first} owns it$`));
  assert.equal(killed, `${first} was killed`);
  const second = /^(agent-\d) took over, token 2$/.exec(took ?? "")?.[1];
  assert.ok(second !== undefined && second !== first, stdout);
  assert.equal(finished, `${second} finished: done`);
});

test("queue consumers: every job once, though one dies in the middle of one", async () => {
  await using server = await startServer();
  const { code, stdout, stderr } = await node(placeFor(server), "queue-consumers.mjs");
  assert.equal(code, 0, stderr);
  assert.equal(stdout, "consumer one ended by SIGKILL, the others went on\n20 of 20 jobs done, each once\n");
});

test("a crew drains a graph, and takes over from one that died", async () => {
  const policy = join(temporaryDir("holdfast-policy-"), "policy.json");
  writeFileSync(policy, JSON.stringify({ claim_ttl_ms: 2000 }));
  await using server = await startServer({ env: { HOLDFAST_POLICY_FILE: policy } });
  const { code, stdout, stderr } = await node(placeFor(server), "work-graph.mjs");
  assert.equal(code, 0, stderr);
  const [dan, ...others] = stdout.trim().split("\n");
  assert.match(dan ?? "", /^dan took house-[a-z0-9]+-ground, token 1, and died$/);
  assert.deepEqual(others, ["another took it over, token 2", "6 of 6 nodes done, ground first, paint last"]);
});

test("the crew drains it again, also where claims last long: then nobody dies", async () => {
  await using server = await startServer();
  const place = placeFor(server);
  for (const run of ["first", "second"]) {
    const { code, stdout, stderr } = await node(place, "work-graph.mjs");
    assert.equal(code, 0, `${run}: ${stderr}`);
    assert.deepEqual(stdout.trim().split("\n"), [
      "nobody dies: a claim lasts 2700 s here, too long to wait for",
      "6 of 6 nodes done, ground first, paint last",
    ]);
  }
});

test("deployments one at a time; the lock is given back", async () => {
  await using server = await startServer();
  const place = placeFor(server);
  const deploy = (): Promise<Ended> => shell(place, "deploy.sh", ["production"], { STEP_SECONDS: "0.2" });
  const runs = await Promise.all([deploy(), deploy(), deploy()]);
  for (const { code, stdout, stderr } of runs) {
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^Lock acquired\n/);
    assert.match(stdout, /production: build\nproduction: upload\nproduction: switch\n/);
  }
  const { body } = await call<{ status: string; fencing_token: number }>(
    server,
    "GET",
    "/locks/repo:deploy-production",
    {
      token: "secret-a",
    },
  );
  assert.deepEqual([body.status, body.fencing_token], ["free", 3], "three grants, one after the other");
});

test("the same cron line on three machines runs on one; after a failure another may try", async () => {
  await using server = await startServer();
  const place = placeFor(server);
  const cron = (command: string): Promise<Ended> =>
    shell(place, "singleton-cron.sh", ["report", "bash", "-c", command], { SLOT: "2026-11-16T12:00" });
  const failed = await cron("exit 3");
  assert.equal(failed.code, 1);
  const runs = await Promise.all([cron("echo ran >> ran"), cron("echo ran >> ran"), cron("echo ran >> ran")]);
  assert.deepEqual(
    runs.map(({ code }) => code),
    [0, 0, 0],
    runs.map(({ stderr }) => stderr).join(""),
  );
  assert.equal(readFileSync(join(place.dir, "ran"), "utf8"), "ran\n");
});
