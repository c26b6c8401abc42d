// The sync of a commit fails: what was in it is uncertain, what came after it is refused, until the file was opened
// and read again. test/system-commit-failure.test.ts shows each of these steps for itself.

import { until } from "../../system-client.js";
import { seen, showsWithinMs } from "../proofs.js";
import { again, type Fault, firstOf, now, sleep } from "./fault.js";

export const fsync: Fault = {
  name: "fsync",
  says: "the sync of a commit fails",
  proof: "the trace shows the failed sync",
  needs: ["strace"],
  share: 0.3,
  minimums: { inFlight: 8, uncertain: 8 },
  arrange: () => ({
    during: (scene, over) =>
      again(scene, over, async () => {
        const tracer = await scene.disk.failSyncs(firstOf(scene).server.pid, "when=1");
        const from = now();
        const failed = (): true | undefined => (tracer.output().includes("INJECTED") ? true : undefined);
        const hasFailed = await until(failed, "a sync failed", showsWithinMs).catch(() => false);
        scene.struck({ from, to: now() }, seen(hasFailed));
        await sleep(100);
        await tracer.detach();
      }),
  }),
};
