// kill -9 of a server in the middle of its work, and a start on the data that it left.
import { endsSoon, isReplaced, seen } from "../proofs.js";
import { again, type Fault, now, oneOf } from "./fault.js";

export const kill: Fault = {
  name: "kill",
  says: "kill -9 of a server, and a new start",
  proof: "the process was ended by the signal, and another answered",
  needs: [],
  share: 0.25,
  minimums: { inFlight: 10, lost: 10 },
  arrange: () => ({
    during: (scene, over) =>
      again(scene, over, async () => {
        const node = oneOf(scene);
        const { server } = node;
        const from = now();
        server.kill("SIGKILL");
        const hasEnded = await endsSoon(server);
        if (hasEnded) node.server = await server.restart();
        scene.upset({ from, to: now() });
        scene.struck({ from, to: from }, seen(hasEnded && (await isReplaced(server, node.server, null))));
      }),
  }),
};
