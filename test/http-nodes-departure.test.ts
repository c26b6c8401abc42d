// A worker that hangs up at the very moment when it is given work: either it reads which, or nobody is on it.
import assert from "node:assert/strict";
import { connect } from "node:net";
import { after, before, test } from "node:test";
import { eventually } from "./http-api.js";
import { crew, startGraphServer } from "./http-node-api.js";
import { gauge } from "./security/soundness.js";
import type { Server } from "./server.js";
import { seeded } from "./store-lab.js";

const rounds = 40;
let server: Server;

before(async () => {
  server = await startGraphServer();
});
after(() => server.stop());

/** Asks for work and waits; says no more after `hangUp`, and gives what it was told until the server hung up as well. */
function halfWorker(token: string, fields: object): { hangUp: () => void; told: Promise<string> } {
  const body = JSON.stringify({ wait_seconds: 30, ...fields });
  const socket = connect({ port: server.port, host: "127.0.0.1", allowHalfOpen: true });
  socket.write(
    `POST /v1/queue/next HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  );
  let heard = "";
  socket.setEncoding("utf8").on("data", (text: string) => {
    heard += text;
  });
  const told = new Promise<string>((resolve) => socket.once("end", () => resolve(heard)));
  return { hangUp: () => socket.end(), told };
}

const waiting = (count: number): Promise<void> =>
  eventually(async () => assert.equal(await gauge(server, "work_waiters"), count));

test("no work is left with a caller that was told nothing", async (t) => {
  const seed = Date.now() % 1_000_000;
  t.diagnostic(`seed ${seed}`);
  const random = seeded(seed);
  const { graph, bob } = await crew(server);
  const ends = { told: 0, free: 0 };
  for (let round = 0; round < rounds; round++) {
    const worker = halfWorker(bob, {});
    await waiting(1);
    const created = graph.create();
    setTimeout(worker.hangUp, random(5));
    const id = await created;
    if ((await worker.told) !== "") {
      ends.told++;
      await graph.do("setNodeStatus", id, { status: "done" }, bob);
      continue;
    }
    ends.free++;
    await eventually(async () => {
      assert.equal((await graph.look(id)).lease, undefined, `${id}, seed ${seed}`);
      // It may be granted only now, and given back then.
      await graph.do("setNodeStatus", id, { status: "done" });
    });
  }
  assert.ok(ends.free > 0, `seed ${seed}: nobody left before it was given work in ${rounds} rounds`);
});

test("who waits and hangs up is forgotten; the work goes to who waits behind it", async () => {
  const { graph, ann, bob } = await crew(server);
  const left = halfWorker(ann, {});
  await waiting(1);
  const next = graph.next({ wait_seconds: 30 }, bob);
  await waiting(2);
  left.hangUp();
  await waiting(1);
  const id = await graph.create();
  assert.deepEqual([(await next).node.id, await left.told], [id, ""]);
  assert.equal((await graph.look(id)).lease?.by, "bob");
});
