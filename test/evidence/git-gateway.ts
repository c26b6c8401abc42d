// A server's face for the locks of a repository, so that what calls servers can call those who have none: what a command
// would do by itself in a worktree is done here for whoever asks over HTTP. Each bearer token is an actor of its own.
// Started as a server is, in the worktree, with the authority behind `serve`.
import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { policyDefault } from "../../src/core/limits.js";
import { findRepository, openRepository } from "../../src/engines/open.js";
import { repositoryFetch } from "../../src/faces/cli/repository/repository-fetch.js";
import { Routes } from "../../src/faces/cli/repository/routes.js";
import { Instants } from "../../src/faces/http/instants.js";
import { Presenter } from "../../src/faces/http/present.js";
import { SoloLeases } from "../../src/service/solo-leases.js";
import { systemClocks } from "../../src/store/clock.js";

const { HOLDFAST_TOKENS = "", HOLDFAST_ADMIN_TOKEN = "", HOLDFAST_PORT } = process.env;
const repository = await findRepository(process.cwd(), process.env);
const store = await openRepository(repository, { authority: process.argv[3] ?? "local", session: null });
const leases = new SoloLeases(store, policyDefault);
const present = new Presenter(new Instants(systemClocks, () => store.now()));

/** By bearer token. What it proves its leases by follows from the token: it may ask anywhere, and after any end. */
const actors = new Map(
  [...HOLDFAST_TOKENS.split(","), `operator:${HOLDFAST_ADMIN_TOKEN}`].map((entry) => {
    const [id = "", bearer = ""] = entry.split(":");
    const secret = createHash("sha256").update(bearer).digest();
    const routes = new Routes(leases, { id, secret }, present);
    return [bearer, repositoryFetch(async () => routes)] as const;
  }),
);

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { method = "GET", url = "/", headers } = request;
  if (url === "/ready") return void response.end("{}");
  const ask = actors.get(headers.authorization?.replace(/^Bearer /, "") ?? "");
  if (ask === undefined) return void response.writeHead(401).end("{}");
  const gone = new AbortController();
  response.once("close", () => gone.abort());
  let body = "";
  for await (const chunk of request.setEncoding("utf8")) body += chunk as string;
  const asked = { method, signal: gone.signal, ...(body === "" ? {} : { body }) };
  const reply = await ask(`http://repository.invalid${url}`, asked);
  const text = await reply.text();
  const length = { "content-type": "application/json", "content-length": Buffer.byteLength(text) };
  // Who asks again is to ask the next.
  const isLast = server.listening ? {} : { connection: "close" };
  response.writeHead(reply.status, { ...length, ...isLast }).end(text);
}

const server = createServer((request, response) => {
  // Who has left hears nothing; whatever else goes wrong ends the connection, so that nothing looks like an answer.
  answer(request, response).catch(() => response.destroy());
});
server.listen(Number(HOLDFAST_PORT), "127.0.0.1");
process.once("SIGTERM", async () => {
  server.close();
  server.closeIdleConnections();
  await once(server, "close");
  await store.close();
  process.exit(0);
});
