// Watching over a server that is killed and restarted and over connections that are cut: every change is told, in
// order and once.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { type Client, createClient, HoldfastError, type WatchEvent } from "../src/client/entry.js";
import { clientsOf, startFront, until } from "./client-lab.js";
import { call, type Server, startServer } from "./server.js";

/** Reads a stream into a list until it is told to stop. */
function follow(client: Client, prefix: string) {
  const stop = new AbortController();
  const events: WatchEvent[] = [];
  const ended = (async () => {
    for await (const event of client.watch({ prefix, signal: stop.signal })) events.push(event);
  })();
  const words = (): string[] =>
    events.map((event) =>
      "name" in event ? `${event.event} ${event.name} ${event.fencingToken}` : event.event,
    );
  return { events, words, ended, stop };
}

/** One grant and its end, as the stream tells it. */
async function turn(client: Client, name: string, expected: string[]): Promise<void> {
  const lease = await client.hold(name, { ttl: 600 });
  expected.push(`acquired ${name} ${lease.token}`);
  await lease.release();
  expected.push(`released ${name} ${lease.token}`);
}

const openStreams = async (server: Server): Promise<number> => {
  const { body } = await call<string>(server, "GET", "/metrics", { token: "operator-secret-for-tests" });
  return Number(/^holdfast_\w*streams\w*(?:\{[^}]*\})? (\d+)$/m.exec(body)?.[1] ?? Number.NaN);
};

describe("watch", () => {
  test("goes on over kills of the server and cuts of the connection: no gap, no repeat", async () => {
    let server = await startServer();
    await using front = await startFront(server.port);
    const { one } = clientsOf(server.url, { retries: 20 });
    const stream = follow(clientsOf(front.url).two, "w-");
    const expected = ["synced"];
    try {
      await until("synced", () => stream.words().includes("synced"));
      for (let round = 0; round < 12; round++) {
        for (let nth = 0; nth < 5; nth++) await turn(one, `w-${nth}`, expected);
        await turn(one, "unwatched", []);
        if (round % 4 === 3) server = await server.restart();
        else front.cut();
        // What happens while the stream is away, it tells when it is back.
        for (let nth = 0; nth < 5; nth++) await turn(one, `w-${nth}`, expected);
      }
      await until("all is told", () => stream.events.length >= expected.length);
      await delay(300);
      assert.deepEqual(stream.words(), expected);
      stream.stop.abort();
      await stream.ended;
    } finally {
      stream.stop.abort();
      await server[Symbol.asyncDispose]();
    }
  });

  test("one lock: its snapshot, then its changes", async () => {
    await using server = await startServer();
    const { one, two } = clientsOf(server.url);
    const told: string[] = [];
    await turn(one, "single", []);
    for await (const event of two.watch({ name: "single" })) {
      told.push(event.event);
      if (event.event === "synced") await turn(one, "single", []);
      if (event.event === "released") break;
    }
    assert.deepEqual(told, ["snapshot", "synced", "acquired", "released"]);
    await until("the connection is closed", async () => (await openStreams(server)) === 0);
  });

  test("ends on abort, also in silence and in the middle of what it was given", async () => {
    await using server = await startServer();
    const { one } = clientsOf(server.url);
    for (const nth of [1, 2, 3]) await one.locks.acquire(`s-${nth}`);
    const silent = follow(one, "s-");
    await until("synced", () => silent.words().includes("synced"));
    silent.stop.abort();
    await silent.ended;
    const stop = new AbortController();
    const told: string[] = [];
    for await (const event of one.watch({ prefix: "s-", signal: stop.signal })) {
      told.push(event.event);
      stop.abort();
    }
    assert.deepEqual(told, ["snapshot"]);
    for await (const _ of one.watch({ signal: AbortSignal.abort() })) assert.fail("it was over");
  });

  test("a snapshot that broke off begins anew, and says so", async () => {
    await using server = await startServer();
    await using front = await startFront(server.port);
    const { one } = clientsOf(server.url);
    for (let nth = 0; nth < 50; nth++) await one.locks.acquire(`long-${nth}`, { metadata: "m".repeat(500) });
    front.cutOnceAfter(20_000);
    const stream = follow(clientsOf(front.url).two, "long-");
    await until("synced", () => stream.words().includes("synced"));
    stream.stop.abort();
    await stream.ended;
    const words = stream.events.map((event) => event.event);
    const reset = words.indexOf("reset");
    assert.ok(reset > 5, `some of it was told before the cut: ${words}`);
    assert.deepEqual(words.slice(reset), ["reset", ...Array(50).fill("snapshot"), "synced"]);
  });

  test("tells when its connection is away and when it is back, each once", async () => {
    const server = await startServer();
    const told: (string | null)[] = [];
    const stop = new AbortController();
    const client = clientsOf(server.url).two;
    let isSynced = false;
    const ended = (async () => {
      const onConnection = (trouble: HoldfastError | null): void => void told.push(trouble?.code ?? null);
      for await (const { event } of client.watch({ onConnection, signal: stop.signal }))
        isSynced ||= event === "synced";
    })();
    await until("synced", () => isSynced);
    server.kill("SIGKILL");
    await until("it is away", () => told.length === 1);
    await using _ = await server.restart();
    await until("it is back", () => told.length === 2);
    stop.abort();
    await ended;
    assert.deepEqual(told, ["unreachable", null]);
  });

  test("what will not pass by itself is thrown", async () => {
    await using server = await startServer();
    const codeOf = async (client: Client): Promise<string> => {
      try {
        for await (const _ of client.watch()) assert.fail("it was let in");
      } catch (error) {
        if (error instanceof HoldfastError) return error.code;
        throw error;
      }
      return "none";
    };
    assert.equal(await codeOf(createClient({ url: server.url, token: "wrong" })), "authentication_failed");
    const nobody = createClient({ url: "http://127.0.0.1:9", token: "t", retries: 1 });
    assert.equal(await codeOf(nobody), "unreachable");
  });
});
