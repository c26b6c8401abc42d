// One token that asks for far more than its share, while another works: the other's calls all succeed, at about the
// pace they have when it is calm; the flood is told what it is told in the contract; and when it ebbs nothing of it
// is left. Paces are compared within one run, never with a clock.
import assert from "node:assert/strict";
import { setMaxListeners } from "node:events";
import type { Socket } from "node:net";
import { type Answered, call, eventually, fresh, ok, send } from "../http-api.js";
import { type Watch, watch } from "../http-stream.js";
import { type Server, startServer } from "../server.js";
import { type Answer, Client } from "../system-client.js";
import { dial } from "./raw-exchange.js";
import { assertQuietLog, assertSound, gauge, memoryMb } from "./soundness.js";

const flooding = "secret-a";
const working = "secret-b";
const holding = "secret-c";
/** What the server of these tests lets in at once. */
export const waitersMax = 1000;
export const streamsMax = 200;
/** More than the other one calls in all: it must never be limited itself. */
const ratePerSecond = 400;
/** Calls that a hammer sends at once. */
const breath = 5;
/** How many times as long a call of the other may take, in the middle of all calls: the machine itself is not calm. */
const slowdownMax = 15;
const growthMaxMb = 200;

/** The other one's work: takes, keeps, sees and frees names. The middle of how long its calls took, in ms. */
async function work(server: Server): Promise<number> {
  const client = new Client(server.url, working, { sockets: 2 });
  const tookMs: number[] = [];
  const timed = async (ask: () => Promise<Answer>): Promise<Answer> => {
    const from = performance.now();
    const reply = await ask();
    tookMs.push(performance.now() - from);
    assert.equal(reply.status, 200, JSON.stringify(reply.body));
    return reply;
  };
  for (let i = 0; i < 25; i++) {
    const name = encodeURIComponent(fresh(i % 2 === 0 ? "work" : "path:work/x"));
    const { lease_id } = (await timed(() => client.acquire(name, { wait_seconds: 5 }))).body;
    await timed(() => client.renew(name, lease_id));
    await timed(() => client.look(name));
    await timed(() => client.release(name, lease_id));
  }
  client.close();
  return tookMs.sort((a, b) => a - b)[tookMs.length / 2] ?? 0;
}

/** Works before and during the flood: it must hardly show. */
async function compare(server: Server, flood: () => Promise<void>): Promise<void> {
  await work(server);
  const calm = await work(server);
  await flood();
  const flooded = await work(server);
  assert.ok(flooded < calm * slowdownMax, `${flooded.toFixed(2)} ms a call, ${calm.toFixed(2)} ms when calm`);
}

const becomes = (server: Server, name: string, value: number): Promise<void> =>
  eventually(async () => assert.equal(await gauge(server, name), value, name), 30_000);

function assertFull(replies: readonly Answered[], match: RegExp): void {
  assert.ok(replies.length > 0);
  for (const reply of replies) {
    assertSound(reply);
    assert.deepEqual([reply.status, reply.body.code], [503, "unavailable"], reply.text);
    assert.match(reply.body.details, match);
    assert.ok(Number(reply.headers["retry-after"]) >= 1);
  }
}

function assertGrown(server: Server, before: number): void {
  const grown = memoryMb(server) - before;
  assert.ok(grown < growthMaxMb, `${Math.round(grown)} MB more than before`);
}

async function ofWaiters(server: Server): Promise<void> {
  const most = waitersMax / 2;
  // Paths, because who frees one looks at all that wait for others; some of them waited for twice.
  const names = Array.from({ length: 0.6 * most }, () => fresh("path:flood/x"));
  const body = { ttl_seconds: 600 };
  await Promise.all(names.map((name) => ok(server, "acquireLock", { token: holding, name, body })));
  const before = memoryMb(server);
  const gone = new AbortController();
  const { signal } = gone;
  setMaxListeners(0, signal);
  const client = new Client(server.url, flooding, { sockets: most });
  let waits: Promise<unknown>[] = [];
  await compare(server, async () => {
    waits = [...names, ...names.slice(0, 0.4 * most)].map((name) =>
      client.acquire(encodeURIComponent(name), { wait_seconds: 600 }, { signal }).catch(() => undefined),
    );
    await becomes(server, "waiters", most);
    const more = names.map((name) =>
      call(server, "acquireLock", { token: flooding, name, body: { wait_seconds: 1 } }),
    );
    assertFull(await Promise.all(more), /of this principal wait already/);
  });
  const name = fresh("spare");
  const { lease_id } = await ok(server, "acquireLock", { token: holding, name });
  const granted = call(server, "acquireLock", { token: working, name, body: { wait_seconds: 60 } });
  await becomes(server, "waiters", most + 1);
  await ok(server, "releaseLock", { token: holding, name, body: { lease_id } });
  assert.equal((await granted).body.status, "acquired", "the other may wait, and gets what it waits for");
  assertGrown(server, before);
  gone.abort();
  await Promise.all(waits);
  client.close();
  await becomes(server, "waiters", 0);
}

async function ofStreams(server: Server): Promise<void> {
  const before = memoryMb(server);
  const prefix = fresh("flood");
  const open = async (token: string): Promise<Watch> => {
    const stream = await watch(server, `/watch?prefix=${prefix}`, { token });
    await stream.synced();
    return stream;
  };
  let streams: Watch[] = [];
  await compare(server, async () => {
    streams = await Promise.all(Array.from({ length: streamsMax / 2 }, () => open(flooding)));
    // One that is let in would never end.
    const signal = AbortSignal.timeout(10_000);
    const ask = (): Promise<Answered> => send(server, "GET", "/watch", { token: flooding, signal });
    assertFull(await Promise.all(Array.from({ length: 20 }, ask)), /Too many streams/);
    streams.push(await open(working));
  });
  assert.equal(await gauge(server, "streams"), streamsMax / 2 + 1);
  const name = `${prefix}-told`;
  await ok(server, "acquireLock", { token: working, name });
  const told = await Promise.all(streams.map((stream) => stream.next()));
  assert.ok(told.every(({ event, data }) => event === "acquired" && data.name === name));
  assertGrown(server, before);
  for (const stream of streams) stream.close();
  await becomes(server, "streams", 0);
}

async function ofCalls(): Promise<void> {
  await using server = await startServer({
    env: { HOLDFAST_OVERLOAD_MS: "off", HOLDFAST_RATE_LIMIT: String(ratePerSecond) },
  });
  const hammers = [new Hammer(flooding), new Hammer(flooding), new Hammer("nobody")];
  try {
    await compare(server, async () => {
      // More at once than a token may send in a second, then on and on.
      await Promise.all(hammers.map((hammer) => hammer.start(server, ratePerSecond)));
      await eventually(async () => assert.ok(hammers.every(({ refused }) => refused > 0)));
    });
  } finally {
    for (const hammer of hammers) hammer.stop();
  }
  const statuses = new Set(hammers.flatMap((hammer) => [...hammer.statuses]));
  assert.deepEqual(statuses, new Set(["200", "429", "401"]));
  const burst = Array.from({ length: 2 * ratePerSecond }, () => call(server, "whoami", { token: flooding }));
  const over = (await Promise.all(burst)).filter(({ status }) => status !== 200);
  assert.ok(over.length > 0);
  for (const reply of over) {
    assertSound(reply);
    assert.deepEqual([reply.status, reply.body.code], [429, "rate_limited"]);
    assert.ok(Number(reply.headers["retry-after"]) >= 1 && reply.body.retry_after_ms > 0);
  }
  await server.stop();
  assertQuietLog(server);
}

/** Asks again as soon as it was answered, several times in one breath, and looks at the status alone. */
class Hammer {
  readonly statuses = new Set<string>();
  refused = 0;
  #socket: Socket | undefined;

  constructor(readonly token: string) {}

  async start(server: Server, first: number): Promise<void> {
    const socket = await dial(server);
    this.#socket = socket;
    const one = `GET /locks/x HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${this.token}\r\n\r\n`;
    let due = first;
    socket.setEncoding("latin1").on("data", (text: string) => {
      for (const [, status = ""] of text.matchAll(/HTTP\/1\.1 (\d{3})/g)) {
        this.statuses.add(status);
        if (status !== "200") this.refused++;
        due--;
      }
      if (due > 0) return;
      due = breath;
      socket.write(one.repeat(breath));
    });
    socket.write(one.repeat(first));
  }

  stop(): void {
    this.#socket?.destroy();
  }
}

export const floods: Readonly<Record<string, (server: Server) => Promise<void>>> = {
  "of waiters: half of the places stay for others": ofWaiters,
  "of streams: half of the places stay for others": ofStreams,
  "of calls: refused with 429, and with 401 where nobody knows the token": ofCalls,
};
