// Far more load than the server can carry, beside a hundred holders of short leases: none of them loses its lease,
// and who is refused is told when to come back. Slow senders are cut off, and so are connections beyond the limit.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { startServer } from "./server.js";
import { Client, until } from "./system-client.js";
import type { Hammered } from "./system-hammer.js";
import { startHolders } from "./system-holders.js";

const hammerFile = fileURLToPath(new URL("./system-hammer.js", import.meta.url));
/** Requests outstanding at any time: several times what the gate lets in. */
const connections = 500;
const depth = 5;
const loadMs = 6000;

// The second mostly waits: it runs beside the first.
describe("a server under siege", { concurrency: 2 }, () => {
  test("at several times the load 100 holders of 2 s leases keep them, and the refused are told when to come back", async (t) => {
    await using server = await startServer({
      env: { HOLDFAST_RATE_LIMIT: "off", HOLDFAST_OVERLOAD_MS: undefined },
    });
    const client = new Client(server.url, "secret-a", { sockets: 120 });
    const holders = await startHolders(client, 100);
    await using hammer = startHammer(server.port);
    await delay(loadMs);
    const { statuses, withoutRetryAfter, cut } = await hammer.stop();
    await until(
      async () => ((await client.look("holder-0")).status === 200 ? true : undefined),
      "reads are let in",
    );
    const { renewed, failed, slowestMs, isKept } = await holders.end();
    const perSecond = Object.entries(statuses).map(
      ([status, count]) => `${Math.round(count / (loadMs / 1000))} × ${status} a second`,
    );
    t.diagnostic(
      `${renewed} renewals, slowest ${Math.round(slowestMs)} ms; the load got ${perSecond.join(", ")}, ${cut} cut`,
    );
    assert.ok(renewed > 500, `${renewed} renewals`);
    assert.ok(
      failed.length <= renewed / 1000,
      `${failed.length} failed of ${renewed}: ${failed.slice(0, 5)}`,
    );
    assert.ok(isKept, "every holder has its lease");
    assert.deepEqual(Object.keys(statuses).sort(), ["200", "503"]);
    assert.ok((statuses["503"] ?? 0) > 0, "some were refused");
    assert.equal(withoutRetryAfter, 0);
    client.close();
  });

  test("slow senders and connections beyond the limit are cut off, others go on", async () => {
    const connectionsMax = 40;
    await using server = await startServer({
      env: { HOLDFAST_CONNECTIONS_MAX: String(connectionsMax), HOLDFAST_OVERLOAD_MS: undefined },
    });
    const slow = await Promise.all(Array.from({ length: 5 }, () => open(server.port)));
    const from = performance.now();
    for (const { socket } of slow) {
      socket.write("POST /locks/slow/acquire HTTP/1.1\r\nHost: 127.0.0.1\r\n");
      // A byte now and then must not keep it alive.
      const drip = setInterval(() => socket.write("X"), 200);
      socket.once("close", () => clearInterval(drip));
    }
    const client = new Client(server.url, "secret-a", { sockets: 1 });
    assert.equal((await client.acquire("mine")).status, 200);
    const crowd = await Promise.all(Array.from({ length: connectionsMax + 10 }, () => open(server.port)));
    await until(
      () => (crowd.filter(({ socket }) => socket.destroyed).length >= 16 ? true : undefined),
      "those beyond the limit are cut",
    );
    assert.equal((await client.look("mine")).status, 200, "who was there before goes on");
    for (const { socket } of crowd) socket.destroy();
    await until(async () => {
      const late = new Client(server.url, "secret-a", { sockets: 1 });
      const reply = await late.look("mine").catch(() => undefined);
      late.close();
      return reply?.status === 200 ? true : undefined;
    }, "there is room again");

    await Promise.all(slow.map(({ closed }) => closed));
    const tookMs = performance.now() - from;
    assert.ok(tookMs > 5000 && tookMs < 20_000, `slow headers were cut after ${tookMs} ms`);
    for (const { received } of slow) assert.match(received(), /^HTTP\/1\.1 408 |^$/);
    client.close();
  });
});

/** The load, in a process of its own, so that it does not slow down the holders' own side. */
function startHammer(port: number): AsyncDisposable & { stop(): Promise<Hammered> } {
  const args = [hammerFile, String(port), String(connections), String(depth)];
  const hammer = spawn(process.execPath, args, { stdio: ["pipe", "pipe", "inherit"] });
  const exited = once(hammer, "exit");
  let output = "";
  hammer.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
  });
  return {
    stop: async () => {
      hammer.stdin.end();
      await exited;
      return JSON.parse(output) as Hammered;
    },
    [Symbol.asyncDispose]: async () => {
      hammer.kill("SIGKILL");
      await exited;
    },
  };
}

interface Opened {
  readonly socket: Socket;
  readonly closed: Promise<unknown>;
  received(): string;
}

async function open(port: number): Promise<Opened> {
  const socket = connect(port, "127.0.0.1");
  let text = "";
  socket.on("error", () => undefined);
  socket.setEncoding("utf8").on("data", (part: string) => {
    text += part;
  });
  const closed = once(socket, "close");
  await Promise.race([once(socket, "connect"), closed]);
  return { socket, closed, received: () => text };
}
