// A backup is taken under load, more is granted, and then the server goes on from the backup. What was granted in
// between is forgotten and what was held is over; but no token comes twice, and nobody is granted a name while a
// lease that was granted before can still be alive.
import { join } from "node:path";
import { call, type Server, temporaryDir } from "../../server.js";
import { until } from "../../system-client.js";
import { operator } from "../principals.js";
import { seen } from "../proofs.js";
import { again, between, type Fault, firstOf, now, sleep } from "./fault.js";

/** The longest TTL of a workload: as long the server grants nothing after it was restored. */
const quietMs = 5000;

/** More than are granted in a cell. */
const jumpMin = 2 ** 30;

export const restore: Fault = {
  name: "restore",
  says: "the server goes on from a backup that was taken under load",
  proof: "a free name was `delayed`, and when it was granted again its token had jumped",
  needs: [],
  share: 0.1,
  minimums: { inFlight: 4 },
  arrange: () => {
    const dir = temporaryDir("holdfast-copies-");
    let copies = 0;
    return {
      during: (scene, over) =>
        again(scene, over, async () => {
          const node = firstOf(scene);
          const file = join(dir, `copy-${copies++}.db`);
          await scene.engine.backUp(node.server, file);
          await sleep(between(scene, 300, 1500));
          const before = await granted(node.server);
          const from = now();
          node.server = await scene.engine.restore(node.server, file);
          const window = { from, to: now() };
          scene.quiet({ from, to: now() + quietMs });
          // Something must be granted before the next time.
          const after = await granted(node.server);
          const hasJumped = after.token - before.token > jumpMin;
          scene.struck(window, seen(after.delays > 0 && hasJumped));
        }),
    };
  },
};

/** Takes a name and lets go of it: how often nobody was allowed to have it yet, and its token. */
async function granted(server: Server): Promise<{ readonly delays: number; readonly token: number }> {
  const ask = (verb: string, body: object): ReturnType<typeof call<Answer>> =>
    call<Answer>(server, "POST", `/locks/restore-probe/${verb}`, { token: operator.bearer, body });
  let delays = 0;
  const { lease_id, fencing_token: token } = await until(async () => {
    const { body } = await ask("acquire", { ttl_seconds: 1 });
    if (body.code === "delayed") delays++;
    return body.status === "acquired" ? body : undefined;
  }, "the name is granted");
  await ask("release", { lease_id });
  return { delays, token };
}

interface Answer {
  readonly status: string;
  readonly code?: string;
  readonly lease_id: string;
  readonly fencing_token: number;
}
