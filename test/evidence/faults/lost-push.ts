// Pushes that reach the remote and whose answer is lost, and others that the remote never hears of: who pushed cannot
// tell which it was.
import { seen } from "../proofs.js";
import type { Fault } from "./fault.js";

/** Of all pushes, and of those the ones that never arrive. */
const struckShare = 0.15;
const cutShare = 0.4;

export const lostPush: Fault = {
  name: "lost-push",
  says: "the answer to a push is lost after the remote's commit, or the push before it",
  proof:
    "the remote said that it had changed its references, and the clone was cut off; or it was cut off before",
  needs: ["git"],
  isByRequest: true,
  share: 0.5,
  minimums: { inFlight: 100, landed: 40, cut: 20 },
  arrange: () => ({
    during: async (scene, over) => {
      const { pushes } = scene;
      if (pushes === null) throw new Error("nothing is pushed");
      pushes.onStruck = ({ fate, began, ended, hasLanded }) => {
        if (hasLanded) scene.count("landed");
        if (fate === "cut") scene.count("cut");
        scene.struck({ from: began, to: ended }, seen(hasLanded || fate === "cut"));
      };
      pushes.fateOf = () => {
        if (scene.random() >= struckShare) return "pass";
        return scene.random() < cutShare ? "cut" : "lose-answer";
      };
      await new Promise<void>((resolve) => over.addEventListener("abort", () => resolve(), { once: true }));
      pushes.fateOf = () => "pass";
    },
  }),
};
