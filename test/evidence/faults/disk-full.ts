// The disk is full, and after a while there is room again.
import { temporaryDir } from "../../server.js";
import { fillDisk, smallDisk } from "../../system-small-disk.js";
import { again, between, type Fault, now, sleep } from "./fault.js";

/** Holds some seconds of log. */
const diskBytes = 8 * 2 ** 20;

export const diskFull: Fault = {
  name: "disk-full",
  says: "the disk is full for a while",
  needs: ["unshare", "mount"],
  share: 0.25,
  minimums: { inFlight: 8, refused: 30 },
  arrange: () => ({
    options: smallDisk(temporaryDir("holdfast-full-"), diskBytes),
    during: (scene, over) =>
      again(scene, over, async () => {
        const from = now();
        const ballast = fillDisk(scene.server);
        await sleep(between(scene, 300, 2000), over);
        ballast.remove();
        scene.struck(from, now());
      }),
  }),
};
