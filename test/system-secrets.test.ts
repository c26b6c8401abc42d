// A busy run with everything that goes wrong in it, at the most talkative log level: the log is JSON on standard
// error, and neither it nor standard output holds a bearer token, a lease id or a session id.
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { test } from "node:test";
import { adminToken, startServer } from "./server.js";
import { assertNoSecrets, Client, eventOf, logLines, watching } from "./system-client.js";

test("no secret is ever logged", async () => {
  await using server = await startServer({
    env: { HOLDFAST_LOG_LEVEL: "trace", HOLDFAST_RATE_LIMIT: "200" },
  });
  const [worker, other, admin] = ["secret-a", "secret-b", adminToken].map(
    (bearer) => new Client(server.url, bearer),
  );
  assert.ok(worker !== undefined && other !== undefined && admin !== undefined);
  const wrong = "hf_AAAAAAAAAAAA_wrongwrongwrongwrongwrong";
  const secrets = new Set(["secret-a", "secret-b", "secret-v", "secret-c", adminToken, wrong]);

  // Whatever succeeds.
  const { body: lease } = await worker.acquire("busy", { ttl_seconds: 1 });
  const { body: job } = await worker.post("/jobs/job-1/claim");
  const { body: session } = await worker.post("/sessions", { ttl_seconds: 5 });
  const { body: bound } = await worker.acquire("bound", { session_id: session.session_id });
  for (const id of [lease.lease_id, job.lease_id, session.session_id, bound.lease_id]) secrets.add(id);
  const { body: made } = await admin.post("/tokens", { name: "made" });
  const { token, id } = made as unknown as { token: string; id: string };
  secrets.add(token);
  const stranger = new Client(server.url, token);
  const stream = watching(stranger, "/watch");
  await eventOf(stream, "synced");
  await worker.post(`/sessions/${session.session_id}/keepalive`);
  await worker.get(`/sessions/${session.session_id}`);
  await admin.post(`/tokens/${id}/rotate`);
  assert.equal((await stranger.get("/whoami")).status, 401, "the old secret is out");
  for await (const _ of stream);
  await admin.del("/locks/job-1", { reason: "to see what is written" });
  await worker.post("/jobs/job-1/heartbeat", { lease_id: job.lease_id });

  // Whatever fails: refusals, bad input, wrong tokens, broken requests, connections that go away.
  const taken = await other.acquire("busy", { wait_seconds: 5 });
  assert.equal(taken.body.status, "acquired", "it expired meanwhile");
  secrets.add(taken.body.lease_id);
  await worker.renew("busy", lease.lease_id);
  await worker.release("nothing", lease.lease_id);
  await worker.post("/locks/busy/renew", { lease_id: lease.lease_id, nonsense: lease.lease_id });
  await worker.post("/locks/busy/renew", { lease_id: [lease.lease_id] });
  await worker.acquire("busy", { session_id: session.session_id.replace(/.$/, "x") });
  await worker.acquire("invalid!@name", { lease_id: lease.lease_id });
  await worker.get(`/no/such/${session.session_id}`);
  await worker.call("PUT", `/sessions/${session.session_id}`, {}, {});
  await worker.get("/locks?cursor=xx&limit=0");
  await new Client(server.url, wrong).acquire("busy");
  await new Client(server.url, null).acquire("busy");
  await new Client(server.url, `${token} `.trim().slice(0, -2)).acquire("busy");
  await broken(
    server.port,
    `POST /locks/busy/renew HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret-a\r\n`,
  );
  await broken(server.port, `GARBAGE secret-a ${lease.lease_id}\r\n\r\n`);
  await broken(
    server.port,
    `POST /locks/busy/renew HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer secret-a\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{"lease_id":"${lease.lease_id}"`,
  );
  await broken(
    server.port,
    `POST /locks/busy/renew HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer secret-a\r\nX: ${"x".repeat(20_000)}\r\n\r\n`,
  );
  const floods = await Promise.all(Array.from({ length: 400 }, () => worker.look("busy")));
  assert.ok(floods.some(({ status }) => status === 429));
  await worker.del(`/sessions/${session.session_id}`);
  const waiting = other.acquire("job-2", { wait_seconds: 1 });
  await waiting;

  server.kill("SIGTERM");
  await server.exited;
  for (const client of [worker, other, admin, stranger]) client.close();
  assert.ok(logLines(server).length >= 4, "start and stop are told");
  assertNoSecrets(server, secrets);
  // Nor in another spelling, as the bytes of a packet.
  const bytes = [...Buffer.from("secret-a")].join(",");
  assert.ok(!server.stderr().includes(bytes), "the bytes of a secret stand in the log");
});

/** Sends something that is no request, or not all of one, and goes away once it was answered or a moment passed. */
async function broken(port: number, text: string): Promise<void> {
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => undefined);
  await once(socket, "connect");
  socket.write(text);
  const answered = new Promise((resolve) => socket.once("data", resolve));
  await Promise.race([answered, once(socket, "close"), new Promise((resolve) => setTimeout(resolve, 100))]);
  socket.destroy();
}
