// `holdfast hold`: a lease for a script in any language. One JSON object per line says what happens, and whatever ends
// it, a signal, another process, a reader that leaves, the lease is released.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { createServer } from "node:http";
import { after, before, describe, test } from "node:test";
import { contentOf, isFree, lockOf, type Started, type StartOptions, start, until } from "./cli-run-lab.js";
import { adminToken, call, mainFile, type Server, startServer } from "./server.js";

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
  readonly waiters?: number;
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
    .map((line) => JSON.parse(line) as Event)
    .filter(({ event }) => event !== undefined);

/** What `--json` adds to the events when it fails. */
function failureIn(held: Started): { code: string; details: Record<string, unknown> } {
  const { ok, error } = JSON.parse(held.stdout().trimEnd().split("\n").at(-1) ?? "");
  assert.equal(ok, false);
  return error;
}

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
      /^holdfast: taken is held by runner-2 since \S+ \S+ UTC until \S+ \S+ UTC unless renewed\. Stand in line with --wait 10m\n$/,
    );
    const waited = hold("taken", ["--wait", "1s", "--json"]);
    assert.equal(await waited.ended, 4);
    assert.match(waited.stderr(), /; waited \ds, place 1 in line\. Wait longer with --wait\n$/);
    const { code, details } = failureIn(waited);
    assert.deepEqual([code, details["owner"], details["resource"]], ["held", "runner-2", "taken"]);
    other.child.kill("SIGTERM");
    await other.ended;
  });

  test("waits in line, says so, and is granted in its turn", async () => {
    const other = hold("line", [], { token: "secret-b" });
    await said(other, "acquired");
    const held = hold("line", ["--wait", "5m", "--ttl", "2s"]);
    const waiting = await said(held, "waiting");
    assert.deepEqual([waiting.holder, waiting.position, waiting.waiters], ["runner-2", 1, 1]);
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
    assert.equal(held.stderr(), "holdfast: interrupted while waiting for leave: nothing was taken\n");
    await until("nobody waits", async () => (await lockOf(server, "leave")).waiters === 0);
    other.child.kill("SIGTERM");
    await other.ended;
    assert.ok(await isFree(server, "leave"));
  });

  test("lost: says by whom and why, ends with 4", async () => {
    const held = hold("lost", ["--ttl", "1s", "--json"]);
    await said(held, "acquired");
    await call(server, "DELETE", "/locks/lost", { token: adminToken, body: { reason: "deploy freeze" } });
    assert.equal(await held.ended, 4);
    const { details = "" } = await said(held, "lost");
    assert.match(details, /operator at \S+ \S+ UTC: deploy freeze/);
    assert.doesNotMatch(details, /is lost/, "said once");
    assert.equal(held.stderr(), `holdfast: the lease on lost is lost: ${details}\n`);
    assert.deepEqual([failureIn(held).code, failureIn(held).details["reason"]], ["lease_lost", details]);
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
      [["--ttl", "soon"], /^holdfast: --ttl "soon": give a time from 1s .*, as 30s, 15m, 1h\n$/],
      [["--wait", "1.5"], /^holdfast: --wait "1\.5": give a time as 30s, 10m, 1h, or 0 for no wait\n$/],
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

  test("a signal while the reply to its acquire is lost: what was granted is given back", async () => {
    await using front = await losingFront(server.url, 1);
    const held = hold("unheard", ["--ttl", "10m"], { url: front.url });
    await until("granted", async () => !(await isFree(server, "unheard")));
    assert.equal(held.stdout(), "");
    held.child.kill("SIGTERM");
    assert.equal(await held.ended, 143, held.stderr());
    assert.deepEqual(
      events(held).map(({ event, details }) => [event, details]),
      [["stopped", "SIGTERM"]],
    );
    assert.ok(await isFree(server, "unheard"));
  });

  test("a signal while no reply comes at all: it leaves in time, and says what may be left", async () => {
    await using front = await losingFront(server.url, Number.POSITIVE_INFINITY);
    const held = hold("silent", ["--ttl", "10m"], { url: front.url });
    await until("granted", async () => !(await isFree(server, "silent")));
    const toldAt = Date.now();
    held.child.kill("SIGTERM");
    assert.equal(await held.ended, 143, held.stderr());
    assert.ok(Date.now() - toldAt < 6000);
    assert.match(held.stderr(), /nothing was taken\. The server could not be asked .* expires by itself/);
  });

  test("a pipe that is full: SIGTERM ends it within 3 s, and the lease is released", async () => {
    // As much as a pipe takes, so that not one line of ours has room in it.
    const script = `(head -c 65536 /dev/zero; exec "$0" "$1" hold full --ttl 3s) | sleep 600`;
    const shell = spawn("bash", ["-c", script, process.execPath, mainFile], {
      cwd: "/",
      env: { ...process.env, HOLDFAST_URL: server.url, HOLDFAST_TOKEN: "secret-a" },
      stdio: "ignore",
      detached: true,
    });
    try {
      await until("granted", async () => !(await isFree(server, "full")));
      const { fencing_token: token } = await lockOf(server, "full");
      const pid = await until("it is found", () => pidOf(["hold", "full", "--ttl", "3s"]));
      const expiry = async (): Promise<number> => {
        const { body } = await call<{ expires_at: string }>(server, "GET", "/locks/full", {
          token: adminToken,
        });
        return Date.parse(body.expires_at);
      };
      const first = await expiry();
      await until(
        "it is renewed beyond its TTL, though nobody reads",
        async () => (await expiry()) > first + 3000,
      );
      assert.equal((await lockOf(server, "full")).fencing_token, token);
      const toldAt = Date.now();
      process.kill(pid, "SIGTERM");
      await until("it is gone", () => pidOf(["hold", "full", "--ttl", "3s"]) === undefined);
      assert.ok(Date.now() - toldAt < 3000, `${Date.now() - toldAt} ms`);
      assert.ok(await isFree(server, "full"));
    } finally {
      process.kill(-(shell.pid ?? 0), "SIGKILL");
    }
  });

  test("a server that is gone at the end: says until when it stays, ends with 5", async () => {
    const held = hold("gone", ["--ttl", "60s"]);
    await said(held, "acquired");
    server.kill("SIGKILL");
    held.child.kill("SIGTERM");
    assert.equal(await held.ended, 5);
    assert.match(
      held.stderr(),
      /^holdfast: gone could not be released, and ends by itself after \S+ \S+ UTC: No reply from /,
    );
    server = await server.restart();
  });
});

/** The process that was started with these words at its end. */
const pidOf = (words: readonly string[]): number | undefined =>
  readdirSync("/proc")
    .filter((entry) => /^\d+$/.test(entry))
    .map(Number)
    .find((pid) => contentOf(`/proc/${pid}/cmdline`).endsWith(`\0${words.join("\0")}\0`));

/** Stands before the server and keeps the replies to the first `losses` acquires to itself. */
async function losingFront(url: string, losses: number): Promise<AsyncDisposable & { readonly url: string }> {
  let left = losses;
  const front = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { authorization = "", "content-type": type = "application/json" } = request.headers;
    const method = request.method ?? "GET";
    const body = method === "GET" ? {} : { body: Buffer.concat(chunks) };
    const headers = { authorization, "content-type": type };
    const reply = await fetch(`${url}${request.url}`, { method, headers, ...body });
    const text = await reply.text();
    const isLost = request.url?.endsWith("/acquire") === true && left > 0;
    if (isLost) left -= 1;
    else response.writeHead(reply.status, { "content-type": "application/json" }).end(text);
  }).listen(0, "127.0.0.1");
  await once(front, "listening");
  return {
    url: `http://127.0.0.1:${(front.address() as { port: number }).port}`,
    async [Symbol.asyncDispose]() {
      front.closeAllConnections();
      front.close();
    },
  };
}
