// Requests that reach the server twice, at once or seconds later. The second is a call of its own: its reply, which
// the caller never sees, is judged with the others.
import { operationOf } from "../requests.js";
import { between, type Fault } from "./fault.js";
import { strikeSome } from "./network.js";

export const duplicates: Fault = {
  name: "duplicates",
  says: "requests arrive twice, up to 3 s apart",
  proof: "the second reply was seen",
  needs: [],
  isByRequest: true,
  isProxied: true,
  share: 0.4,
  minimums: { inFlight: 100, sameLease: 10 },
  arrange: () => {
    let nth = 0;
    return {
      during: (scene, over) =>
        strikeSome(
          scene,
          over,
          0.1,
          () => ({ kind: "duplicate", ms: scene.random() < 0.5 ? 0 : between(scene, 10, 3000) }),
          (struck, node) => {
            // Each place is asked by recorders of its own.
            const recorder = `again-${scene.nodes.indexOf(node)}`;
            const operation = { ...operationOf(struck, `again-${nth++}`), recorder };
            scene.also(operation);
            if (operation.call.op === "acquire" && operation.call.requestId !== null)
              if (operation.reply.kind === "granted") scene.count("sameLease");
            return struck.answer !== null;
          },
        ),
    };
  },
};
