// Bare etcd from Node, without Holdfast: transactions that put one new key each, so many at once, by gRPC as the engine speaks it
// or by etcd's JSON gateway. What the engine is measured beside.

import { Agent, request } from "node:http";
import { Connection } from "../src/engines/etcd/connection.js";
import { decodeTxn, encodeTxn, methods } from "../src/engines/etcd/messages.js";
import type { Speed } from "./findings.js";
import { Histogram } from "./histogram.js";

export type Transport = "gRPC" | "JSON gateway";

/** About as long as the record of a lease. */
const VALUE = "x".repeat(200);
const CALL_WITHIN_MS = 30_000;

/** Puts one key that must not be there yet. */
type Put = (key: string) => Promise<void>;

/** `seconds` of puts, `connections` of them at a time. */
export async function driveBare(
  transport: Transport,
  port: number,
  stem: string,
  connections: number,
  seconds: number,
): Promise<Speed> {
  const { put, close } = transport === "gRPC" ? await overGrpc(port) : overGateway(port, connections);
  const latencies = new Histogram();
  const startedAt = performance.now();
  const until = startedAt + seconds * 1000;
  let done = 0;
  const loop = async (slot: number): Promise<void> => {
    for (let i = 0; performance.now() < until; i += 1) {
      const sentAt = performance.now();
      await put(`bare/${stem}/${slot}/${i}`);
      latencies.record(performance.now() - sentAt);
      done += 1;
    }
  };
  await Promise.all(Array.from({ length: connections }, (_, slot) => loop(slot)));
  const elapsedMs = performance.now() - startedAt;
  close();
  return {
    perSecond: done / (elapsedMs / 1000),
    p50Ms: latencies.percentile(0.5),
    p99Ms: latencies.percentile(0.99),
  };
}

async function overGrpc(port: number): Promise<{ put: Put; close: () => void }> {
  const connection = await Connection.open({ authority: `127.0.0.1:${port}`, tls: null }, CALL_WITHIN_MS);
  const put: Put = async (key) => {
    const txn = {
      compare: [{ key, revision: 0 }],
      changes: new Map([[key, VALUE]]),
      reads: [],
      otherwise: [],
    };
    const { succeeded } = decodeTxn(
      await connection.call(methods.txn, encodeTxn(txn, 128), CALL_WITHIN_MS, null, false),
    );
    if (!succeeded) throw new Error(`${key} was there already`);
  };
  return { put, close: () => connection.close() };
}

function overGateway(port: number, connections: number): { put: Put; close: () => void } {
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const value = Buffer.from(VALUE).toString("base64");
  const put: Put = (text) => {
    const key = Buffer.from(text).toString("base64");
    const body = JSON.stringify({
      compare: [{ key, target: "MOD", mod_revision: "0", result: "EQUAL" }],
      success: [{ request_put: { key, value } }],
    });
    return new Promise((resolve, reject) => {
      const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
      const call = request(
        { host: "127.0.0.1", port, path: "/v3/kv/txn", method: "POST", agent, headers },
        (response) => {
          let answer = "";
          response.setEncoding("utf8");
          response.on("data", (part) => {
            answer += part;
          });
          response.on("end", () =>
            JSON.parse(answer).succeeded === true ? resolve() : reject(new Error(answer.slice(0, 300))),
          );
        },
      );
      call.on("error", reject);
      call.end(body);
    });
  };
  return { put, close: () => agent.destroy() };
}
