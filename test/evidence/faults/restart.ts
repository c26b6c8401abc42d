// An orderly restart of whatever keeps the data.
import { isReplaced, seen } from "../proofs.js";
import { again, type Fault, now } from "./fault.js";

export const restart: Fault = {
  name: "restart",
  says: "the database ends in an orderly way and starts again",
  proof: "the process ended with 0, and another answered",
  needs: [],
  share: 0.25,
  minimums: { inFlight: 10 },
  arrange: () => ({
    during: (scene, over) =>
      again(scene, over, async () => {
        const { server, engine } = scene;
        const from = now();
        scene.server = await engine.bounce(server);
        const window = { from, to: now() };
        scene.struck(window, seen(await isReplaced(server, scene.server, 0)));
      }),
  }),
};
