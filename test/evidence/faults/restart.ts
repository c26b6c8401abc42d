// An orderly restart of whatever keeps the data.
import { isReplaced, seen } from "../proofs.js";
import { again, type Fault, now, oneOf } from "./fault.js";

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
        const node = oneOf(scene);
        const { server } = node;
        const from = now();
        node.server = await scene.engine.bounce(server);
        const window = { from, to: now() };
        scene.upset(window);
        scene.struck(window, seen(await isReplaced(server, node.server, 0)));
      }),
  }),
};
