// Nothing passes between one server and the database for a while, and callers still reach that server; the other goes on.
import { nobodyServed } from "../proofs.js";
import { again, beyondTtl, databaseOf, type Fault } from "./fault.js";

export const databasePartition: Fault = {
  name: "database-partition",
  says: "nothing passes between a server and the database for 1.2 to 5 TTLs",
  proof: "nobody who asks that server was granted anything while it lasted",
  needs: [],
  share: 0.2,
  minimums: { inFlight: 8 },
  arrange: () => ({
    during: (scene, over) =>
      again(scene, over, async () => {
        const nth = Math.floor(scene.random() * scene.nodes.length);
        const [node, wires] = [scene.nodes[nth], databaseOf(scene).wires[nth]];
        if (node === undefined || wires === undefined) throw new Error(`no wires of server ${nth}`);
        const window = await beyondTtl(
          scene,
          over,
          () => {
            for (const wire of wires) wire.part();
          },
          () => {
            for (const wire of wires) wire.heal();
          },
        );
        if (window === null) return;
        scene.upset(window);
        scene.struck(window, nobodyServed(node, window));
      }),
  }),
};
