// The proxies that deploy/ configures, for real, in front of two servers on one database: what a proxy can spoil (long waits,
// streams, encoded names, who the caller is) comes through unharmed, and a server that goes away is left out.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { type ProxyName, RealProxy } from "./deploy-proxy.js";
import { type Answered, send } from "./http-api.js";
import { watch } from "./http-stream.js";
import { Postgres } from "./postgres-lab.js";
import { type Server, startServer } from "./server.js";

const one = "secret-a";
const two = "secret-b";
let database: Postgres;
let servers: Server[];

before(async () => {
  database = await Postgres.start();
  const store = await database.database();
  const start = (): Promise<Server> => startServer({ args: ["--store", store] });
  servers = [await start(), await start()];
});
after(async () => {
  await Promise.all(servers.map((server) => server.stop()));
  await database.stop();
});

/** Every byte as %XX, so that nothing is left for a proxy to take as it is. */
const encoded = (name: string): string =>
  [...Buffer.from(name)].map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, "0")}`).join("");

const acquire = (proxy: RealProxy, name: string, body: object, token = one): Promise<Answered> =>
  send(proxy, "POST", `/locks/${encoded(name)}/acquire`, { token, body });

for (const name of ["haproxy", "nginx"] as const satisfies ProxyName[])
  describe(name, () => {
    let proxy: RealProxy;
    before(async () => {
      proxy = await RealProxy.start(
        name,
        servers.map(({ port }) => port),
      );
    });
    after(() => proxy.stop());

    test("takes the configuration without a warning", () => {
      const { status, text } = proxy.check();
      assert.equal(status, 0, text);
      assert.doesNotMatch(text, /warn|alert/i);
    });

    test("lets an acquire wait for some seconds, and grants it when the lease before it is over", async () => {
      const held = await acquire(proxy, `${name}-long`, { ttl_seconds: 4 });
      assert.equal(held.body.status, "acquired");
      const begunAt = performance.now();
      const next = await acquire(proxy, `${name}-long`, { ttl_seconds: 60, wait_seconds: 20 }, two);
      assert.equal(next.status, 200, next.text);
      assert.equal(next.body.fencing_token, held.body.fencing_token + 1);
      assert.ok(performance.now() - begunAt > 3000);
    });

    test("lets events through when they happen", async () => {
      const path = `/watch?prefix=${encoded(`${name}-seen/`)}`;
      const stream = await watch(proxy, path, { token: one });
      await stream.synced();
      for (const part of ["a", "b"]) {
        const begunAt = performance.now();
        const { body } = await acquire(proxy, `${name}-seen/${part}`, { ttl_seconds: 60 });
        const frame = await stream.next();
        assert.deepEqual([frame.event, frame.data.name], ["acquired", body.name]);
        // A proxy that gathers would hold it back until its buffer is full, or for ever.
        assert.ok(performance.now() - begunAt < 5000);
      }
      stream.close();
    });

    test("leaves a name of 256 bytes as it was encoded, %2F included", async () => {
      const start = `path:${name}/ä%2F/ö?#&/`;
      const long = start + "n".repeat(256 - Buffer.byteLength(start));
      for (const whole of [long, `${name}/a/b`]) {
        const { status, text, body } = await acquire(proxy, whole, { ttl_seconds: 60 });
        assert.equal(status, 200, text);
        assert.equal(body.name, whole);
        for (const server of servers) {
          const direct = await send(server, "GET", `/locks/${encoded(whole)}`, { token: one });
          assert.equal(direct.body.fencing_token, body.fencing_token);
        }
      }
    });

    test("says that callers come from elsewhere", async () => {
      assert.equal((await send(proxy, "GET", "/metrics")).status, 401);
    });

    test("sends nobody to a server that went away, and uses it again when it is back", async () => {
      const [first] = servers;
      assert.ok(first !== undefined);
      await first.stop();
      const again = async (part: string): Promise<void> => {
        const { status, text } = await acquire(proxy, `${name}-${part}`, { ttl_seconds: 60 });
        assert.equal(status, 200, text);
      };
      for (let i = 0; i < 10; i++) await again(`gone-${i}`);
      servers[0] = await first.restart();
      // Taken back after two good checks, or two seconds: then both are asked.
      for (const until = performance.now() + 20_000; ; await delay(100)) {
        assert.ok(performance.now() < until, "the server that came back gets calls");
        await again(`back-${until}-${performance.now()}`);
        const { text } = await send(servers[0], "GET", "/metrics");
        if (/route="acquireLock"[^\n]* [1-9]/.test(text)) break;
      }
    });
  });
