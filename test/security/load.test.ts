// Hostile load on one server: slow clients, and floods by one token while another works. One slow client must be
// waited for; everything else runs beside it.
import { after, before, describe, test } from "node:test";
import { type Server, startServer } from "../server.js";
import { floods, streamsMax, waitersMax } from "./floods.js";
import { drippingBody, slowClients } from "./slow-clients.js";
import { assertQuietLog } from "./soundness.js";

let server: Server;

before(async () => {
  server = await startServer({
    env: {
      HOLDFAST_RATE_LIMIT: "off",
      HOLDFAST_OVERLOAD_MS: "off", // that this machine is busy is for another test
      HOLDFAST_WAITERS_MAX: String(waitersMax),
      HOLDFAST_STREAMS_MAX: String(streamsMax),
    },
  });
});
after(async () => {
  await server.stop();
  assertQuietLog(server);
});

describe("hostile load", { concurrency: 2 }, () => {
  test("a body that drips in is cut off with 408, and has done nothing", () => drippingBody(server));

  describe("beside it", { concurrency: 1 }, () => {
    for (const [what, run] of Object.entries(slowClients)) test(what, () => run(server));
    for (const [what, run] of Object.entries(floods)) test(`floods by one token, ${what}`, () => run(server));
  });
});
