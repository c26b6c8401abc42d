// A backup is taken under load, more is granted, and then the server goes on from the backup. What was granted in
// between is forgotten and what was held is over; but no token comes twice, and nobody is granted a name while a
// lease that was granted before can still be alive.
import { join } from "node:path";
import { temporaryDir } from "../../server.js";
import { again, between, type Fault, now, sleep } from "./fault.js";

/** The longest TTL of a workload: as long the server grants nothing after it was restored. */
const quietMs = 5000;

export const restore: Fault = {
  name: "restore",
  says: "the server goes on from a backup that was taken under load",
  needs: [],
  share: 0.1,
  minimums: { inFlight: 4 },
  arrange: () => {
    const dir = temporaryDir("holdfast-copies-");
    let copies = 0;
    return {
      during: (scene, over) =>
        again(scene, over, async () => {
          const file = join(dir, `copy-${copies++}.db`);
          await scene.engine.backUp(scene.server, file);
          await sleep(between(scene, 300, 1500));
          const from = now();
          scene.server = await scene.engine.restore(scene.server, file);
          scene.struck(from, now());
          scene.quiet({ from, to: now() + quietMs });
          // Something must be granted before the next time.
          await sleep(quietMs, over);
        }),
    };
  },
};
