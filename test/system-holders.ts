// Holders of short leases that renew them while something else happens to the server, and say how that went.
import { setTimeout as delay } from "node:timers/promises";
import { type Client, until, untilStatus } from "./system-client.js";

/** One in five is bound to a session and kept alive by it. */
interface Holder {
  readonly name: string;
  readonly path: string;
  readonly body: object;
  readonly token: number;
}

export interface Held {
  readonly renewed: number;
  /** Refusals, in words. */
  readonly failed: readonly string[];
  readonly slowestMs: number;
  /** Whether every holder still had the lease that it began with. */
  readonly isKept: boolean;
}

const ttlSeconds = 2;
const renewEveryMs = 600;

/** Takes `count` leases and renews them until `end`, which first looks whether they are all there. */
export async function startHolders(
  client: Client,
  count: number,
  prefix = "holder",
): Promise<{ end(): Promise<Held> }> {
  const holders = await Promise.all(
    Array.from({ length: count }, (_, nth) => take(client, `${prefix}-${nth}`, nth)),
  );
  const failed: string[] = [];
  let [renewed, slowestMs, isOver] = [0, 0, false];
  const loops = holders.map(async ({ name, path, body }, nth) => {
    await delay((nth * renewEveryMs) / count); // spread over the period, as real ones are
    while (!isOver) {
      const from = performance.now();
      const reply = await client.post(path, body);
      const tookMs = performance.now() - from;
      slowestMs = Math.max(slowestMs, tookMs);
      if (reply.status === 200) renewed++;
      else failed.push(`${name}: ${reply.status} ${reply.body.code}`);
      await delay(Math.max(0, renewEveryMs - tookMs));
    }
  });
  return {
    end: async () => {
      const kept = await Promise.all(
        holders.map(async ({ name, token }) => {
          const { body } = await untilStatus(client, `/locks/${name}`, 200); // reads are refused first
          return body.fencing_token === token;
        }),
      );
      isOver = true;
      await Promise.all(loops);
      return { renewed, failed, slowestMs, isKept: kept.every(Boolean) };
    },
  };
}

async function take(client: Client, name: string, nth: number): Promise<Holder> {
  if (nth % 5 !== 0) {
    const body = await insisting(() => client.acquire(name, { ttl_seconds: ttlSeconds }));
    const { lease_id, fencing_token: token } = body;
    return { name, path: `/locks/${name}/renew`, body: { lease_id }, token };
  }
  const { session_id } = await insisting(() => client.post("/sessions", { ttl_seconds: 5 }));
  const { fencing_token: token } = await insisting(() => client.acquire(name, { session_id }));
  return { name, path: `/sessions/${session_id}/keepalive`, body: {}, token };
}

/** A server that has just started on a busy machine may refuse for a moment. */
function insisting<Body>(
  ask: () => Promise<{ readonly status: number; readonly body: Body }>,
): Promise<Body> {
  return until(async () => {
    const { status, body } = await ask();
    return status < 300 ? body : undefined;
  }, "the holders have their leases");
}
