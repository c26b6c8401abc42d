// `holdfast hold`: a lease for a script in any language. One JSON object per line says what happens, and whatever ends
// it, a signal, another process, a reader that leaves, the lease is released.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { after, before, describe, test } from "node:test";
import { isFree, lockOf, type Started, type StartOptions, start, until } from "./cli-run-lab.js";
import { adminToken, call, type Server, startServer } from "./server.js";

interface Event {
  readonly event: string;
  readonly name: string;
  readonly at: string;
  readonly details?: string;
  readonly lease_id?: string;
  readonly fencing_token?: number;
  readonly holder?: string;
  readonly expires_at?: string;
  readonly position?: number;
}

let server: Server;
before(async () => {
  server = await startServer();
});
after(() => server[Symbol.asyncDispose]());

const hold = (name: string, args: readonly string[] = [], options: StartOptions = {}): Started =>
  start(server, ["hold", name, ...args], options);

/** Every line is an object of its own. */
const events = (held: Started): Event[] =>
  held
    .stdout()
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Event);

const said = (held: Started, event: string): Promise<Event> =>
  until(`${event} is said`, () => events(held).find((one) => one.event === event));

describe("holdfast hold", () => {
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
    test(`says acquired; on ${signal} says released and ends with 0`, async () => {
      const held = hold("told");
      const acquired = await said(held, "acquired");
      assert.match(acquired.lease_id ?? "", /^ls_/);
      assert.equal(acquired.fencing_token, (await lockOf(server, "told")).fencing_token);
      assert.ok(Date.parse(acquired.at) > 0 && Date.parse(acquired.expires_at ?? "") > 0);
      held.child.kill(signal);
      assert.equal(await held.ended, 0, held.stderr());
      assert.deepEqual(
        events(held).map(({ event, name }) => `${event} ${name}`),
        ["acquired told", "released told"],
      );
      assert.equal(held.stderr(), "");
      assert.ok(await isFree(server, "told"));
    });

  test("renews for as long as it runs", async () => {
    const held = hold("renewed", ["--ttl", "1s"]);
    await until("four renewals", () => events(held).filter(({ event }) => event === "renewed").length >= 4);
    assert.equal(
      (await lockOf(server, "renewed")).fencing_token,
      (await said(held, "acquired")).fencing_token,
    );
    held.child.kill("SIGTERM");
    assert.equal(await held.ended, 0);
  });

  test("held by another: says who and until when, ends with 4", async () => {
    const other = hold("taken", [], { token: "secret-b" });
    await said(other, "acquired");
    const held = hold("taken");
    assert.equal(await held.ended, 4);
    const [first] = events(held);
    assert.deepEqual([first?.event, first?.holder], ["held", "runner-2"]);
    assert.ok(Date.parse(first?.expires_at ?? "") > 0);
    assert.match(
      held.stderr(),
      /^holdfast: taken is held by runner-2 since \S+Z until \S+Z unless renewed\. Stand in line with --wait 10m\n$/,
    );
    other.child.kill("SIGTERM");
    await other.ended;
  });

  test("waits in line, says so, and is granted in its turn", async () => {
    const other = hold("line", [], { token: "secret-b" });
    await said(other, "acquired");
    const held = hold("line", ["--wait", "5m", "--ttl", "2s"]);
    const waiting = await said(held, "waiting");
    assert.deepEqual([waiting.holder, waiting.position], ["runner-2", 1]);
    other.child.kill("SIGTERM");
    await said(held, "acquired");
    await said(held, "renewed");
    held.child.kill("SIGTERM");
    assert.equal(await held.ended, 0);
  });

  test("a signal during the wait: says stopped, ends as a signal does, nobody is left in line", async () => {
    const other = hold("leave", [], { token: "secret-b" });
    await said(other, "acquired");
    const held = hold("leave", ["--wait", "5m"]);
    await said(held, "waiting");
    held.child.kill("SIGINT");
    assert.equal(await held.ended, 130);
    assert.equal(events(held).at(-1)?.event, "stopped");
    await until("nobody waits", async () => (await lockOf(server, "leave")).waiters === 0);
    other.child.kill("SIGTERM");
    await other.ended;
    assert.ok(await isFree(server, "leave"));
  });

  test("lost: says by whom and why, ends with 4", async () => {
    const held = hold("lost", ["--ttl", "1s"]);
    await said(held, "acquired");
    await call(server, "DELETE", "/locks/lost", { token: adminToken, body: { reason: "deploy freeze" } });
    assert.equal(await held.ended, 4);
    assert.match(events(held).at(-1)?.details ?? "", /operator.*deploy freeze/);
    assert.equal(events(held).at(-1)?.event, "lost");
  });

  test("--while-pid: released when that process ends, though nobody reaps it", async () => {
    const other = spawn("sh", ["-c", "sleep 600 & echo $!; exec sleep 600"], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    const [text] = (await once(other.stdout, "data")) as [Buffer];
    // Its parent has become a `sleep`, which never asks how its child ended.
    const unreaped = Number(text.toString());
    try {
      const held = hold("tied", ["--while-pid", String(unreaped)]);
      await said(held, "acquired");
      process.kill(unreaped, "SIGKILL");
      assert.equal(await held.ended, 0, held.stderr());
      assert.equal(events(held).at(-1)?.event, "released");
      assert.ok(await isFree(server, "tied"));
      const late = hold("tied", ["--while-pid", String(unreaped)]);
      assert.equal(await late.ended, 3);
      assert.match(late.stderr(), /^holdfast: --while-pid \d+: there is no such process\n$/);
    } finally {
      other.kill("SIGKILL");
    }
  });

  test("--while-pid that ends during the wait: nothing is taken", async () => {
    const first = hold("tied-line", [], { token: "secret-b" });
    await said(first, "acquired");
    const other = spawn("sleep", ["600"]);
    const held = hold("tied-line", ["--wait", "5m", "--while-pid", String(other.pid)]);
    await said(held, "waiting");
    other.kill("SIGKILL");
    assert.equal(await held.ended, 3);
    assert.equal(events(held).at(-1)?.event, "stopped");
    first.child.kill("SIGTERM");
    await first.ended;
    assert.ok(await isFree(server, "tied-line"));
  });

  test("bad input: a clear line and 2", async () => {
    for (const [args, line] of [
      [["--while-pid", "me"], /^holdfast: --while-pid me: give the number of a process\n$/],
      [["--ttl", "soon"], /^holdfast: --ttl .* got soon\n$/],
      [["--wait", "1.5"], /^holdfast: --wait .* got 1\.5\n$/],
    ] as const) {
      const held = hold("bad", args);
      assert.equal(await held.ended, 2);
      assert.match(held.stderr(), line);
      assert.equal(held.stdout(), "");
    }
    assert.ok(await isFree(server, "bad"));
  });

  test("a reader that leaves: released with the next thing to say", async () => {
    const held = hold("read", ["--ttl", "2s"]);
    await said(held, "acquired");
    held.child.stdout?.destroy();
    assert.equal(await held.ended, 0, held.stderr());
    assert.equal(held.stderr(), "");
    assert.ok(await isFree(server, "read"));
  });

  test("a server that is gone at the end: says until when it stays, ends with 5", async () => {
    const held = hold("gone", ["--ttl", "60s"]);
    await said(held, "acquired");
    server.kill("SIGKILL");
    held.child.kill("SIGTERM");
    assert.equal(await held.ended, 5);
    assert.match(
      held.stderr(),
      /^holdfast: gone could not be released, and ends by itself after \S+Z: No reply from /,
    );
    server = await server.restart();
  });
});
