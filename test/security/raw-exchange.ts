// HTTP by hand, for what no client library sends: bytes go out as they are, and everything that comes back is read
// as replies. A byte that is not part of a whole reply fails the test, so a reply that was cut or mixed up shows.
import assert from "node:assert/strict";
import { once } from "node:events";
import type { IncomingHttpHeaders } from "node:http";
import { connect, type Socket } from "node:net";
import type { Answered, Body, Target } from "../http-api.js";

/** How long the server may be silent before the sender hangs up: it may be waiting for more, which is its right. */
const patienceMs = 150;

export async function dial({ port }: Target): Promise<Socket> {
  const socket = connect(port, "127.0.0.1");
  // A server that cuts us off may do so while we still write.
  socket.on("error", () => undefined);
  await once(socket, "connect");
  return socket;
}

/** Everything that the server answers to these bytes until one side hangs up. */
export async function exchange(server: Target, bytes: string | Buffer): Promise<Answered[]> {
  const socket = await dial(server);
  const chunks: Buffer[] = [];
  socket.on("data", (chunk: Buffer) => chunks.push(chunk));
  socket.setTimeout(patienceMs, () => socket.end());
  socket.write(typeof bytes === "string" ? Buffer.from(bytes, "latin1") : bytes);
  await once(socket, "close");
  return replies(Buffer.concat(chunks), /^HEAD /.test(bytes.toString("latin1")));
}

/** A reply to HEAD tells the length of what it leaves out; what else may follow in its place begins with a brace. */
function replies(bytes: Buffer, isHead: boolean): Answered[] {
  const found: Answered[] = [];
  for (let rest = bytes; rest.length > 0; ) {
    const head = rest.indexOf("\r\n\r\n");
    const [line = "", ...lines] = rest.subarray(0, head).toString("latin1").split("\r\n");
    const status = Number(/^HTTP\/1\.1 (\d{3}) [\w -]+$/.exec(line)?.[1]);
    assert.ok(head > 0 && status, `no reply: ${JSON.stringify(rest.toString("latin1").slice(0, 200))}`);
    const headers: IncomingHttpHeaders = {};
    for (const each of lines) {
      const [, name = "", value = ""] = /^([\w-]+): ([ -~]*)$/.exec(each) ?? [];
      assert.ok(name, `no header: ${JSON.stringify(each)}`);
      headers[name.toLowerCase()] = value;
    }
    const isBare = status === 100 || (isHead && rest[head + 4] !== 0x7b);
    const end = head + 4 + (isBare ? 0 : Number(headers["content-length"] ?? 0));
    assert.ok(rest.length >= end, `a reply ends after ${rest.length} of ${end} bytes`);
    const text = rest.subarray(head + 4, end).toString();
    const isJson = /json/.test(headers["content-type"] ?? "") && text !== "";
    if (status !== 100)
      found.push({ status, headers, text, body: (isJson ? JSON.parse(text) : text) as Body });
    rest = rest.subarray(end);
  }
  return found;
}
