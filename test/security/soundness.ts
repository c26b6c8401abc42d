// What holds for every reply, whatever was sent: a definite status, the one error body, a request id, and neither a
// stack trace nor a secret of somebody else. Also what the tests of a hostile load look at beside replies: the
// server's gauges and its memory.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { type Answered, assertError, send } from "../http-api.js";
import { adminToken, defaultTokens, type Server } from "../server.js";
import { unprintable } from "./hostile-names.js";

/** The secrets of every server that a test starts. */
export const staticSecrets: readonly string[] = [
  adminToken,
  ...defaultTokens.split(",").map((entry) => entry.split(":")[1] ?? ""),
];

const innards = /\\n\s+at |node:internal|node_modules|\/dist\/|\.ts:\d+|SQLITE|\[object /;

/** `sent` is what the caller itself wrote: a reply may say that again. */
export function assertSound(reply: Answered, sent = "", secrets: Iterable<string> = staticSecrets): void {
  const { status, headers, text } = reply;
  const shown = `${status} ${text.slice(0, 500)}`;
  assert.ok((status >= 200 && status < 500) || status === 503, `no definite answer: ${shown}`);
  assert.match(String(headers["x-request-id"]), /^req_\w+$/, `no request id: ${shown}`);
  for (const [name, value] of Object.entries(headers))
    assert.match(String(value), /^[\t -~]*$/, `header ${name}: ${JSON.stringify(value)}`);
  const said = `${text}\n${JSON.stringify(headers)}`;
  for (const secret of secrets)
    assert.ok(!said.includes(secret) || sent.includes(secret), `a secret in a reply: ${shown}`);
  if (status < 400) return;
  if (text !== "") assertError(reply);
  assert.doesNotMatch(text, innards, `innards in a reply: ${shown}`);
  assert.doesNotMatch(
    typeof reply.body.error === "object" ? text : `${reply.body.details}${reply.body.error}`,
    unprintable,
    `not fit to be read: ${JSON.stringify(text)}`,
  );
}

/** One of the gauges that `GET /metrics` tells. */
export async function gauge(server: Server, name: string): Promise<number> {
  const { text } = await send(server, "GET", "/metrics");
  const value = new RegExp(`^holdfast_${name} (\\S+)$`, "m").exec(text)?.[1];
  assert.ok(value, `no gauge ${name}`);
  return Number(value);
}

/** Memory of the server's process that is in use, in MB. */
export function memoryMb({ pid }: Server): number {
  const kB = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return Number(kB) / 1024;
}

/** Nothing went wrong inside: no error was logged, and every line of the log is one JSON object. */
export function assertQuietLog(server: Server): void {
  for (const line of server.stderr().split("\n").filter(Boolean)) {
    const { level } = JSON.parse(line) as { level: number };
    assert.ok(level < 50, line);
  }
}
