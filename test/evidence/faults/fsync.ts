// The sync of a commit fails: what was in it is uncertain, what came after it is refused, until the file was opened
// and read again. test/system-commit-failure.test.ts shows each of these steps for itself.

import { until } from "../../system-client.js";
import { failSyncs } from "../../system-tracer.js";
import { again, type Fault, now, sleep } from "./fault.js";

export const fsync: Fault = {
  name: "fsync",
  says: "the sync of a commit fails",
  needs: ["strace"],
  share: 0.3,
  minimums: { inFlight: 8, unknown: 8 },
  arrange: () => ({
    during: (scene, over) =>
      again(scene, over, async () => {
        const tracer = await failSyncs(scene.server.pid, "when=1");
        await until(() => (tracer.output().includes("INJECTED") ? true : undefined), "a sync failed");
        scene.struck(now());
        await sleep(100);
        await tracer.detach();
      }),
  }),
};
