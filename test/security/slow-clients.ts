// Clients that send slowly, or read slowly or not at all: they hold up nobody, keep no memory, are cut off where they
// overstay, and a token that ends meanwhile can do nothing with what it began before.
import assert from "node:assert/strict";
import { once } from "node:events";
import type { Socket } from "node:net";
import { call, eventually, fresh, ok, send, type TokenBody } from "../http-api.js";
import { adminToken as operator, type Server } from "../server.js";
import { dial } from "./raw-exchange.js";
import { assertSound, gauge, memoryMb } from "./soundness.js";

const slow = "secret-a";
const other = "secret-b";
/** More than the requests that the server works on at once before it refuses to be asked anything. */
const bodiesAtOnce = 2_100;
/** MB. Without a bound it would be thousands. */
const growthMaxMb = 300;
/** The longest metadata, six bytes a character on the wire. */
const wide = "\u0001".repeat(1024);

const head = (token: string): string => `Host: 127.0.0.1\r\nAuthorization: Bearer ${token}\r\n`;
const acquiring = (token: string, name: string, length: number): string =>
  `POST /locks/${name}/acquire HTTP/1.1\r\n${head(token)}Content-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`;

const firstLine = async (socket: Socket): Promise<string> => {
  const [data] = (await once(socket, "data")) as [Buffer];
  return data.toString().split("\r\n")[0] ?? "";
};

const dials = (server: Server, count: number): Promise<Socket[]> =>
  Promise.all(Array.from({ length: count }, () => dial(server)));

const hangUp = (sockets: readonly Socket[]): void => {
  for (const socket of sockets) socket.destroy();
};

async function connections(server: Server): Promise<number> {
  const { text } = await send(server, "GET", "/metrics");
  return Number(/^holdfast_nodejs_active_resources\{type="TCPSocketWrap"\} (\d+)$/m.exec(text)?.[1]);
}

const make = (server: Server): Promise<TokenBody> =>
  ok<TokenBody>(server, "createToken", { token: operator, body: { name: fresh("slow") } });

/** Takes as long as the server's patience with a request, half a minute. */
export async function drippingBody(server: Server): Promise<void> {
  const name = fresh("drip");
  const socket = await dial(server);
  socket.write(`${acquiring(slow, name, 1000)}{`);
  // A byte now and then must not keep it alive.
  const drip = setInterval(() => socket.write(" "), 200);
  const line = await firstLine(socket);
  clearInterval(drip);
  assert.equal(line, "HTTP/1.1 408 Request Timeout");
  socket.destroy();
  assert.equal((await ok(server, "getLock", { token: other, name })).fencing_token, 0);
}

async function manyBodies(server: Server): Promise<void> {
  const sockets = await dials(server, bodiesAtOnce);
  for (const [i, socket] of sockets.entries()) socket.write(`${acquiring(slow, `body-${i}`, 2)}{`);
  await eventually(async () => assert.ok((await connections(server)) >= bodiesAtOnce, "not all are there"));
  for (let i = 0; i < 20; i++) {
    const name = fresh("beside");
    const lease = await call(server, "acquireLock", { token: other, name });
    assert.equal(lease.status, 200, lease.text);
    assert.equal((await call(server, "getLock", { token: other, name })).status, 200);
    await ok(server, "releaseLock", { token: other, name, body: { lease_id: lease.body.lease_id } });
  }
  assert.ok((await gauge(server, "requests_in_work")) < 10);
  const lines = sockets.map(firstLine);
  for (const socket of sockets) socket.write("}");
  assert.deepEqual(new Set(await Promise.all(lines)), new Set(["HTTP/1.1 200 OK"]));
  hangUp(sockets);
}

async function tokenEnds(server: Server): Promise<void> {
  for (const end of ["revokeToken", "rotateToken"] as const) {
    const { id, token } = await make(server);
    const name = fresh("late");
    const [taking, waiting] = [await dial(server), await dial(server)];
    taking.write(`${acquiring(token, name, 2)}{`);
    waiting.write(`${acquiring(token, name, 19)}{`);
    await ok(server, end, { token: operator, name: id });
    taking.write("}");
    assert.equal(await firstLine(taking), "HTTP/1.1 401 Unauthorized");
    waiting.write('"wait_seconds":60}');
    assert.equal(await firstLine(waiting), "HTTP/1.1 401 Unauthorized");
    assert.equal((await ok(server, "getLock", { token: other, name })).fencing_token, 0);
    hangUp([taking, waiting]);
  }
}

async function unreadPages(server: Server): Promise<void> {
  const body = { metadata: wide, ttl_seconds: 600 };
  const names = Array.from({ length: 1000 }, (_, i) => `page-${i}`);
  await Promise.all(names.map((name) => ok(server, "acquireLock", { token: other, name, body })));
  const before = memoryMb(server);
  const query = { prefix: "page-", limit: "1000" };
  const asked = `GET /locks?prefix=page-&limit=1000 HTTP/1.1\r\n${head(slow)}\r\n`;
  // One page is more than the kernel keeps for a connection.
  const sockets = await dials(server, 10);
  for (const socket of sockets) socket.pause().write(asked.repeat(400));
  await eventually(async () => {
    const reply = await send(server, "GET", "/locks?limit=1000", { token: slow });
    assertSound(reply);
    assert.deepEqual([reply.status, reply.body.code], [503, "unavailable"]);
    assert.match(reply.body.details, /pages of lists/);
  }, 15_000);
  const page = await ok(server, "listLocks", { token: other, query });
  assert.equal(page.locks.length, names.length, "half of the room is for others");
  const grown = memoryMb(server) - before;
  assert.ok(grown < growthMaxMb, `${Math.round(grown)} MB more than before`);
  hangUp(sockets);
  await eventually(async () =>
    assert.equal((await call(server, "listLocks", { token: slow, query })).status, 200),
  );
}

async function unreadStreams(server: Server): Promise<void> {
  const { id, token } = await make(server);
  const name = fresh("noise");
  const body = { metadata: wide, ttl_seconds: 600 };
  const { lease_id } = await ok(server, "acquireLock", { token: other, name, body });
  const before = memoryMb(server);
  const sockets = await dials(server, 5);
  for (const socket of sockets)
    socket.pause().write(`GET /locks/${name}/watch HTTP/1.1\r\n${head(token)}\r\n`);
  await eventually(async () => assert.equal(await gauge(server, "streams"), sockets.length));
  for (let i = 0; i < 30; i++)
    await Promise.all(
      Array.from({ length: 50 }, () => ok(server, "renewLock", { token: other, name, body: { lease_id } })),
    );
  assert.equal(await gauge(server, "streams"), sockets.length, "who does not read is not cut off for that");
  const grown = memoryMb(server) - before;
  assert.ok(grown < growthMaxMb, `${Math.round(grown)} MB more than before`);
  const open = await connections(server);
  await ok(server, "revokeToken", { token: operator, name: id });
  await eventually(async () => assert.equal(await gauge(server, "streams"), 0));
  await eventually(async () =>
    assert.ok((await connections(server)) <= open - sockets.length, "they are kept open"),
  );
  hangUp(sockets);
}

export const slowClients: Readonly<Record<string, (server: Server) => Promise<void>>> = {
  "any number of bodies on their way hold up nobody, and are done once they are here": manyBodies,
  "a token that ends while a body arrives can do nothing with it": tokenEnds,
  "pages that nobody reads are refused before they fill the memory": unreadPages,
  "streams that nobody reads keep little, and end with their token": unreadStreams,
};
