// A waiter that hangs up at the very moment of its grant: either it reads the grant, or nobody holds the name. And one that
// stays, and reads its grant behind other replies, has it.
import assert from "node:assert/strict";
import { connect } from "node:net";
import { after, before, test } from "node:test";
import { eventually, fresh, ok, waitersOn } from "./http-api.js";
import { exchange } from "./security/raw-exchange.js";
import { type Server, startServer } from "./server.js";
import { seeded } from "./store-lab.js";

const rounds = 60;
let server: Server;

before(async () => {
  server = await startServer();
});
after(() => server.stop());

/** Asks and waits; says no more after `hangUp`, and gives what it was told until the server hung up as well. */
function halfCaller(name: string): { hangUp: () => void; told: Promise<string> } {
  const body = JSON.stringify({ wait_seconds: 30, ttl_seconds: 60 });
  const socket = connect({ port: server.port, host: "127.0.0.1", allowHalfOpen: true });
  socket.write(
    `POST /locks/${name}/acquire HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer secret-b\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  );
  let heard = "";
  socket.setEncoding("utf8").on("data", (text: string) => {
    heard += text;
  });
  const told = new Promise<string>((resolve) => socket.once("end", () => resolve(heard)));
  return { hangUp: () => socket.end(), told };
}

test("no grant is left with a caller that was told nothing", async (t) => {
  const seed = Date.now() % 1_000_000;
  t.diagnostic(`seed ${seed}`);
  const random = seeded(seed);
  const ends = { told: 0, free: 0 };
  for (let round = 0; round < rounds; round++) {
    const name = fresh("departure");
    const lease = await ok(server, "acquireLock", { token: "secret-a", name });
    const caller = halfCaller(name);
    await waitersOn(server, "secret-v", name, 1);
    const released = ok(server, "releaseLock", {
      token: "secret-a",
      name,
      body: { lease_id: lease.lease_id },
    });
    setTimeout(caller.hangUp, random(5));
    await released;
    if ((await caller.told) !== "") {
      ends.told++;
      continue;
    }
    ends.free++;
    await eventually(async () => {
      const { status } = await ok(server, "getLock", { token: "secret-v", name });
      assert.equal(status, "free", `${name}, seed ${seed}: held by a caller that was told nothing`);
    });
  }
  assert.ok(ends.free > 0, `seed ${seed}: nobody left before its grant in ${rounds} rounds`);
});

const request = (path: string, body: object): string => {
  const text = JSON.stringify(body);
  return `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer secret-a\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`;
};

test("who sends several requests at once has all that it is told it has", async () => {
  const names = Array.from({ length: 3 }, () => fresh("pipelined"));
  const waiting = { wait_seconds: 1, ttl_seconds: 60 };
  const told = await exchange(
    server,
    names.map((name) => request(`/locks/${name}/acquire`, waiting)).join(""),
  );
  assert.deepEqual(
    told.map(({ body }) => body.status),
    ["acquired", "acquired", "acquired"],
  );
  for (const [i, name] of names.entries()) {
    const lease_id = told[i]?.body.lease_id;
    await ok(server, "renewLock", { token: "secret-a", name, body: { lease_id } });
  }
});

test("and so has who asks for work several times at once", async () => {
  const ids = Array.from({ length: 3 }, () => fresh("pipelined"));
  for (const id of ids)
    await ok(server, "createNode", { token: "secret-a", body: { id, type: "task", title: id } });
  const told = await exchange(server, ids.map(() => request("/v1/queue/next", {})).join(""));
  const claimed = told.map(({ body }) => (body as unknown as { lease: { node_id: string } }).lease.node_id);
  assert.deepEqual(claimed.toSorted(), ids.toSorted());
  for (const name of ids) await ok(server, "renewNode", { token: "secret-a", name });
});
