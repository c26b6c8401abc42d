// The database ends as in a crash and starts again: a server of PostgreSQL without a word to anybody, the leader of etcd by kill -9.
import { seen } from "../proofs.js";
import { again, databaseOf, type Fault, now } from "./fault.js";

export const databaseRestart: Fault = {
  name: "database-restart",
  says: "the database crashes and starts again",
  proof: "another process answered",
  needs: [],
  share: 0.2,
  minimums: { inFlight: 8 },
  arrange: () => ({
    during: (scene, over) =>
      again(
        scene,
        over,
        async () => {
          const from = now();
          const isReplaced = await databaseOf(scene).crash();
          const window = { from, to: now() };
          scene.upset(window);
          scene.struck(window, seen(isReplaced));
        },
        { fromMs: 1500, toMs: 3000 },
      ),
  }),
};
