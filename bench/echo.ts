// The bare `node:http` server that everything is compared with: reads the whole request body, then answers 200
// with a fixed JSON body. Its argument maps a kind of request (the last path segment of a POST, or GET) to the
// reply to give, which is a reply the measured server gave: same size, and the load generator finds in it what
// it looks for. Says its port over IPC and lives as long as the bench that started it.

import { createServer } from "node:http";

const replies = new Map<string, string>(Object.entries(JSON.parse(process.argv[2] ?? "{}")));

const server = createServer((request, response) => {
  let size = 0;
  request.on("data", (chunk: Buffer) => {
    size += chunk.length;
  });
  request.on("end", () => {
    const url = request.url ?? "";
    const kind = request.method === "GET" ? "GET" : url.slice(url.lastIndexOf("/") + 1);
    const body = replies.get(kind) ?? JSON.stringify({ size });
    response.writeHead(200, {
      "Content-Type": "application/json",
      "Content-Length": Buffer.byteLength(body),
    });
    response.end(body);
  });
});
server.keepAliveTimeout = 120_000;
server.listen(0, "127.0.0.1", () => {
  const address = server.address();
  if (address !== null && typeof address === "object") process.send?.({ port: address.port });
});
process.on("disconnect", () => process.exit(0));
