// The database cuts off one of those who are connected, five times a second.
import { seen } from "../proofs.js";
import { again, databaseOf, type Fault, now } from "./fault.js";

export const backends: Fault = {
  name: "backends",
  says: "the database ends one of its connections, five times a second",
  proof: "it said so",
  needs: [],
  share: 0.2,
  minimums: { inFlight: 60 },
  arrange: () => ({
    during: (scene, over) => {
      const { cutOne } = databaseOf(scene);
      if (cutOne === undefined) throw new Error("the database keeps nobody connected");
      return again(
        scene,
        over,
        async () => {
          const from = now();
          const connected = await cutOne(scene.random);
          // A server that waits for a new connection hears of nothing.
          scene.upset({ from, to: now() });
          scene.struck({ from, to: now() }, seen(connected > 0));
        },
        { fromMs: 150, toMs: 250 },
      );
    },
  }),
};
