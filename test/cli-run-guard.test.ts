// `holdfast run` under everything that can go wrong: whoever is killed, stopped or cut off, the command and all it
// started have stopped before another is granted the lease. The witness is a file that each of them stamps ten times a
// second; the judge is the server's own account of when the next holder was granted.
import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { contentOf, isFree, keeperOf, lockOf, type Started, start, until, Witness } from "./cli-run-lab.js";
import { adminToken, call, type Server, startServer } from "./server.js";

const secret = "token-that-nobody-may-see";
const tokens = `runner-1:secret-a,runner-2:secret-b,hidden:${secret}`;

/** Waits in line, and says who it is once it runs. */
const next = (server: Server, name: string): Started =>
  start(server, ["run", name, "--wait", "5m", "--", "sh", "-c", "echo mine; sleep 1"], { token: "secret-b" });

/** The next holder was granted after the last stamp, and none came later. */
async function assertStoppedBefore(
  server: Server,
  name: string,
  witness: Witness,
  heir: Started,
): Promise<void> {
  await until("the next holder runs", () => heir.stdout().includes("mine"));
  const { holder } = await lockOf(server, name);
  assert.equal(holder?.principal, "runner-2", heir.stderr());
  const last = witness.last();
  const grantedAt = Date.parse(holder.since);
  assert.ok(last <= grantedAt, `a stamp at ${last}, granted to another at ${grantedAt}`);
  assert.equal(await heir.ended, 0, heir.stderr());
  assert.equal(witness.last(), last, "a stamp while another held the lease");
}

describe("holdfast run, guarded", () => {
  let server: Server;
  const restarted = async (): Promise<void> => {
    server = await server.restart();
  };
  before(async () => {
    server = await startServer({ tokens });
  });
  after(() => server[Symbol.asyncDispose]());

  const begin = async (name: string, ttl: string, more: string[] = [], url?: string) => {
    const witness = new Witness();
    const args = ["run", name, "--ttl", ttl, ...more, "--", ...witness.stubborn];
    const run = start(server, args, url === undefined ? {} : { url });
    await witness.isBeating();
    return { run, witness };
  };

  test("kill -9 of the program: all that the command started is ended, and the lease is released", async () => {
    const { run, witness } = await begin("killed", "30s");
    const heir = next(server, "killed");
    await until("in line", async () => (await lockOf(server, "killed")).waiters === 1);
    const killedAt = Date.now();
    run.child.kill("SIGKILL");
    await assertStoppedBefore(server, "killed", witness, heir);
    assert.ok(Date.now() - killedAt < 25_000, "it was released, it did not run out");
  });

  test("kill -9 of the program: a command that listens to SIGTERM ends in order", async () => {
    const { dir } = new Witness();
    const script = `trap 'echo term > ${dir}/term; exit' TERM; echo up > ${dir}/up; while :; do sleep 0.1; done`;
    const run = start(server, ["run", "orderly", "--", "sh", "-c", script]);
    await until("it runs", () => contentOf(`${dir}/up`));
    run.child.kill("SIGKILL");
    await until("free", () => isFree(server, "orderly"));
    assert.equal(readFileSync(`${dir}/term`, "utf8"), "term\n");
  });

  test("kill -9 at any moment of the start leaves nothing running without its lease", async () => {
    const round = async (index: number): Promise<void> => {
      const name = `start-${index}`;
      const witness = new Witness();
      const run = start(server, ["run", name, "--ttl", "2s", "--", ...witness.stubborn]);
      await until("granted", async () => (await lockOf(server, name)).status === "held");
      await delay(index * 40);
      run.child.kill("SIGKILL");
      await assertStoppedBefore(server, name, witness, next(server, name));
    };
    await Promise.all(Array.from({ length: 10 }, (_, index) => round(index)));
  });

  test("the server is killed: the command is ended in time, exit 76", async () => {
    const { run, witness } = await begin("server-killed", "3s");
    server.kill("SIGKILL");
    const code = await run.ended;
    await restarted();
    assert.equal(code, 76, run.stderr());
    assert.match(
      run.stderr(),
      /^holdfast: the lease on server-killed is lost: it could not be renewed in time: no reply from http:\S+ \(ECONN\w+\); the command is ended\n$/,
    );
    await assertStoppedBefore(server, "server-killed", witness, next(server, "server-killed"));
  });

  test("the server is stopped: the command is ended in time, exit 76", async () => {
    const { run, witness } = await begin("server-stopped", "3s");
    server.kill("SIGSTOP");
    const code = await run.ended;
    server.kill("SIGCONT");
    assert.equal(code, 76, run.stderr());
    assert.match(
      run.stderr(),
      /lost: it could not be renewed in time: no reply from .*; the command is ended\n$/,
    );
    await assertStoppedBefore(server, "server-stopped", witness, next(server, "server-stopped"));
  });

  test("the network is cut: ended before the server grants it to one who waits", async () => {
    await using proxy = await startProxy(server.port);
    const { run, witness } = await begin("cut", "3s", [], proxy.url);
    const heir = next(server, "cut");
    await until("in line", async () => (await lockOf(server, "cut")).waiters === 1);
    proxy.cut();
    await assertStoppedBefore(server, "cut", witness, heir);
    assert.equal(await run.ended, 76, run.stderr());
  });

  test("a server that is restarted within the TTL: the command notices nothing", async () => {
    const { run, witness } = await begin("restarted", "20s");
    const { fencing_token: token } = await lockOf(server, "restarted");
    await restarted();
    const before = witness.stamps("command").length;
    await until("it goes on", () => witness.stamps("command").length > before + 5);
    assert.equal((await lockOf(server, "restarted")).fencing_token, token);
    writeFileSync(witness.file("end"), "");
    assert.equal(await run.ended, 0, run.stderr());
    assert.equal(run.stderr(), "");
    assert.ok(await isFree(server, "restarted"));
  });

  test("the keeper is killed: the command is ended, exit 76, and the lease released", async () => {
    const { run, witness } = await begin("keeper-killed", "60s");
    process.kill(await keeperOf(run), "SIGKILL");
    assert.equal(await run.ended, 76, run.stderr());
    assert.match(run.stderr(), /is lost: its keeper process was ended; the command is ended\n$/);
    assert.ok(await isFree(server, "keeper-killed"));
    await assertStoppedBefore(server, "keeper-killed", witness, next(server, "keeper-killed"));
  });

  test("the keeper is stopped: the command is ended in time, exit 76, and no keeper is left", async () => {
    const { run, witness } = await begin("keeper-stopped", "3s");
    const heir = next(server, "keeper-stopped");
    const keeper = await keeperOf(run);
    process.kill(keeper, "SIGSTOP");
    await assertStoppedBefore(server, "keeper-stopped", witness, heir);
    assert.equal(await run.ended, 76, run.stderr());
    await until("the keeper is gone", () => contentOf(`/proc/${keeper}/cmdline`) === "");
  });

  test("the program is stopped for longer than the TTL: the keeper renews, and the command ends as it would", async () => {
    const { run, witness } = await begin("stopped", "2s");
    const { fencing_token: token } = await lockOf(server, "stopped");
    const stampsBefore = witness.stamps("command").length;
    run.child.kill("SIGSTOP");
    await delay(6000);
    assert.equal((await lockOf(server, "stopped")).fencing_token, token);
    assert.ok(witness.stamps("command").length > stampsBefore);
    run.child.kill("SIGCONT");
    await delay(1000);
    writeFileSync(witness.file("end"), "");
    assert.equal(await run.ended, 0, run.stderr());
    assert.equal(run.stderr(), "");
  });

  test("the program and its keeper are stopped together: on going on, the command is ended at once, exit 76", async () => {
    const { run } = await begin("both-stopped", "2s");
    const keeper = await keeperOf(run);
    run.child.kill("SIGSTOP");
    process.kill(keeper, "SIGSTOP");
    await until("over", () => isFree(server, "both-stopped"));
    run.child.kill("SIGCONT");
    assert.equal(await run.ended, 76, run.stderr());
    await until("the keeper is gone", () => contentOf(`/proc/${keeper}/cmdline`) === "");
  });

  const forceRelease = (name: string) =>
    call(server, "DELETE", `/locks/${name}`, { token: adminToken, body: { reason: "deploy freeze" } });

  test("a forced release: ended at the next renewal, and told by whom and why", async () => {
    const { run, witness } = await begin("forced", "3s");
    await forceRelease("forced");
    assert.equal(await run.ended, 76, run.stderr());
    assert.match(
      run.stderr(),
      /^holdfast: the lease on forced is lost: .*operator.*deploy freeze.*; the command is ended\n$/,
    );
    const last = witness.last();
    await delay(500);
    assert.equal(witness.last(), last);
  });

  test("--on-loss warn: a forced release is told, the command goes on and its exit code counts", async () => {
    const { run, witness } = await begin("warned", "3s", ["--on-loss", "warn"]);
    await forceRelease("warned");
    await until("told", () => run.stderr().includes("deploy freeze"));
    const before = witness.stamps("command").length;
    await until("it goes on", () => witness.stamps("command").length > before + 5);
    writeFileSync(witness.file("end"), "");
    assert.equal(await run.ended, 0);
    assert.match(run.stderr(), /; the command goes on \(--on-loss warn\)\n$/);
  });

  test("--on-loss warn: kill -9 of the program keeps the lease until the command ends", async () => {
    const { run, witness } = await begin("warned-orphan", "2s", ["--on-loss", "warn"]);
    run.child.kill("SIGKILL");
    await delay(4000);
    assert.ok(!(await isFree(server, "warned-orphan")));
    writeFileSync(witness.file("end"), "");
    await until("free", () => isFree(server, "warned-orphan"));
  });

  test("one that emptied its environment, in a session of its own, whose parent ends on SIGTERM", async () => {
    const { dir } = new Witness();
    const beat = `trap "" TERM; while :; do date +%s%3N >> ${dir}/beat; sleep 0.1; done`;
    const run = start(server, [
      "run",
      "hidden-one",
      "--",
      "sh",
      "-c",
      `env -i PATH="$PATH" setsid sh -c '${beat}' & wait`,
    ]);
    await until("it stamps", () => contentOf(`${dir}/beat`));
    run.child.kill("SIGKILL");
    await until("free", () => isFree(server, "hidden-one"));
    const size = contentOf(`${dir}/beat`).length;
    await delay(500);
    assert.equal(contentOf(`${dir}/beat`).length, size);
  });

  test("the bearer token stands neither in the keeper's arguments nor in its environment", async () => {
    const run = start(server, ["run", "secrets", "--token", secret, "--", "sleep", "60"], { token: secret });
    const keeper = await keeperOf(run);
    const { length } = await until("its environment", () => contentOf(`/proc/${keeper}/environ`));
    assert.ok(length > 0);
    for (const file of ["cmdline", "environ"])
      assert.ok(!contentOf(`/proc/${keeper}/${file}`).includes(secret));
    assert.ok(!contentOf(`/proc/${keeper}/environ`).includes("HOLDFAST_"));
    await until("granted", async () => (await lockOf(server, "secrets")).holder?.principal === "hidden");
    await delay(300);
    run.child.kill("SIGTERM");
    assert.equal(await run.ended, 143, run.stderr());
  });
});

/** Passes connections on, until it swallows everything. */
async function startProxy(port: number): Promise<AsyncDisposable & { url: string; cut(): void }> {
  const sockets = new Set<Socket>();
  let isCut = false;
  const proxy = createServer((from) => {
    sockets.add(from.on("error", () => {}));
    if (isCut) return;
    const to = connect(port, "127.0.0.1");
    sockets.add(to.on("error", () => {}));
    from.pipe(to).pipe(from);
  }).listen(0, "127.0.0.1");
  await once(proxy, "listening");
  const address = proxy.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return {
    url: `http://127.0.0.1:${address.port}`,
    cut() {
      isCut = true;
      for (const socket of sockets) socket.unpipe().pause();
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      proxy.close();
    },
  };
}
