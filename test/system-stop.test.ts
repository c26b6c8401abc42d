// SIGTERM and SIGINT: not ready at once; waiters and streams are told to come back; what is in work is finished;
// whoever calls meanwhile is told; the exit code is 0 within 10 s, whatever clients do.
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { describe, test } from "node:test";
import { startServer } from "./server.js";
import { Client, eventOf, logLines, until, untilStatus, watching } from "./system-client.js";

const stopMaxMs = 10_000;

describe("a stop", { concurrency: 2 }, () => {
  for (const [signal, end] of [
    ["SIGTERM", "finishes what is in work"],
    ["SIGINT", "cuts off what never ends"],
  ] as const)
    test(`${signal} tells everybody, ${end}, and exits with 0 in time`, async () => {
      await using server = await startServer();
      const client = new Client(server.url, "secret-a");
      const other = new Client(server.url, "secret-b");
      const { body: lease } = await client.acquire("taken", { ttl_seconds: 600 });
      const idle = await Promise.all(Array.from({ length: 8 }, () => idleConnection(server.port)));
      const waiting = other.acquire("taken", { wait_seconds: 60, request_id: "wait-1" });
      const stream = watching(other, "/watch?prefix=t");
      await eventOf(stream, "synced");
      await until(
        async () => ((await client.look("taken")).body.waiters === 1 ? true : undefined),
        "one waits",
      );
      // The server let it in and told it to go on; half of its body is sent.
      const text = JSON.stringify({ ttl_seconds: 600, metadata: "in work" });
      const inWork = client.open("POST", "/locks/in-work/acquire", text, {
        headers: { expect: "100-continue" },
      });
      inWork.flushHeaders();
      await once(inWork, "continue");
      inWork.write(text.slice(0, 10));
      const metrics = String((await client.get("/metrics")).body);
      assert.match(metrics, /^holdfast_requests_in_work 1$/m, "only the metrics: a slow sender is no load");
      const busy = keepSending(new Client(server.url, "secret-a", { sockets: 2 }));

      const from = performance.now();
      server.kill(signal);
      const notReady = await untilStatus(client, "/ready", 503);
      assert.ok(performance.now() - from < 2000, "not ready at once");
      assert.equal(notReady.body.code, "unavailable");
      const refused = await client.acquire("too-late");
      assert.deepEqual([refused.status, refused.body.code], [503, "unavailable"]);
      assert.match(refused.body.details, /stopping/);
      assert.ok(Number(refused.headers["retry-after"]) >= 1);
      const told = await waiting;
      assert.deepEqual([told.status, told.body.code], [503, "unavailable"]);
      assert.match(told.body.details, /same request id/);
      assert.ok(Number(told.headers["retry-after"]) >= 1);
      assert.equal((await eventOf(stream, "reconnect")).event, "reconnect");
      assert.ok((await stream.next()).done, "the stream is ended");

      if (signal === "SIGTERM") {
        // Only now comes the rest of the request that was in work.
        inWork.end(text.slice(10));
        const [reply] = await once(inWork, "response");
        assert.equal(reply.statusCode, 200);
        reply.resume();
      } else inWork.on("error", () => undefined);
      await Promise.all(idle.map((socket) => once(socket, "close")));
      assert.equal(await server.exited, 0);
      assert.ok(performance.now() - from < stopMaxMs);
      await busy.over;
      assert.deepEqual(busy.strange, [], "each call got an answer of ours, or no connection");
      assert.deepEqual(
        logLines(server)
          .map(({ msg }) => msg)
          .slice(-2),
        ["stopping", "stopped"],
      );

      await using again = await server.restart();
      assert.equal((await client.renew("taken", lease.lease_id)).status, 200);
      assert.equal((await client.look("in-work")).body.status, signal === "SIGTERM" ? "held" : "free");
      for (const name of ["too-late", ...busy.refused])
        assert.equal((await client.look(name)).body.fencing_token, 0, `${name}: certainly not done`);
      client.close();
      other.close();
      assert.equal(await again.stop(), 0);
    });
});

/** A connection that was used once and is kept open by its client. */
async function idleConnection(port: number): Promise<Socket> {
  const socket = connect(port, "127.0.0.1");
  await once(socket, "connect");
  socket.on("error", () => undefined);
  socket.write("GET /ready HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
  await once(socket, "data");
  socket.resume();
  return socket;
}

interface Sending {
  readonly over: Promise<void>;
  /** Answers that are none of ours. */
  readonly strange: string[];
  /** Names that were refused. */
  readonly refused: string[];
}

/** Calls without pause until nobody listens any more. */
function keepSending(client: Client): Sending {
  const [strange, refused]: [string[], string[]] = [[], []];
  const loop = async (i: number): Promise<void> => {
    let resets = 0;
    for (let step = 0; ; step++) {
      const name = `busy-${i}-${step}`;
      try {
        const { status, body } = await client.acquire(name, { ttl_seconds: 600 });
        if (status === 503 && body.code === "unavailable" && body.details !== "") refused.push(name);
        else if (status !== 200 || resets > 0) strange.push(`${status} ${JSON.stringify(body)}`);
      } catch (error) {
        // One connection may be kept open and one be in the door when it closes; after them nobody listens.
        refused.push(name);
        const { code } = error as NodeJS.ErrnoException;
        if (code === "ECONNREFUSED") return;
        if (++resets > 2) strange.push(String(code));
      }
    }
  };
  return { over: Promise.all([loop(1), loop(2)]).then(() => client.close()), strange, refused };
}
