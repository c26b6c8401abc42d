// An orderly restart of whatever keeps the data.
import { again, type Fault, now } from "./fault.js";

export const restart: Fault = {
  name: "restart",
  says: "the database ends in an orderly way and starts again",
  needs: [],
  share: 0.25,
  minimums: { inFlight: 10 },
  arrange: () => ({
    during: (scene, over) =>
      again(scene, over, async () => {
        const from = now();
        scene.server = await scene.engine.bounce(scene.server);
        scene.struck(from, now());
      }),
  }),
};
