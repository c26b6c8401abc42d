// What decides in the database is stopped for longer than leases last, and goes on as if nothing had been: all of PostgreSQL,
// of etcd the leader.
import { seen } from "../proofs.js";
import { again, beyondTtl, databaseOf, type Fault } from "./fault.js";

export const databaseStop: Fault = {
  name: "database-stop",
  says: "SIGSTOP of the database, or of its leader, for 1.2 to 5 TTLs",
  proof: "the system said at the end that it was stopped",
  needs: [],
  share: 0.1,
  minimums: { inFlight: 6 },
  arrange: () => ({
    during: (scene, over) =>
      again(
        scene,
        over,
        async () => {
          const frozen = await databaseOf(scene).freeze();
          let wasStopped = false;
          const window = await beyondTtl(
            scene,
            over,
            () => undefined,
            () => {
              wasStopped = frozen.isStopped();
              frozen.thaw();
            },
          );
          if (window === null) return;
          scene.upset(window);
          scene.struck(window, seen(wasStopped));
        },
        { fromMs: 2000, toMs: 3000 },
      ),
  }),
};
